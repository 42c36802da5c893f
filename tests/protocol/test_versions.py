"""The differences between versions, as the specification's schemas have them."""

from typing import Any

import msgspec
import pytest

from backchannel.protocol.jsonrpc import encode
from backchannel.protocol.types.base import Icon, Implementation, Wire
from backchannel.protocol.types.bringup import DiscoverResult, InitializeResult
from backchannel.protocol.types.content import (
    AudioContent,
    EmbeddedResource,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from backchannel.protocol.types.tools import CallToolResult, ListToolsResult, Tool, ToolAnnotations
from backchannel.protocol.versions import (
    ASSUMED,
    FEATURES,
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    META_SERVER_INFO,
    MODERN,
    SUPPORTED,
    Era,
    Version,
    choose,
    finish,
    is_legacy,
    is_modern,
    negotiate,
    parse,
    served,
)
from tests.protocol.schemas import definitions, needs_schemas, schema_errors

INFO = Implementation("server", "1.0", title="Server", icons=[Icon("https://example.com/i.png")])
V24, V_MAR, V_JUN, V_NOV, V26 = Version


def finished(version: Version, method: str, result: Any) -> dict[str, Any]:
    """A result as it goes over the wire at a version."""
    members = result.members() if isinstance(result, Wire) else dict(result)
    wire: dict[str, Any] = msgspec.json.decode(encode(finish(version, method, members, INFO)))
    return wire


# Names.


def test_the_versions_and_their_eras() -> None:
    assert [version.value for version in SUPPORTED] == [
        "2026-07-28",
        "2025-11-25",
        "2025-06-18",
        "2025-03-26",
        "2024-11-05",
    ]
    assert MODERN == (V26,) and LEGACY == SUPPORTED[1:]
    assert (LATEST_MODERN, LATEST_LEGACY, ASSUMED) == (V26, V_NOV, V_MAR)
    assert [version.era is Era.MODERN for version in SUPPORTED] == [version.is_modern for version in SUPPORTED]
    assert set(FEATURES) == set(Version)


def test_a_version_is_its_name() -> None:
    assert V26 == "2026-07-28" and f"{V26}" == "2026-07-28" and encode(V26) == b'"2026-07-28"'


@pytest.mark.parametrize("name", ["", "2026", "2026-07-28 ", "2099-01-01", "v999.0.0", "DRAFT-2026-v1", "2026-07-28\n"])
def test_a_name_that_nobody_knows_is_of_no_era(name: str) -> None:
    assert parse(name) is None and not is_legacy(name) and not is_modern(name)


def test_a_known_name_is_of_one_era() -> None:
    for version in SUPPORTED:
        assert parse(version.value) is version
        assert (is_legacy(version.value), is_modern(version.value)) == (version in LEGACY, version in MODERN)


@pytest.mark.rule("R92")
@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        *((version.value, version) for version in LEGACY),
        ("2026-07-28", V_NOV),  # never by `initialize`
        ("2099-01-01", V_NOV),
        ("2024-10-07", V_NOV),
        ("", V_NOV),
    ],
)
def test_initialize_answers_the_offer_or_the_latest_legacy_version(offer: str, answer: Version) -> None:
    assert negotiate(offer) is answer


@pytest.mark.parametrize(
    ("supported", "choice"),
    [
        (["2025-11-25", "2026-07-28"], V26),
        (["2024-11-05", "2099-01-01", "2025-06-18"], V_JUN),
        (["2099-01-01"], None),
        ([], None),
    ],
)
def test_the_client_chooses_the_newest_of_both(supported: list[str], choice: Version | None) -> None:
    assert choose(supported) is choice


def test_a_client_is_not_told_to_try_again_what_it_just_tried() -> None:
    assert served("v999.0.0") == served("2026-07-29") == [version.value for version in SUPPORTED]
    for version in LEGACY:
        assert served(version.value) == ["2026-07-28"]


# The table, against the schemas.


@needs_schemas
@pytest.mark.parametrize("version", SUPPORTED)
def test_the_features_are_those_of_the_schema(version: Version) -> None:
    known, features = definitions(version), FEATURES[version]
    text = str(known["CallToolResult"]["properties"]["content"]) + str(known.get("ContentBlock"))
    assert features.audio == ("AudioContent" in text)
    assert features.resource_links == ("ResourceLink" in text)
    assert features.batches == ("JSONRPCBatchRequest" in known)
    structured = known["CallToolResult"]["properties"].get("structuredContent")
    kinds = {"none": structured is None, "object": (structured or {}).get("type") == "object"}
    assert features.structured == next((kind for kind, applies in kinds.items() if applies), "any")
    assert features.tool == set(known["Tool"]["properties"]) - {"execution"}  # of the core tasks, which are not offered
    capability = known["ClientCapabilities"]["properties"].get("elicitation")
    assert bool(features.elicitation) == (capability is not None)
    assert features.elicitation_submodes == ("url" in str(capability)) == ("url" in features.elicitation)
    url = known.get("ElicitRequestURLParams", {"properties": {}})["properties"]
    assert features.url_elicitation_id == ("elicitationId" in url)
    sampling = str(known["ClientCapabilities"]["properties"]["sampling"])
    assert features.sampling_tools == ("'tools'" in sampling)
    assert features.sampling_context_gate == ("'context'" in sampling)
    forms = str([definition for name, definition in known.items() if name.endswith("Schema") or "Elicit" in name])
    assert features.form == ("none" if not features.elicitation else "titled" if "oneOf" in forms else "plain")


def test_a_feature_does_not_go_again_once_it_is_there() -> None:
    for field in ("audio", "resource_links", "elicitation_submodes", "sampling_tools", "version_header"):
        values = [getattr(FEATURES[version], field) for version in Version]
        assert values == sorted(values)


# finish().

LIST = ListToolsResult(
    [
        Tool("plain", {"type": "object"}),
        Tool(
            "full",
            {"type": "object", "properties": {"title": {"type": "string"}}},
            title="Full",
            description="All of it",
            output_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
            annotations=ToolAnnotations("Full", read_only_hint=True),
            icons=[Icon("https://example.com/i.png", "image/png", ["48x48"], "dark")],
            meta={"acme.com/a": 1},
        ),
        Tool("scalar", {"type": "object"}, output_schema={"type": "integer"}),
    ],
    next_cursor="more",
)
CALLS = {
    "object": CallToolResult([TextContent("{}")], {"a": [1]}),
    "raw object": CallToolResult([TextContent("{}")], msgspec.Raw(b'{"a": [1]}')),
    "spaced object": CallToolResult([TextContent("{}")], msgspec.Raw(b'\n {"a": 1}')),
    "spaced list": CallToolResult([TextContent("[]")], msgspec.Raw(b" [{}]")),
    "struct": CallToolResult([TextContent("{}")], Icon("https://example.com")),
    "array": CallToolResult([TextContent("[]")], [1]),
    "raw array": CallToolResult([TextContent("[]")], msgspec.Raw(b"[1]")),
    "scalar": CallToolResult([TextContent("1")], 1),
    "null": CallToolResult([TextContent("null")], None),
    "raw null": CallToolResult([TextContent("null")], msgspec.Raw(b"null")),
    "nothing": CallToolResult(),
    "failed": CallToolResult([TextContent("no")], is_error=True),
    "audio": CallToolResult([TextContent("listen"), AudioContent("AAAA", "audio/wav")]),
    "link": CallToolResult([ResourceLink("note://1", "note-1", title="A note")]),
    "embedded": CallToolResult([EmbeddedResource(ResourceContents("note://1", text="t"))]),
}
OBJECTS = {"object", "raw object", "spaced object", "struct"}


@needs_schemas
@pytest.mark.parametrize("version", SUPPORTED)
def test_finished_results_are_right_by_the_schema(version: Version) -> None:
    for name, call in CALLS.items():
        assert schema_errors(version, "CallToolResult", finished(version, "tools/call", call)) == [], name
    assert schema_errors(version, "ListToolsResult", finished(version, "tools/list", LIST)) == []
    if version.is_modern:
        discovered = DiscoverResult([version.value for version in SUPPORTED], {"tools": {}})
        assert schema_errors(version, "DiscoverResult", finished(version, "server/discover", discovered)) == []
    else:
        result = InitializeResult(version, {"tools": {}}, INFO)
        assert schema_errors(version, "InitializeResult", finished(version, "initialize", result)) == []


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("version", "carried"),
    [(V24, set()), (V_MAR, set()), (V_JUN, OBJECTS), (V_NOV, OBJECTS), (V26, set(CALLS))],
)
def test_structured_content_is_sent_where_it_can_be(name: str, version: Version, carried: set[str]) -> None:
    call = CALLS[name]
    sent = finished(version, "tools/call", call)
    if name in carried and call.structured_content is not msgspec.UNSET:
        assert sent["structuredContent"] == msgspec.json.decode(encode(call.structured_content))
    else:
        assert "structuredContent" not in sent
    assert sent.get("isError", False) == call.is_error


def test_what_a_version_cannot_show_is_told_in_text() -> None:
    assert finished(V24, "tools/call", CALLS["audio"])["content"] == [
        {"type": "text", "text": "listen"},
        {"type": "text", "text": "[audio/wav: protocol version 2024-11-05 has no audio]"},
    ]
    assert finished(V_MAR, "tools/call", CALLS["audio"])["content"][1]["type"] == "audio"
    assert finished(V_MAR, "tools/call", CALLS["link"])["content"] == [{"type": "text", "text": "A note: note://1"}]
    assert finished(V_JUN, "tools/call", CALLS["link"])["content"][0]["type"] == "resource_link"
    for version in SUPPORTED:
        assert finished(version, "tools/call", CALLS["embedded"])["content"][0]["type"] == "resource"


SINCE = {
    V24: {"name", "description", "inputSchema"},
    V_MAR: {"name", "description", "inputSchema", "annotations"},
    V_JUN: {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta"},
    V_NOV: {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta", "icons"},
    V26: {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta", "icons"},
}


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_tool_is_listed_with_the_members_of_its_version(version: Version) -> None:
    plain, full, scalar = finished(version, "tools/list", LIST)["tools"]
    assert set(plain) == {"name", "inputSchema"}
    assert set(full) == SINCE[version]
    assert full["inputSchema"] == {"type": "object", "properties": {"title": {"type": "string"}}}
    assert ("outputSchema" in scalar) == version.is_modern  # before, an output schema is an object's
    assert finished(version, "tools/list", LIST)["nextCursor"] == "more"


def test_listing_for_one_version_leaves_the_tools_as_they_are() -> None:
    before = encode(LIST)
    for version in SUPPORTED:
        finished(version, "tools/list", LIST)
    assert encode(LIST) == before


CACHEABLE = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
]
UNCACHEABLE = ["tools/call", "prompts/get", "completion/complete", "subscriptions/listen", "acme/thing"]


@pytest.mark.parametrize("method", CACHEABLE + UNCACHEABLE)
def test_cache_hints_are_on_complete_modern_results_of_the_methods_that_have_them(method: str) -> None:
    hints = {"ttlMs": 0, "cacheScope": "private"} if method in CACHEABLE else {}
    sent = finished(V26, method, {"tools": []})
    assert {name: sent[name] for name in ("ttlMs", "cacheScope") if name in sent} == hints
    asking = finished(V26, method, {"resultType": "input_required", "requestState": "s"})
    assert not {"ttlMs", "cacheScope"} & set(asking) and asking["resultType"] == "input_required"
    given = finished(V26, method, {"tools": [], "ttlMs": 5, "cacheScope": "public"})
    assert (given["ttlMs"], given["cacheScope"]) == (5, "public")


@needs_schemas
def test_the_methods_with_cache_hints_are_those_of_the_schema() -> None:
    known = definitions(V26)
    hinted = {name for name, definition in known.items() if "ttlMs" in definition.get("properties", {})}
    methods = {
        definition["properties"]["method"]["const"]
        for name, definition in known.items()
        if name.endswith("Request") and name.removesuffix("Request") + "Result" in hinted
    }
    assert methods == set(CACHEABLE)


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "resources/read", "acme/thing"])
def test_no_legacy_result_has_a_member_of_the_modern_ones(version: Version, method: str) -> None:
    given = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public", "tools": [], "content": [], "a": 1}
    sent = finished(version, method, given)
    assert sent == {"tools": [], "content": [], "a": 1}


@pytest.mark.parametrize("version", LEGACY)
def test_the_result_of_another_method_is_left_alone(version: Version) -> None:
    given = {"structuredContent": [1], "content": [{"type": "audio"}], "tools": [{"icons": []}]}
    assert finished(version, "acme/thing", given) == given


@pytest.mark.parametrize("version", LEGACY)
def test_tools_may_be_plain_objects(version: Version) -> None:
    tools = [{"name": "a", "inputSchema": {}, "acme.com/a": 1}]
    assert finished(version, "tools/list", {"tools": tools}) == {"tools": [{"name": "a", "inputSchema": {}}]}


def test_every_modern_result_says_its_type_and_who_sends_it() -> None:
    sent = finished(V26, "tools/call", CallToolResult(meta={"acme.com/a": 1}))
    assert sent["resultType"] == "complete"
    assert sent["_meta"]["acme.com/a"] == 1
    assert sent["_meta"][META_SERVER_INFO]["name"] == "server"
    mine = {META_SERVER_INFO: {"name": "mine", "version": "2"}}
    assert finished(V26, "acme/thing", {"_meta": mine})["_meta"] == mine
    assert finished(V26, "acme/thing", {"_meta": None})["_meta"][META_SERVER_INFO]["version"] == "1.0"


@pytest.mark.parametrize("version", LEGACY)
def test_meta_goes_through_on_legacy_as_it_is(version: Version) -> None:
    assert finished(version, "tools/call", CallToolResult(meta={"acme.com/a": 1}))["_meta"] == {"acme.com/a": 1}
    assert "_meta" not in finished(version, "tools/call", CallToolResult())
