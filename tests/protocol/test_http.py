"""How a POST is read: headers and bytes in, a verdict out. The ladder of refusals as one table."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from backchannel.protocol.http import (
    STATUS,
    Accept,
    Call,
    Headers,
    Legacy,
    Refusal,
    decode_value,
    encode_value,
    read_accept,
    read_request,
)
from backchannel.protocol.jsonrpc import Malformed, Notification, Request, Response, encode
from backchannel.protocol.types.requests import CallToolParams
from backchannel.protocol.versions import LEGACY, SUPPORTED, Version
from tests.protocol.posts import GONE, LADDER, META, body, headers, meta, post
from tests.protocol.schemas import needs_schemas, schema_errors

# What is in order.


def test_a_request_in_order_is_a_call() -> None:
    verdict = post(body(arguments={"a": [1, 2]}, inputResponses={"k": {"action": "accept"}}, requestState="s"))
    assert isinstance(verdict, Call) and isinstance(verdict.params, CallToolParams)
    assert verdict.version is Version.V2026_07_28
    assert (verdict.request.id, verdict.method.name, verdict.accept) == (7, "name", Accept(True, True))
    params = verdict.params
    assert (params.name, params.request_state) == ("echo", "s")
    assert isinstance(params.arguments, msgspec.Raw) and bytes(params.arguments) == b'{"a": [1, 2]}'
    assert params.input_responses is not None and bytes(params.input_responses["k"]) == b'{"action": "accept"}'
    assert params.meta.client_capabilities == {"elicitation": {}}
    assert params.meta.client_info is not None and params.meta.client_info.name == "client"


REF = {"type": "ref/prompt", "name": "greet"}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/list", {"name": GONE, "cursor": "c"}, GONE),
        ("server/discover", {"name": GONE}, GONE),
        ("server/discover", {"name": GONE, "_meta": meta(clientInfo=GONE)}, GONE),
        ("resources/read", {"name": GONE, "uri": "file:///a%20b?c=d"}, "file:///a%20b?c=d"),
        ("prompts/get", {"arguments": {"a": "b"}}, "echo"),
        ("completion/complete", {"name": GONE, "ref": REF, "argument": {"name": "a", "value": ""}}, GONE),
        ("subscriptions/listen", {"name": GONE, "notifications": {}}, GONE),
        ("tools/call", {"name": "größe"}, "=?base64?Z3LDtsOfZQ==?="),
        ("tools/call", {"name": " padded "}, "=?base64?IHBhZGRlZCA=?="),
        ("tools/call", {"name": "=?base64?literal?="}, "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("tools/call", {"name": "=?base64?SGVsbG8="}, "=?base64?SGVsbG8="),  # no suffix: as it is
        ("tools/call", {"name": "echo"}, "=?base64?ZWNobw==?="),  # needless, and right
        ("tools/call", {"name": "a\tb"}, "a\tb"),
        ("tools/call", {"name": ""}, ""),
        ("tools/list", {"name": "ignored"}, "whatever"),  # a header that this method does not have
    ],
)
def test_each_method_in_order(method: str, params: dict[str, Any], name: Any) -> None:
    verdict = post(body(method, **params), mcp_method=method, mcp_name=name)
    assert isinstance(verdict, Call) and verdict.request.method == method


@pytest.mark.rule("R162")
def test_names_of_headers_have_no_case_and_values_no_outer_space() -> None:
    raw = [
        (b"CONTENT-TYPE", b"application/json"),
        (b"MCP-Protocol-Version", b" 2026-07-28\t"),
        (b"MCP-METHOD", b"\ttools/call "),
        (b"mcp-Name", b"  echo  "),
    ]
    assert isinstance(read_request(Headers(raw), json.dumps(body()).encode()), Call)


# The ladder of a modern request.


@pytest.mark.rule("R160", "R161", "R162")
@pytest.mark.case("J05")
@pytest.mark.parametrize(
    ("message", "changes", "status", "code", "says"), [row[1:] for row in LADDER], ids=[row[0] for row in LADDER]
)
def test_the_ladder(message: Any, changes: dict[str, Any], status: int, code: int, says: str) -> None:
    verdict = post(message, **changes)
    assert isinstance(verdict, Refusal) and verdict.error is not None
    assert (verdict.status, verdict.error.error.code) == (status, code)
    assert says in verdict.error.error.message
    assert verdict.error.id == (7 if status in (400, 404) else None)


@pytest.mark.rule("R161")
def test_a_version_that_is_not_served_is_answered_with_those_that_are() -> None:
    verdict = post(body(_meta=meta(protocolVersion="v999.0.0")), mcp_protocol_version="v999.0.0")
    assert isinstance(verdict, Refusal) and verdict.error is not None
    supported = [version.value for version in SUPPORTED]
    assert verdict.error.error.data == {"supported": supported, "requested": "v999.0.0"}
    verdict = post(body(_meta=meta(protocolVersion="2025-11-25")), mcp_protocol_version="2025-11-25")
    assert isinstance(verdict, Refusal) and verdict.error is not None
    assert verdict.error.error.data == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


@needs_schemas
def test_the_errors_are_right_by_the_schema() -> None:
    names = {HEADER_MISMATCH: "HeaderMismatchError", UNSUPPORTED_VERSION: "UnsupportedProtocolVersionError"}
    for _, message, changes, *_ in LADDER:
        verdict = post(message, **changes)
        assert isinstance(verdict, Refusal) and verdict.error is not None
        error = verdict.error.error
        wire = json.loads(encode(verdict.error))
        assert schema_errors(Version.V2026_07_28, names.get(error.code, "JSONRPCErrorResponse"), wire) == []


def test_what_is_long_is_cut_in_an_error() -> None:
    for message, changes in [
        (None, {"mcp_name": "n" * 100_000}),
        (body(name="n" * 100_000), {}),
        (body("m" * 100_000), {"mcp_method": "m" * 100_000}),
        (body(_meta=meta(protocolVersion="v" * 100_000)), {"mcp_protocol_version": "v" * 100_000}),
    ]:
        verdict = post(message, **changes)
        assert isinstance(verdict, Refusal) and len(repr(verdict)) < 1500


# Eras.

INITIALIZE = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
BARE = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": {"progressToken": 1}}}


@pytest.mark.rule("R160")
@pytest.mark.parametrize(
    ("message", "version", "session", "era"),
    [
        (body(), "2026-07-28", GONE, "modern"),
        (body(), "2026-07-28", "s-1", "modern"),  # and the session id is ignored
        (body("initialize"), "2026-07-28", GONE, "refused"),
        (BARE, "2026-07-28", GONE, "refused"),  # modern by its header, and without an envelope
        (BARE, "2026-07-28", "s-1", "refused"),
        (INITIALIZE, "2026-07-28", GONE, "refused"),
        (INITIALIZE, GONE, GONE, "legacy"),
        (INITIALIZE, "2025-11-25", GONE, "legacy"),
        (INITIALIZE, "2099-01-01", GONE, "legacy"),
        (BARE, GONE, "s-1", "legacy"),
        (BARE, GONE, GONE, "legacy"),
        *((BARE, version.value, GONE, "legacy") for version in LEGACY),
        (BARE, "2099-01-01", "s-1", "refused"),
        (BARE, "", GONE, "refused"),
    ],
)
def test_the_era_of_a_request(message: dict[str, Any], version: Any, session: Any, era: str) -> None:
    method = message["method"]
    verdict = post(message, mcp_protocol_version=version, mcp_session_id=session, mcp_method=method)
    assert type(verdict) is {"modern": Call, "legacy": Legacy, "refused": Refusal}[era]
    if isinstance(verdict, Legacy):
        assert isinstance(verdict.message, Request) and verdict.message.method == method
        assert verdict.version == (None if version is GONE else version)
        assert verdict.session_id == (None if session is GONE else session)


def test_a_header_that_names_an_unknown_version_is_told_the_known_ones() -> None:
    """ "If the server receives a request with an invalid or unsupported MCP-Protocol-Version, it MUST respond with 400"
    (2025-11-25 basic/transports)."""
    for message, id in [(BARE, 7), ({"jsonrpc": "2.0", "method": "notifications/initialized"}, None)]:
        verdict = post(message, mcp_protocol_version="2099-01-01")
        assert isinstance(verdict, Refusal) and verdict.error is not None and verdict.status == 400
        assert (verdict.error.id, verdict.error.error.code) == (id, UNSUPPORTED_VERSION)
        assert verdict.error.error.data["requested"] == "2099-01-01"


@pytest.mark.parametrize("junk", [5, [], "text", {"progressToken": {}}])
def test_a_legacy_request_whose_meta_cannot_be_read_is_for_the_legacy_rules(junk: Any) -> None:
    verdict = post({**BARE, "params": {"_meta": junk}}, mcp_protocol_version="2025-11-25")
    assert isinstance(verdict, Legacy)


@pytest.mark.rule("R161")
def test_an_envelope_that_cannot_be_read_is_modern_by_its_version() -> None:
    message = body(_meta=meta(clientInfo={"name": "no version"}))
    verdict = post(message, mcp_protocol_version=GONE)
    assert isinstance(verdict, Refusal) and verdict.error is not None
    assert (verdict.status, verdict.error.error.code) == (400, INVALID_PARAMS)


# Other messages.


@pytest.mark.parametrize("version", [GONE, "2025-11-25", "2026-07-28"])
def test_notifications(version: Any) -> None:
    verdict = post({"jsonrpc": "2.0", "method": "notifications/x"}, mcp_protocol_version=version)
    if version == "2026-07-28":
        assert verdict == Refusal(202)  # "the server MUST return HTTP status code 202 Accepted with no body"
    else:
        assert isinstance(verdict, Legacy) and verdict.message == Notification("notifications/x")


@pytest.mark.parametrize("version", [GONE, "2025-11-25", "2026-07-28"])
def test_responses(version: Any) -> None:
    verdict = post({"jsonrpc": "2.0", "id": 3, "result": {}}, mcp_protocol_version=version)
    if version == "2026-07-28":
        assert isinstance(verdict, Refusal) and verdict.error is not None
        assert (verdict.status, verdict.error.id, verdict.error.error.code) == (400, None, INVALID_REQUEST)
    else:
        assert isinstance(verdict, Legacy) and isinstance(verdict.message, Response)


@pytest.mark.case("J05")
@pytest.mark.parametrize(
    ("wire", "code", "id"),
    [
        (b"{", PARSE_ERROR, None),
        (b"", PARSE_ERROR, None),
        (b"\xff", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\\ud800"}}', PARSE_ERROR, 7),
        (b"[]", INVALID_REQUEST, None),
        (b'[{"jsonrpc":"2.0","id":7,"method":"m"}]', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":[]}', INVALID_PARAMS, 7),
        (b'{"jsonrpc":"2.0","method":"m","params":[]}', INVALID_PARAMS, None),
        (b'{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":""}}', INVALID_REQUEST, None),
    ],
)
def test_what_is_no_message(wire: bytes, code: int, id: int | None) -> None:
    verdict = post(wire)
    assert isinstance(verdict, Refusal) and verdict.error is not None
    assert (verdict.status, verdict.error.error.code, verdict.error.id) == (400, code, id)
    for version in (GONE, "2025-11-25"):
        verdict = post(wire, mcp_protocol_version=version)
        assert isinstance(verdict, Legacy) and isinstance(verdict.message, Malformed)
        assert (verdict.message.code, verdict.message.reply().id) == (code, id)
    verdict = post(wire, mcp_protocol_version="2099-01-01")
    assert isinstance(verdict, Refusal) and verdict.error is not None and verdict.error.id == id


def test_every_code_has_its_status() -> None:
    assert STATUS[METHOD_NOT_FOUND] == 404
    assert {status for code, status in STATUS.items() if code != METHOD_NOT_FOUND} == {400}


# Accept and Content-Type.


@pytest.mark.rule("R77")
@pytest.mark.parametrize(
    ("value", "json", "sse"),
    [
        (GONE, True, True),
        ("application/json, text/event-stream", True, True),
        ("text/event-stream,application/json", True, True),
        ("application/json", True, False),
        ("text/event-stream", False, True),
        ("*/*", True, True),
        ("application/*", True, False),
        ("text/*", False, True),
        ("APPLICATION/JSON;charset=utf-8, Text/Event-Stream;q=0.5", True, True),
        ("application/json ; q=1 , text/event-stream ; q=0.001", True, True),
        ("application/json;q=0, text/event-stream", False, True),
        ("*/*, text/event-stream;q=0", True, False),
        ("*/*, text/event-stream; Q=0.000", True, False),
        ("*/*;q=0, application/json", True, False),
        ("text/html, application/json", True, False),
        ("text/html", False, False),
        ("application/jsonx, text/event", False, False),
        ("", False, False),
        (",;,", False, False),
    ],
)
def test_accept(value: Any, json: bool, sse: bool) -> None:
    accept = read_accept(headers(accept=value).raw.get(b"accept"))
    assert (accept.json, accept.sse) == (json, sse)
    verdict = post(accept=value)
    if json or sse:
        assert isinstance(verdict, Call) and verdict.accept == accept
    else:
        assert isinstance(verdict, Refusal) and verdict.status == 406


@pytest.mark.parametrize(
    ("value", "first"),
    [
        ("text/event-stream, application/json", True),
        ("text/html, text/event-stream;q=0.9, application/json", True),
        ("text/event-stream", True),
        ("application/json, text/event-stream", False),
        ("text/event-stream;q=0, application/json", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_which_the_client_names_first(value: Any, first: bool) -> None:
    assert read_accept(value.encode()).sse_first is first


def test_accept_may_be_spread_over_headers() -> None:
    raw = [(b"accept", b"application/json"), (b"x", b"y"), (b"Accept", b"text/event-stream")]
    assert read_accept(Headers(raw).raw[b"accept"]) == Accept(True, True)


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("Application/JSON ;charset=utf-8", True),
        ("application/json-rpc", False),
        ("text/json", False),
        ("", False),
    ],
)
def test_content_type(value: str, right: bool) -> None:
    verdict = post(content_type=value)
    assert isinstance(verdict, Call) if right else isinstance(verdict, Refusal) and verdict.status == 415


# Headers.


def test_headers_are_joined_stripped_and_found() -> None:
    found = Headers([(b"A", b" 1 "), (b"b", b""), (b"a", b"2\t"), (b"c", b"\xe9")])
    assert (found.get("a"), found.get("b"), found.get("c"), found.get("d")) == ("1, 2", "", "é", None)


# Values in headers (basic/transports/streamable-http, Value Encoding).


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?literal", "=?base64?literal"),
        ("literal?=", "literal?="),
        ("", ""),
        ("a b\tc", "=?base64?YSBiCWM=?="),
        ("\t", "=?base64?CQ==?="),
        ("\x7f", "=?base64?fw==?="),
        ("~!", "~!"),
    ],
)
def test_the_specifications_examples(value: str, header: str) -> None:
    assert encode_value(value) == header
    assert decode_value(header) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_value_survives_its_header(value: str) -> None:
    header = encode_value(value)
    assert header.isascii() and all(" " <= char <= "~" or char == "\t" for char in header)
    assert header == header.strip(" \t")
    assert decode_value(header) == value


@given(st.text() | st.binary().map(lambda raw: "=?base64?" + base64.b64encode(raw).decode() + "?="))
def test_no_header_value_raises(header: str) -> None:
    value = decode_value(header)
    assert value is None or header.isascii()


def test_no_header_has_no_value() -> None:
    assert decode_value(None) is None


# Anything at all.

NAMES = st.sampled_from(
    [b"accept", b"content-type", b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"mcp-session-id", b"\xff"]
)
VALUES = st.binary(max_size=12) | st.sampled_from([b"application/json", b"2026-07-28", b"tools/call", b"echo", b"*/*"])
JSON = st.recursive(
    st.sampled_from([None, 1, "x", "tools/call", "2026-07-28", 1.5]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["_meta", "name", "arguments", *META]), inner, max_size=3)
    ),
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": JSON, "method": JSON, "params": JSON, "result": JSON, "error": JSON},
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.binary() | MESSAGES.map(lambda m: json.dumps(m).encode()))
def test_no_post_raises(raw: list[tuple[bytes, bytes]], data: bytes) -> None:
    verdict = read_request(Headers(raw), data)
    if isinstance(verdict, Refusal):
        assert verdict.status in (202, 400, 404, 406, 415)
        assert (verdict.error is None) == (verdict.status == 202)
