"""Instances of the wire types, by the names of their definitions in the specification's schemas."""

import msgspec

from backchannel.protocol.types.base import Annotations, Icon, Implementation, Wire
from backchannel.protocol.types.bringup import DiscoverResult, InitializeParams, InitializeResult
from backchannel.protocol.types.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from backchannel.protocol.types.elicitation import ElicitParams, ElicitResult
from backchannel.protocol.types.mrtr import InputRequest, InputRequiredResult
from backchannel.protocol.types.requests import (
    LEVELS,
    CallToolParams,
    CancelledParams,
    GetPromptParams,
    LogParams,
    PageParams,
    ProgressParams,
    ReadResourceParams,
    RequestMeta,
    RequestParams,
    SetLevelParams,
)
from backchannel.protocol.types.roots import ListRootsResult, Root
from backchannel.protocol.types.sampling import (
    CreateMessageParams,
    CreateMessageResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
    answer,
)
from backchannel.protocol.types.tools import (
    CallToolResult,
    ListToolsResult,
    Tool,
    ToolAnnotations,
)
from backchannel.protocol.versions import Version

V24, V_MAR, V_JUN, V_NOV, V26 = Version
META = {"acme.com/a": [1]}
NOTES = Annotations(["user", "assistant"], 0.5, "2025-01-12T15:00:58Z")
ICON = Icon("https://example.com/i.png", "image/png", ["48x48", "any"], "dark")
ENVELOPE = RequestMeta("token", "2026-07-28", Implementation("client", "1"), {"elicitation": {}}, "info")
TEXT = TextContent("hello", NOTES, META)
RESOURCE = ResourceContents("note://1", text="t", mime_type="text/plain", meta=META)
BLOB = ResourceContents("note://2", blob="AAAA", mime_type="image/png", meta=META)
TOOL = Tool(
    "shop",
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "Shop",
    "Buys",
    {"type": "object", "properties": {}},
    ToolAnnotations("Shop", False, True, False, True),
    [ICON],
    META,
)
USE, GAVE = ToolUseContent("u", "shop", {"a": 1}, META), ToolResultContent("u", [TEXT], {"a": 1}, False, META)
TALK = [
    SamplingMessage("user", TextContent("hi")),
    SamplingMessage("assistant", [USE]),
    SamplingMessage("user", [GAVE], META),
]
PREFERENCES = ModelPreferences([ModelHint("claude")], 0.1, 0.2, 0.3)
SAMPLE = CreateMessageParams(
    TALK, 100, PREFERENCES, "Be brief.", "none", 0.5, ["END"], {"a": 1}, [TOOL], ToolChoice("auto"), META
)
FORM = ElicitParams("Size?", "form", {"type": "object", "properties": {"size": {"type": "string"}}}, meta=META)
REQUESTS = {"k": InputRequest("elicitation/create", FORM), "r": InputRequest("roots/list")}

# definition -> instances, each with all its members at least once, and the versions that have it.
ALL, FROM_MAR, FROM_JUN, FROM_NOV = (
    (V24, V_MAR, V_JUN, V_NOV, V26),
    (V_MAR, V_JUN, V_NOV, V26),
    (V_JUN, V_NOV, V26),
    (V_NOV, V26),
)
INSTANCES: dict[str, tuple[tuple[Version, ...], list[Wire | RequestMeta]]] = {
    "Implementation": (ALL, [Implementation("s", "1", "S", "A server", "https://example.com", [ICON])]),
    "Icon": (FROM_NOV, [ICON, Icon("data:image/png;base64,AAAA")]),
    "Annotations": (FROM_MAR, [NOTES, Annotations()]),
    "TextContent": (ALL, [TEXT, TextContent("")]),
    "ImageContent": (ALL, [ImageContent("AAAA", "image/png", NOTES, META)]),
    "AudioContent": (FROM_MAR, [AudioContent("AAAA", "audio/wav", NOTES, META)]),
    "ResourceLink": (
        FROM_JUN,
        [ResourceLink("note://1", "n", "N", "A note", "text/plain", 5, [ICON], NOTES, META), ResourceLink("n:1", "n")],
    ),
    "EmbeddedResource": (ALL, [EmbeddedResource(RESOURCE, NOTES, META), EmbeddedResource(BLOB)]),
    "TextResourceContents": (ALL, [RESOURCE]),
    "BlobResourceContents": (ALL, [BLOB]),
    "ToolUseContent": (FROM_NOV, [USE]),
    "ToolResultContent": (FROM_NOV, [GAVE, ToolResultContent("u", [])]),
    "Tool": (ALL, [TOOL, Tool("bare", {"type": "object"})]),
    "ToolAnnotations": (FROM_MAR, [ToolAnnotations("T", True, False, True, False), ToolAnnotations()]),
    "Root": (ALL, [Root("file:///srv", "srv", META), Root("file:///srv")]),
    "ListRootsResult": (ALL, [ListRootsResult([Root("file:///srv")], META), ListRootsResult([])]),
    "ModelHint": (ALL, [ModelHint("claude"), ModelHint()]),
    "ModelPreferences": (ALL, [PREFERENCES, ModelPreferences()]),
    "ToolChoice": (FROM_NOV, [ToolChoice("required"), ToolChoice()]),
    "SamplingMessage": (FROM_NOV, [*TALK]),
    "CreateMessageRequestParams": (FROM_NOV, [SAMPLE, CreateMessageParams([], 1)]),
    "CreateMessageResult": (
        ALL,
        [CreateMessageResult("assistant", TextContent("hi"), "model", "endTurn", META), answer("hi")],
    ),
    "ElicitRequestFormParams": (FROM_NOV, [FORM, ElicitParams("?", None, {"type": "object", "properties": {}})]),
    "ElicitRequestURLParams": (FROM_NOV, [ElicitParams("?", "url", None, "https://example.com", "id-1", META)]),
    "ElicitResult": (FROM_JUN, [ElicitResult("accept", {"size": "L"}, META), ElicitResult("decline")]),
    "InputRequest": ((V26,), list(REQUESTS.values())),
    "InputRequiredResult": (
        (V26,),
        [
            InputRequiredResult(
                result_type="input_required", input_requests=REQUESTS, request_state="s", meta={"acme.com/a": 1}
            )
        ],
    ),
    "RequestMetaObject": ((V26,), [ENVELOPE]),
    "RequestParams": ((V26,), [RequestParams(meta=ENVELOPE)]),
    "PaginatedRequestParams": ((V26,), [PageParams(meta=ENVELOPE, cursor="c")]),
    "CallToolRequestParams": (
        (V26,),
        [
            CallToolParams(
                meta=ENVELOPE,
                name="shop",
                arguments=msgspec.Raw(b'{"a":1}'),
                input_responses={"k": msgspec.Raw(b'{"action":"decline"}')},
                request_state="s",
            )
        ],
    ),
    "GetPromptRequestParams": (
        (V26,),
        [GetPromptParams(meta=ENVELOPE, name="p", arguments={"a": "b"}, input_responses={}, request_state="s")],
    ),
    "ReadResourceRequestParams": (
        (V26,),
        [ReadResourceParams(meta=ENVELOPE, uri="note://1", input_responses={}, request_state="s")],
    ),
    "InitializeRequestParams": (
        (V_NOV,),
        [
            InitializeParams(
                meta=RequestMeta("token"),
                protocol_version="2025-11-25",
                capabilities={"roots": {"listChanged": True}},
                client_info=Implementation("c", "1"),
            )
        ],
    ),
    "InitializeResult": (
        (V24, V_MAR, V_JUN, V_NOV),
        [InitializeResult("2025-11-25", {"tools": {}}, Implementation("s", "1"), "Do this.", META)],
    ),
    "SetLevelRequestParams": ((V_NOV,), [SetLevelParams(meta=RequestMeta("t"), level=level) for level in LEVELS]),
    "CancelledNotificationParams": (FROM_NOV, [CancelledParams(1, "why", META), CancelledParams("x")]),
    "ProgressNotificationParams": (FROM_NOV, [ProgressParams("t", 1, 2.5, "m", META), ProgressParams(1, 0.5)]),
    "LoggingMessageNotificationParams": (
        FROM_NOV,
        [LogParams("info", {"a": 1}, "logger", META), *(LogParams(level, None) for level in LEVELS)],
    ),
}
UNFINISHED = {
    "CallToolResult": CallToolResult([TEXT, USE], {"a": 1}, False, META),
    "ListToolsResult": ListToolsResult([TOOL], "c", 0, "private", META),
    "DiscoverResult": DiscoverResult(["2026-07-28"], {"tools": {}}, "Do this.", 0, "private", META),
}
"""Results that are whole only when `versions.finish` has been at them; test_versions checks them."""
