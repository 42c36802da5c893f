"""JSON-RPC 2.0 messages, and the one function that reads them (basic/index, Messages).

How it works: `decode` never raises. Bytes become a Request, a Notification, a Response or an ErrorResponse, told apart
by shape alone; what is none of these becomes a Malformed, which carries the code to answer with and, wherever it can
still be found, the id. `params` and `result` stay raw bytes until somebody knows their type, so a message is scanned
once and decoded once.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from .types.content import UnknownContent

RequestId = int | str


class Request(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="jsonrpc", tag="2.0"):
    """A call that wants a response. `params`: raw JSON when received, anything that encodes to an object when sent."""

    id: RequestId
    method: str
    params: Any = None


class Notification(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="jsonrpc", tag="2.0"):
    """A one-way message."""

    method: str
    params: Any = None


class Response(msgspec.Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """The result of the request with the same id."""

    id: RequestId
    result: Any


class ErrorObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """Code, message and data of an error."""

    code: int
    message: str
    data: Any = None


class ErrorResponse(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="jsonrpc", tag="2.0"):
    """The failure of a request. `id` is None, and left out, only where it could not be read."""

    id: RequestId | None = None
    error: ErrorObject = msgspec.field(default_factory=lambda: ErrorObject(INVALID_REQUEST, "Invalid Request"))


class Malformed(msgspec.Struct, frozen=True):
    """Bytes that are no message. `is_response`: they were meant to answer the request `id` of this side.
    `is_notification`: they were meant as a notification, so no error may be sent back."""

    code: int
    message: str
    id: RequestId | None = None
    is_response: bool = False
    is_notification: bool = False

    def reply(self) -> ErrorResponse:
        """The error response to send back. The id of a response is of this side's own; in the other's it would name
        another request."""
        return ErrorResponse(None if self.is_response else self.id, ErrorObject(self.code, self.message))


MOST_IN_BATCH = 1000


class Batch(Malformed, frozen=True):
    """An array of messages. Who knows nothing of batches takes it for what it is at most versions: no message."""

    items: tuple[msgspec.Raw, ...] = ()


Message = Request | Notification | Response | ErrorResponse
Outcome = Response | ErrorResponse


class _Envelope(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: RequestId | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: ErrorObject | msgspec.UnsetType = msgspec.UNSET


_envelope = msgspec.json.Decoder(_Envelope)


class Answers:
    """The responses to a batch, which go out as one array."""

    def __init__(self, responses: list[Outcome]):
        self.responses = responses


def _enc_hook(value: Any) -> Any:
    if isinstance(value, Answers):
        return [msgspec.Raw(encode_anyway(response)) for response in value.responses]
    if isinstance(value, UnknownContent):
        return msgspec.Raw(value.raw)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


encode = msgspec.json.Encoder(enc_hook=_enc_hook).encode
"""Encode a message to UTF-8 JSON. Raises: UnicodeEncodeError for a lone surrogate, TypeError for what JSON lacks,
RecursionError for what is nested too deeply."""


def encode_anyway(message: Message | Answers) -> bytes:
    """Encode a message. A response that cannot be encoded becomes an error for the same id, so that nobody waits in
    vain. Raises: for a request or notification, as `encode`."""
    try:
        return encode(message)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        if not isinstance(message, Response | ErrorResponse):
            raise
        text = f"Internal error: the response cannot be written as JSON ({type(error).__name__})"
        return encode(ErrorResponse(message.id, ErrorObject(INTERNAL_ERROR, text)))


def decode(data: bytes) -> Message | Malformed:
    """Read one message. What is not a message comes back as Malformed, never as an exception.

    The errors of msgspec that matter: bad tokens and lone surrogate escapes are DecodeError, too deep nesting is
    RecursionError, and invalid UTF-8 inside a raw member passes unnoticed, so it is checked first.
    """
    try:
        if not data.isascii():
            data.decode()
        envelope = _envelope.decode(data)
    except msgspec.ValidationError as error:
        return _diagnose(data, str(error))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _malformed(data, PARSE_ERROR, "Parse error: not JSON in UTF-8")
    except RecursionError:
        return _malformed(data, PARSE_ERROR, "Parse error: nested too deeply")
    # By shape only: id and method, method alone, id and either result or error.
    id, method, params = envelope.id, envelope.method, envelope.params
    if method is msgspec.UNSET:
        return _response(envelope)
    raw = None
    if params is not msgspec.UNSET:
        first = memoryview(params)[0]
        if first == _BRACE:
            raw = params
        elif first != _NULL:  # which is not allowed, and sent all the same by clients that serialise absent params
            # "The receiver MUST NOT send a response" to a notification, whatever it holds (basic/index, Notifications)
            if id is msgspec.UNSET:
                return Malformed(INVALID_PARAMS, "Invalid params: not an object", is_notification=True)
            return Malformed(INVALID_PARAMS, "Invalid params: not an object", id)
    if id is msgspec.UNSET:
        return Notification(method, raw)
    if id is None:  # "Unlike base JSON-RPC, the ID MUST NOT be null" (basic/index, Requests)
        return Malformed(INVALID_REQUEST, "Invalid Request: id must not be null")
    return Request(id, method, raw)


_BRACE, _NULL = b"{n"


def _response(envelope: _Envelope) -> Message | Malformed:
    id = envelope.id if envelope.id is not msgspec.UNSET else None
    result, error = envelope.result, envelope.error
    if error is msgspec.UNSET:
        if result is msgspec.UNSET:
            return Malformed(INVALID_REQUEST, "Invalid Request: no method, no result and no error", id)
        if id is not None:
            return Response(id, result)
    elif result is msgspec.UNSET:
        return ErrorResponse(id, error)
    return Malformed(INVALID_REQUEST, "a response has an id and either result or error", id, is_response=True)


_WRONG = {
    "id": "Invalid Request: id must be a string or an integer",
    "method": "Invalid Request: method must be a string",
    "error": "Invalid Request: error must be an object with an integer code and a message",
}


def _diagnose(data: bytes, why: str) -> Malformed:
    """JSON, but not of a message's shape: say which member is wrong."""
    if data.lstrip()[:1] == b"[":
        return _batch(data)
    found = re.search(r"`\$\.(\w+)", why)
    member = found[1] if found else ""
    text = _WRONG.get(member, 'Invalid Request: not an object with jsonrpc "2.0"')
    return _malformed(data, INVALID_REQUEST, text)


def _batch(data: bytes) -> Malformed:
    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return Malformed(PARSE_ERROR, "Parse error: not JSON in UTF-8")
    if not 0 < len(items) <= MOST_IN_BATCH:
        text = f"a batch has 1 to {MOST_IN_BATCH} messages" if items else "the batch is empty"
        return Malformed(INVALID_REQUEST, f"Invalid Request: {text}")
    text = "Invalid Request: batches exist at protocol version 2025-03-26 only"
    return Batch(INVALID_REQUEST, text, items=tuple(items))


def _malformed(data: bytes, code: int, text: str) -> Malformed:
    id, members = scan(data)
    return Malformed(code, text, id, bool(members & {"result", "error"}) and "method" not in members)


# The quantifiers are possessive: what does not match fails at once, and a scan is linear whatever the bytes are.
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TOP = re.compile(rb'[^"{}\[\]]*+(?:(' + _STRING + rb")|([{}\[\]]))", re.DOTALL)
_NESTED = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+([{}\[\]])", re.DOTALL)
_ID_VALUE = rb'\s*+:\s*+(-?\d{1,18}(?=[,}\s])|"(?:[^"\\\x00-\x1f]++|\\.)*+")'
_ID = re.compile(_ID_VALUE, re.DOTALL)
_LAST_ID = re.compile(rb'"id"' + _ID_VALUE + rb"\s*+}\s*+\Z", re.DOTALL)
_COLON = re.compile(rb"\s*+:")
_STEPS = 200_000
_TAIL = 4096


def scan(data: bytes) -> tuple[RequestId | None, set[str]]:
    """Look for the id and the names of the members in bytes that cannot be decoded, or only the start of which is at
    hand: whatever the state of the connection, the waiter for that id must not hang.

    Returns the id, or None, and the member names seen at the top level. Work is bounded: after so many brackets only
    the last bytes are looked at, where some peers write the id.
    """
    id: RequestId | None = None
    members: set[str] = set()
    position = depth = 0
    for _ in range(_STEPS):
        token = (_TOP if depth == 1 else _NESTED).match(data, position)
        if token is None:
            return id, members
        position = token.end()
        text = token[token.lastindex or 0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif _COLON.match(data, position):
            name = text[1:-1].decode("latin-1")
            members.add(name)
            if name == "id" and (value := _ID.match(data, position)):
                id = _read_id(value[1])
    if id is None and (value := _LAST_ID.search(data, max(position, len(data) - _TAIL))):
        id = _read_id(value[1])
    return id, members


def _read_id(text: bytes) -> RequestId | None:
    try:
        value: RequestId = msgspec.json.decode(text, type=int | str)
    except msgspec.DecodeError:
        return None
    return value
