"""JSON-RPC messages: bytes in, messages out, whatever the bytes are."""

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from backchannel.protocol.jsonrpc import (
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    encode,
    encode_anyway,
    scan,
)
from backchannel.protocol.types.content import TextContent, UnknownContent, decode_content
from backchannel.protocol.types.tools import CallToolResult

MESSAGES = Request | Notification | Response | ErrorResponse
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
IDS = st.one_of(TEXT, st.integers())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)


def text(message: Any) -> bytes:
    """JSON as another implementation writes it."""
    return json.dumps(message).encode()


def plain(message: Message | Malformed) -> dict[str, Any]:
    """A message as the plain value that its JSON has."""
    assert isinstance(message, MESSAGES)
    return json.loads(encode(message))  # type: ignore[no-any-return]


# Classification.


@pytest.mark.rule("R3")
@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"id": 1, "method": "m", "params": {"a": 1}}, Request),
        ({"id": 1, "method": "m"}, Request),
        ({"id": "", "method": ""}, Request),
        ({"id": 1, "method": "m", "result": {}, "error": 5, "what": 1}, Malformed),  # its error is none
        ({"id": 1, "method": "m", "result": {}}, Request),
        ({"method": "m"}, Notification),
        ({"method": "m", "params": {}}, Notification),
        ({"id": 1, "result": {}}, Response),
        ({"id": 1, "result": None}, Response),
        ({"id": 0, "result": {}}, Response),
        ({"id": 1, "error": {"code": 1, "message": "m"}}, ErrorResponse),
        ({"id": None, "error": {"code": 1, "message": "m"}}, ErrorResponse),
        ({"error": {"code": 1, "message": "m"}}, ErrorResponse),
        ({"id": 1, "result": {}, "error": {"code": 1, "message": "m"}}, Malformed),
        ({"id": None, "result": {}}, Malformed),
        ({"result": {}}, Malformed),
        ({"id": 1}, Malformed),
        ({}, Malformed),
    ],
)
def test_the_shape_alone_says_what_a_message_is(wire: dict[str, Any], expected: type) -> None:
    assert type(decode(text({"jsonrpc": "2.0", **wire}))) is expected


def test_members_that_nobody_knows_are_ignored() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"m","extra":{"id":2}}') == Request(1, "m")


@pytest.mark.parametrize("absent", [b"", b',"params":null', b',"params" :  null '])
def test_params_that_are_null_are_absent(absent: bytes) -> None:
    assert decode(b'{"jsonrpc":"2.0","method":"m"' + absent + b"}") == Notification("m", None)
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"m"' + absent + b"}") == Request(1, "m", None)


def test_params_and_result_are_left_as_they_came() -> None:
    request = decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":  {"b" :1, "a": 1.0}  }')
    assert isinstance(request, Request) and bytes(request.params) == b'{"b" :1, "a": 1.0}'
    response = decode(b'{"jsonrpc":"2.0","id":1,"result": [ 1 ]}')
    assert isinstance(response, Response) and bytes(response.result) == b"[ 1 ]"


@pytest.mark.case("J05")
@pytest.mark.parametrize(
    ("wire", "code", "id"),
    [
        ("{", PARSE_ERROR, None),
        ("", PARSE_ERROR, None),
        ('{"jsonrpc":"2.0","id":4,"method":"m","params":{"a":}}', PARSE_ERROR, 4),
        ('{"jsonrpc":"2.0","id":4,"method":"m"} x', PARSE_ERROR, 4),
        ('\ufeff{"jsonrpc":"2.0","id":4,"method":"m"}', PARSE_ERROR, 4),
        ('{"jsonrpc":"2.0","id":4,"method":"m","params":{"a":NaN}}', PARSE_ERROR, 4),
        ("[]", INVALID_REQUEST, None),
        ('[{"jsonrpc":"2.0","id":4,"method":"m"}]', INVALID_REQUEST, None),
        ("null", INVALID_REQUEST, None),
        ('"text"', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":4}', INVALID_REQUEST, 4),
        ('{"id":4,"method":"m"}', INVALID_REQUEST, 4),
        ('{"jsonrpc":"1.0","id":"x","method":"m"}', INVALID_REQUEST, "x"),
        ('{"jsonrpc":"2.0","id":4,"method":5}', INVALID_REQUEST, 4),
        ('{"jsonrpc":"2.0","id":null,"method":"m"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"m"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":true,"method":"m"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":[1],"method":"m"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":4,"method":"m","params":[1]}', INVALID_PARAMS, 4),
        ('{"jsonrpc":"2.0","id":4,"method":"m","params":"p"}', INVALID_PARAMS, 4),
    ],
)
def test_what_is_no_message_gets_the_right_code_and_its_id(wire: str, code: int, id: int | str | None) -> None:
    found = decode(wire.encode())
    assert isinstance(found, Malformed) and (found.code, found.id) == (code, id)
    assert not found.is_response and not found.is_notification
    reply = found.reply()
    assert (reply.id, reply.error.code, reply.error.message) == (id, code, found.message)


def test_what_has_a_method_is_no_response() -> None:
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"m","result":{},"params":{"a":}}')
    assert found == Malformed(PARSE_ERROR, "Parse error: not JSON in UTF-8", 1)


def test_a_malformed_notification_is_known_as_one() -> None:
    found = decode(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}')
    assert isinstance(found, Malformed) and found.is_notification and found.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("member", "says"),
    [
        ('"id":{}', "id must be a string or an integer"),
        ('"id":1,"method":[]', "method must be a string"),
        ('"id":1,"error":{"message":"no code"}', "error must be an object with an integer code"),
        ('"id":1,"error":{"code":1.5,"message":"m"}', "error must be an object with an integer code"),
    ],
)
def test_the_message_says_what_is_wrong(member: str, says: str) -> None:
    found, batch = decode(b'{"jsonrpc":"2.0",' + member.encode() + b"}"), decode(b' [{"jsonrpc":"2.0","method":"m"}]')
    assert isinstance(found, Malformed) and says in found.message
    assert isinstance(batch, Malformed) and "2025-03-26" in batch.message


# Ids.


@pytest.mark.rule("R12")
@pytest.mark.parametrize("id", [0, 1, -1, 2**53 + 1, 2**63, 2**100, "", "1", "0", "ü", "\x00", "a" * 1000])
def test_an_id_keeps_its_type_and_value(id: int | str) -> None:
    request = decode(text({"jsonrpc": "2.0", "id": id, "method": "m"}))
    assert isinstance(request, Request) and type(request.id) is type(id)
    assert json.loads(encode(Response(request.id, {})))["id"] == id
    assert json.loads(encode(ErrorResponse(request.id, ErrorObject(1, "m"))))["id"] == id


@pytest.mark.rule("R1", "R13")
def test_the_number_and_the_text_are_two_ids() -> None:
    one, other = decode(b'{"jsonrpc":"2.0","id":1,"method":"m"}'), decode(b'{"jsonrpc":"2.0","id":"1","method":"m"}')
    assert isinstance(one, Request) and isinstance(other, Request) and len({one.id, other.id}) == 2


@given(id=st.none() | IDS, method=TEXT, params=st.none() | OBJECTS)
def test_requests_and_notifications_survive_a_round_trip(id: Any, method: str, params: dict[str, Any] | None) -> None:
    wire = {"jsonrpc": "2.0", "method": method} | ({"params": params} if params is not None else {})
    wire |= {"id": id} if id is not None else {}
    message = Request(id, method, params) if id is not None else Notification(method, params)
    assert json.loads(encode(message)) == wire
    assert type(decode(text(wire))) is type(message) and plain(decode(text(wire))) == wire


@given(id=IDS, result=VALUES)
def test_responses_survive_a_round_trip(id: int | str, result: Any) -> None:
    wire = {"jsonrpc": "2.0", "id": id, "result": result}
    assert json.loads(encode(Response(id, result))) == wire
    assert plain(decode(text(wire))) == wire


@given(id=st.none() | IDS, code=st.integers(-(2**31), 2**31), message=TEXT, data=VALUES)
def test_errors_survive_a_round_trip(id: int | str | None, code: int, message: str, data: Any) -> None:
    error = {"code": code, "message": message} | ({"data": data} if data is not None else {})
    wire = {"jsonrpc": "2.0", "error": error} | ({"id": id} if id is not None else {})
    assert json.loads(encode(ErrorResponse(id, ErrorObject(code, message, data)))) == wire
    assert plain(decode(text(wire))) == wire


def test_an_error_is_written_whatever_it_holds() -> None:
    assert json.loads(encode(ErrorResponse(5)))["error"] == {"code": INVALID_REQUEST, "message": "Invalid Request"}


# Nothing raises.


FRAGMENTS = [
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\u", b"d800", b"\xff", b"\x00", b" ", b"null", b"1", b"-"),
    *(b"1e999", b"9" * 30, b'"id"', b'"method"', b'"params"', b'"result"', b'"error"', b'"jsonrpc":"2.0"', b"{" * 40),
]
WHOLE = [
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{"x":[1,{"id":3}]}}}',
    b'{"jsonrpc":"2.0","id":"seven","result":{"content":[{"type":"text","text":"\\u00fc\\"}{"}]}}',
    b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"m","data":{"id":8}}}',
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"größer"}}'.encode(),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A message with some bytes cut out and some others put in."""
    data = draw(st.sampled_from(WHOLE))
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(data))), draw(st.integers(0, 20))
        data = data[:start] + draw(st.sampled_from(FRAGMENTS) | st.binary(max_size=3)) + data[start + length :]
    return data


def check(data: bytes) -> None:
    found = decode(data)
    assert isinstance(found, MESSAGES | Malformed)
    if isinstance(found, Malformed):
        answer = decode(encode(found.reply()))
        assert isinstance(answer, ErrorResponse) and answer.error.code in (PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS)
    else:
        encode(found)


@given(st.binary() | mutated() | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(b"".join))
def test_no_bytes_raise(data: bytes) -> None:
    check(data)


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "wire",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + DEEP,
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":' + DEEP + DEEP.replace(b"[", b"]") + b"}}",
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":' + b"9" * 5000 + b',"message":""}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":1e999}}',
    ],
    ids=range(8),
)
def test_no_nasty_bytes_raise(wire: bytes) -> None:
    check(wire)


def test_deep_nesting_is_a_parse_error_with_the_id() -> None:
    found = decode(b'{"jsonrpc":"2.0","id":1,"result":{"a":' + DEEP + DEEP.replace(b"[", b"]") + b"}}")
    assert found == Malformed(PARSE_ERROR, "Parse error: nested too deeply", 1, is_response=True)


# R170: the id is looked for in what cannot be decoded.


@pytest.mark.rule("R170")
@pytest.mark.parametrize(
    "wire",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"text":"\\ud83d"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"text":"\xff"}}',
        b'{"jsonrpc":"2.0","result":{"text":"\\ud83d","id":3},"id":7}',
        b'{"jsonrpc":"2.0","result":{"id":3,"a":[{"id":4}]},"id": 7 ,"x":}',
        b'{"jsonrpc":"2.0","id":7,"result":{"a":' + DEEP + b"]" * 100_000 + b"}}",
        b'{"jsonrpc":"2.0","id":7,"error":"no object"}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":"text","message":"m"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"m"}}',
        b'{"id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"cut off":"',
        b'{"jsonrpc":"2.0","id":7,"result":{"}{\\"}":"}{\\"}","id":8}',
        b'{"id" \n:\t7,"result":',
    ],
    ids=range(12),
)
def test_an_unreadable_response_still_names_its_request(wire: bytes) -> None:
    found = decode(wire)
    assert isinstance(found, Malformed) and (found.id, found.is_response) == (7, True)


@pytest.mark.rule("R170")
@given(id=IDS.filter(lambda id: not isinstance(id, int) or abs(id) < 10**18), junk=OBJECTS, first=st.booleans())
def test_the_id_is_found_before_and_behind_a_result_that_cannot_be_read(
    id: int | str, junk: dict[str, Any], first: bool
) -> None:
    result = text(junk)[:-1] + (b"," if junk else b"") + b'"half":"\\ud83d"}'
    members = [b'"jsonrpc":"2.0"', b'"result":' + result]
    members.insert(0 if first else 2, b'"id":' + text(id))
    found = decode(b"{" + b",".join(members) + b"}")
    assert isinstance(found, Malformed) and found.is_response
    assert found.id == id and type(found.id) is type(id)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"id":12', None),  # it may go on: 123
        (b'{"id":12,', 12),
        (b'{"id":"12', None),
        (b'{"id":"12"', "12"),
        (b'{"id":1.5,', None),
        (b'{"id":1e5,', None),
        (b'{"id":' + b"1" * 19 + b",", None),
        (b'{"id":null,"id":3}', 3),
        (b'{"params":{"id":3', None),
        (b'["id",3,{"id":4}]', None),
        (b'{"a":"id","b":4}', None),
        (b'{"id":"\\ud800",', None),
        (b'{"id":"\xff",', None),
        (b"", None),
    ],
)
def test_an_id_is_found_only_where_it_is_whole_and_at_the_top(head: bytes, expected: int | str | None) -> None:
    assert scan(head)[0] == expected


def test_the_members_at_the_top_are_named() -> None:
    assert scan(b'{"id":1,"method":"m","params":{"result":1,"a":{"error":2}}')[1] == {"id", "method", "params"}


def test_the_error_for_an_unreadable_response_names_no_request_of_the_other_side() -> None:
    """Its id is one of ours; sent back, it would look like the answer to one of theirs."""
    found = decode(b'{"jsonrpc":"2.0","id":7,"error":"no object"}')
    assert isinstance(found, Malformed) and found.id == 7 and found.reply().id is None


@pytest.mark.parametrize(
    "wire",
    [
        b'{"a":"' + b'\\"' * 300_000,
        b"[" * 600_000,
        b"{}" * 300_000,
        b'""' * 300_000,
        b'{"a"' + b" " * 600_000,
        b'{"id":"' + b"a" * 600_000,
        b'"\\' * 300_000,
    ],
    ids=range(7),
)
def test_a_scan_takes_time_linear_in_the_bytes(wire: bytes) -> None:
    before = process_time()
    scan(wire)
    assert process_time() - before < 0.5  # takes some ms; a scan that looks back took minutes


def test_an_id_at_the_end_is_found_behind_more_brackets_than_are_counted() -> None:
    wire = b'{"result":[' + b"[]," * 200_000 + b'"\\ud800"],"jsonrpc":"2.0","id":"last"}'
    assert decode(wire) == Malformed(PARSE_ERROR, "Parse error: not JSON in UTF-8", "last", is_response=True)


# Encoding.


@pytest.mark.parametrize("result", ["\ud800", {"\ud800": 1}, object(), {"a": {1, object()}}, 1j])
def test_a_response_that_cannot_be_written_becomes_an_error(result: Any) -> None:
    answer = decode(encode_anyway(Response("x", result)))
    assert isinstance(answer, ErrorResponse) and answer.id == "x" and answer.error.code == INTERNAL_ERROR


def test_a_response_that_contains_itself_becomes_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    answer = decode(encode_anyway(Response(1, endless)))
    assert isinstance(answer, ErrorResponse) and answer.id == 1


def test_an_error_that_cannot_be_written_becomes_another() -> None:
    answer = decode(encode_anyway(ErrorResponse(1, ErrorObject(5, "\ud800", object()))))
    assert isinstance(answer, ErrorResponse) and (answer.id, answer.error.code) == (1, INTERNAL_ERROR)


def test_a_request_that_cannot_be_written_raises() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        encode_anyway(Request(1, "m", {"a": object()}))
    with pytest.raises(UnicodeEncodeError):
        encode_anyway(Notification("m", {"a": "\ud800"}))


def test_content_of_an_unknown_kind_is_written_as_it_came() -> None:
    block = decode_content(b'{"type":"hologram","b":1,"a":1.0}')
    assert isinstance(block, UnknownContent)
    written = encode(Response(1, CallToolResult([TextContent("t"), block])))
    assert written.endswith(b'"content":[{"type":"text","text":"t"},{"type":"hologram","b":1,"a":1.0}]}}')
