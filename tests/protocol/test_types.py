"""The wire types, against the specification's schemas: what we write is right, and what others write is not lost."""

from typing import Any

import msgspec
import pytest

from backchannel.protocol.jsonrpc import ErrorObject, ErrorResponse, Notification, Request, Response, decode, encode
from backchannel.protocol.types.base import Wire
from backchannel.protocol.types.bringup import InitializeParams
from backchannel.protocol.types.content import (
    AudioContent,
    ImageContent,
    TextContent,
    ToolResultContent,
    UnknownContent,
    decode_content,
)
from backchannel.protocol.types.elicitation import ElicitParams, ElicitResult
from backchannel.protocol.types.mrtr import InputRequest, InputRequiredResult, ReceivedInputRequest, ReceivedResult
from backchannel.protocol.types.requests import (
    LEVELS,
    NO_META,
    LogParams,
    ProgressParams,
    RequestMeta,
    RequestParams,
    read_meta,
)
from backchannel.protocol.types.roots import ListRootsResult
from backchannel.protocol.types.sampling import (
    CreateMessageResult,
    answer,
)
from backchannel.protocol.types.tools import (
    CallToolResult,
    decode_call_tool_result,
)
from backchannel.protocol.versions import SUPPORTED, Version
from tests.protocol.instances import FORM, GAVE, INSTANCES, REQUESTS, TEXT, UNFINISHED, USE
from tests.protocol.schemas import definitions, needs_schemas, schema_errors

CASES = [(name, version) for name, (versions, _) in INSTANCES.items() for version in versions]


def plain(value: Any) -> Any:
    return msgspec.json.decode(encode(value))


@needs_schemas
@pytest.mark.parametrize(("name", "version"), CASES)
def test_what_we_write_is_right_by_the_schema(name: str, version: Version) -> None:
    for instance in INSTANCES[name][1]:
        assert schema_errors(version, name, plain(instance)) == [], instance


@needs_schemas
@pytest.mark.parametrize(("name", "version"), CASES)
def test_the_schema_would_notice(name: str, version: Version) -> None:
    """The check above can fail: without a required member the instance is wrong."""
    wire = plain(INSTANCES[name][1][0])
    for member in definitions(version)[name].get("required", []):
        assert schema_errors(version, name, {key: wire[key] for key in wire if key != member}) != []


NOT_OURS = {
    "execution": "a tool's, of the core tasks of 2025-11-25, which are not offered (R147)",
    "task": "of the core tasks of 2025-11-25, which is ignored (R147)",
    "resultType": "`versions.finish` adds it",
}


@needs_schemas
@pytest.mark.parametrize("version", SUPPORTED)
def test_no_member_of_the_schema_is_missing_from_our_types(version: Version) -> None:
    """So what another implementation writes is not dropped when it is read."""
    for name, instance in {**{name: made[1][0] for name, made in INSTANCES.items()}, **UNFINISHED}.items():
        if name in definitions(version) and name != "InputRequest":
            fields = {field.encode_name for field in msgspec.structs.fields(type(instance))} | {"type"}
            members = set(definitions(version)[name].get("properties", {}))
            assert members - fields - set(NOT_OURS) == set(), name


@needs_schemas
@pytest.mark.parametrize("name", [*INSTANCES, *UNFINISHED])
def test_our_types_have_no_members_of_their_own(name: str) -> None:
    """Of all versions together: older members stay for older versions."""
    instance = INSTANCES[name][1][0] if name in INSTANCES else UNFINISHED[name]
    members: set[str] = set()
    for version in SUPPORTED:
        definition = definitions(version).get(name, {})
        for part in [
            definition,
            *(definitions(version)[m["$ref"].split("/")[-1]] for m in definition.get("anyOf", [])),
        ]:
            members |= set(part.get("properties", {}))
    others = {
        "ElicitRequestFormParams": {"url", "elicitationId"},  # both modes are one type
        "ElicitRequestURLParams": {"requestedSchema"},
        "TextResourceContents": {"blob"},
        "BlobResourceContents": {"text"},
    }
    fields = {field.encode_name for field in msgspec.structs.fields(type(instance))}
    assert fields - members - others.get(name, set()) == set()


# Reading and writing again.


@pytest.mark.parametrize("name", [name for name in INSTANCES if name not in ("InputRequest", "InputRequiredResult")])
def test_what_we_write_we_read(name: str) -> None:
    for instance in INSTANCES[name][1]:
        wire = plain(instance)
        assert plain(msgspec.json.decode(encode(instance), type=type(instance))) == wire


@pytest.mark.parametrize("name", [*INSTANCES, *UNFINISHED])
def test_members_are_what_is_written(name: str) -> None:
    instances = INSTANCES[name][1] if name in INSTANCES else [UNFINISHED[name]]
    for instance in instances:
        if isinstance(instance, Wire):
            tag = {"type": instance.__struct_config__.tag} if instance.__struct_config__.tag else {}
            assert plain({**tag, **instance.members()}) == plain(instance)


def test_members_that_are_not_set_are_left_out_and_null_is_a_value() -> None:
    assert plain(TextContent("")) == {"type": "text", "text": ""}
    assert plain(CallToolResult()) == {"content": []}
    assert CallToolResult().members() == {"content": []}
    assert CallToolResult([], None).members() == {"content": [], "structuredContent": None}
    assert plain(CallToolResult([], None)) == {"content": [], "structuredContent": None}
    assert LogParams("info", None).members() == {"level": "info", "data": None}
    assert plain(ToolResultContent("u", [], None)) == {
        "type": "tool_result",
        "toolUseId": "u",
        "content": [],
        "structuredContent": None,
    }
    assert plain(RequestParams()) == {} and RequestParams().members() == {}


# Content.


@pytest.mark.parametrize("block", [TEXT, ImageContent("A", "i/p"), AudioContent("A", "a/w"), USE, GAVE])
def test_content_is_read_by_its_tag(block: Any) -> None:
    assert decode_content(encode(block)) == block


def test_content_of_an_unknown_kind_is_kept_as_it_is() -> None:
    block = decode_content(b'{"b":1.0,"type":"hologram","a":{"type":"text"}}')
    assert isinstance(block, UnknownContent) and block.raw == b'{"b":1.0,"type":"hologram","a":{"type":"text"}}'
    assert "hologram" in repr(block)


@pytest.mark.parametrize(
    "wire", [b"5", b"{}", b'{"type":5}', b'{"type":"text"}', b'{"type":"resource","resource":{}}', b"[]", b"null"]
)
def test_what_is_no_content_is_refused(wire: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_content(wire)


def test_a_result_with_one_unknown_block_keeps_the_others() -> None:
    wire = (
        b'{"content":[{"type":"text","text":"a"},{"type":"hologram","x":1},{"type":"text","text":"b"}],'
        b'"structuredContent":{"a":1},"isError":true,"_meta":{"m":1},"resultType":"complete","unknown":1}'
    )
    result = decode_call_tool_result(wire)
    assert [type(block) for block in result.content] == [TextContent, UnknownContent, TextContent]
    assert (result.text, result.structured_content, result.is_error, result.meta) == ("a\nb", {"a": 1}, True, {"m": 1})
    assert plain(result)["content"][1] == {"type": "hologram", "x": 1}


def test_a_result_tells_null_from_nothing() -> None:
    assert decode_call_tool_result(b'{"content":[]}').structured_content is msgspec.UNSET
    assert decode_call_tool_result(b'{"content":[],"structuredContent":null}').structured_content is None
    assert decode_call_tool_result(b"{}").content == []


@pytest.mark.parametrize("wire", [b"[]", b'{"content":{}}', b'{"content":[{"type":"text"}]}', b'{"isError":1}', b"{"])
def test_what_is_no_result_is_refused(wire: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_call_tool_result(wire)


@pytest.mark.rule("R21")
@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        (ElicitResult, b'{"action":"maybe"}'),
        (ElicitResult, b'{"content":{}}'),
        (ElicitResult, b'{"action":"accept","content":[]}'),
        (CreateMessageResult, b'{"role":"assistant","content":{"type":"text","text":"t"}}'),
        (CreateMessageResult, b'{"role":"system","content":{"type":"text","text":"t"},"model":"m"}'),
        (CreateMessageResult, b'{"role":"user","content":"t","model":"m"}'),
        (ListRootsResult, b"{}"),
        (ListRootsResult, b'{"roots":[{}]}'),
        (ListRootsResult, b'{"roots":null}'),
    ],
)
def test_an_answer_of_the_wrong_shape_is_refused(kind: Any, wire: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wire, type=kind)


def test_a_models_message_is_a_block_or_a_list_of_them() -> None:
    one = msgspec.json.decode(
        b'{"role":"assistant","content":{"type":"text","text":"t"},"model":"m"}', type=CreateMessageResult
    )
    assert one.blocks == [TextContent("t")] and one.text == "t"
    many = CreateMessageResult("assistant", [TextContent("a"), USE, TextContent("b")], "m", "toolUse")
    assert many.blocks == [TextContent("a"), USE, TextContent("b")] and many.text == "a\nb"
    assert msgspec.json.decode(encode(many), type=CreateMessageResult) == many
    assert plain(answer("hi")) == {
        "role": "assistant",
        "content": {"type": "text", "text": "hi"},
        "model": "unknown",
        "stopReason": "endTurn",
    }


# Requests.


def test_the_levels_rise() -> None:
    assert LEVELS == ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@needs_schemas
def test_the_levels_are_those_of_the_schema() -> None:
    for version in SUPPORTED:
        assert sorted(LEVELS) == sorted(definitions(version)["LoggingLevel"]["enum"])


@pytest.mark.rule("R19")
def test_capabilities_that_nobody_knows_are_kept() -> None:
    capabilities = {"elicitation": {"form": {"x": 1}}, "fileInputs": {}, "extensions": {"acme.com/a": {}}}
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "c", "version": "1"},
    }
    assert msgspec.json.decode(encode(params), type=InitializeParams).capabilities == capabilities
    envelope = {"_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}}
    assert read_meta(msgspec.Raw(encode(envelope))).client_capabilities == capabilities


def test_meta_is_read_whatever_else_is_in_the_params() -> None:
    raw = msgspec.Raw(b'{"name":5,"x":[1],"_meta":{"progressToken":0,"acme.com/a":{},"traceparent":"00"}}')
    assert read_meta(raw) == RequestMeta(progress_token=0)
    assert read_meta(None) is read_meta(msgspec.Raw(b"{}")) is NO_META


@pytest.mark.rule("R140")
@pytest.mark.parametrize("token", [0, 1, -5, "", "1", "abc"])
def test_a_progress_token_keeps_its_type(token: int | str) -> None:
    found = read_meta(msgspec.Raw(encode({"_meta": {"progressToken": token}}))).progress_token
    assert found == token and type(found) is type(token)
    assert plain(ProgressParams(token, 1))["progressToken"] == token


@pytest.mark.parametrize("token", [1.5, True, [], {}])
def test_any_other_progress_token_is_refused(token: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_meta(msgspec.Raw(encode({"_meta": {"progressToken": token}})))


# Results that ask.


def test_a_result_without_a_type_is_complete() -> None:
    """ "clients MUST treat an absent resultType as complete" (basic/index)."""
    assert msgspec.json.decode(b'{"content":[]}', type=ReceivedResult).result_type == "complete"


@pytest.mark.rule("R100", "R101", "R103")
def test_questions_and_state_come_through_as_they_are() -> None:
    state = 'any text, "quoted" \\ and ünïcode'
    sent = InputRequiredResult(result_type="input_required", input_requests=REQUESTS, request_state=state)
    assert set(plain(sent)) == {"resultType", "inputRequests", "requestState"}
    received = msgspec.json.decode(encode(sent), type=ReceivedResult)
    assert (received.result_type, received.request_state) == ("input_required", state)
    assert received.input_requests is not None and list(received.input_requests) == ["k", "r"]
    form, roots = received.input_requests.values()
    assert isinstance(form, ReceivedInputRequest) and form.method == "elicitation/create"
    assert isinstance(form.params, msgspec.Raw) and msgspec.json.decode(form.params, type=ElicitParams) == FORM
    assert roots.params is msgspec.UNSET
    keys = {"": InputRequest("roots/list"), "ключ": InputRequest("roots/list"), " a\n": InputRequest("roots/list")}
    wire = encode(InputRequiredResult(result_type="input_required", input_requests=keys))
    assert list(msgspec.json.decode(wire, type=ReceivedResult).input_requests or ()) == list(keys)


# Whole messages.

MESSAGES = [
    ("JSONRPCRequest", Request(1, "tools/call", {"name": "a"})),
    ("JSONRPCRequest", Request("x", "ping")),
    ("JSONRPCNotification", Notification("notifications/initialized")),
    ("JSONRPCNotification", Notification("notifications/progress", ProgressParams(1, 1))),
    ("JSONRPCMessage", Response(1, {"content": [], "resultType": "complete"})),
    ("JSONRPCMessage", ErrorResponse("x", ErrorObject(-32601, "Method not found", {"a": 1}))),
]


@needs_schemas
@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize(("name", "message"), MESSAGES)
def test_messages_are_right_by_the_schema(version: Version, name: str, message: Any) -> None:
    assert schema_errors(version, name, plain(message)) == []
    assert schema_errors(version, "JSONRPCMessage", plain(message)) == []
    assert plain(decode(encode(message))) == plain(message)


@needs_schemas
@pytest.mark.parametrize("version", [Version.V2025_11_25, Version.V2026_07_28])
def test_an_error_without_an_id_is_right_by_the_schema(version: Version) -> None:
    """Before 2025-11-25 the schema wants an id even where none could be read."""
    assert schema_errors(version, "JSONRPCErrorResponse", plain(ErrorResponse(None, ErrorObject(-32700, "m")))) == []
