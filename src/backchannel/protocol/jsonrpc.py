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
    """Bytes that are no message. `is_response`: they were meant to answer the request `id` of this side."""

    code: int
    message: str
    id: RequestId | None = None
    is_response: bool = False

    def reply(self) -> ErrorResponse:
        """The error response to send back."""
        return ErrorResponse(self.id, ErrorObject(self.code, self.message))


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
encode = msgspec.json.Encoder().encode
"""Encode a message to UTF-8 JSON. Raises: UnicodeEncodeError for a lone surrogate, TypeError for what JSON lacks."""


def encode_anyway(message: Message) -> bytes:
    """Encode a message. A response that cannot be encoded becomes an error for the same id, so that nobody waits in
    vain. Raises: for a request or notification, as `encode`."""
    try:
        return encode(message)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError, OverflowError) as error:
        if not isinstance(message, Response | ErrorResponse):
            raise
        text = f"Internal error: the response cannot be written as JSON ({type(error).__name__})"
        return encode(ErrorResponse(message.id, ErrorObject(INTERNAL_ERROR, text)))


def decode(data: bytes) -> Message | Malformed:
    """Read one message. What is not a message comes back as Malformed, never as an exception.

    The errors of msgspec that matter: bad tokens and truncated surrogate escapes are DecodeError, too deep nesting is
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
    return _classify(envelope)


def _classify(envelope: _Envelope) -> Message | Malformed:
    """By shape only: id and method, method alone, id and either result or error."""
    id = envelope.id
    if envelope.method is not msgspec.UNSET:
        params = envelope.params
        if params is msgspec.UNSET:
            params = None  # type: ignore[assignment]
        elif bytes(memoryview(params)[:1]) != b"{":
            if id is msgspec.UNSET:
                return Malformed(INVALID_PARAMS, "params must be an object")
            return Malformed(INVALID_PARAMS, "params must be an object", id)
        if id is msgspec.UNSET:
            return Notification(envelope.method, params)
        if id is None:
            return Malformed(INVALID_REQUEST, "Invalid Request: id must not be null")
        return Request(id, envelope.method, params)
    has_result, has_error = envelope.result is not msgspec.UNSET, envelope.error is not msgspec.UNSET
    known = id if not isinstance(id, msgspec.UnsetType) else None
    if has_result and not has_error and known is not None:
        return Response(known, envelope.result)
    if has_error and not has_result:
        return ErrorResponse(known, envelope.error)  # type: ignore[arg-type]
    if has_result or has_error:
        return Malformed(INVALID_REQUEST, "a response has an id and either result or error", known, True)
    return Malformed(INVALID_REQUEST, "Invalid Request: no method, no result and no error", known)


def _diagnose(data: bytes, why: str) -> Malformed:
    """JSON, but not of a message's shape: say which member is wrong."""
    if data.lstrip()[:1] == b"[":
        return Malformed(INVALID_REQUEST, "Invalid Request: batches exist at protocol version 2025-03-26 only")
    found = re.search(r"`\$\.(\w+)", why)
    member = found[1] if found else ""
    text = {
        "id": "Invalid Request: id must be a string or an integer",
        "method": "Invalid Request: method must be a string",
        "error": "Invalid Request: error must have an integer code and a message",
    }.get(member, 'Invalid Request: not an object with jsonrpc "2.0"')
    return _malformed(data, INVALID_REQUEST, text, readable_id=member != "id")


def _malformed(data: bytes, code: int, text: str, readable_id: bool = True) -> Malformed:
    id, members = scan(data)
    is_response = bool(members & {"result", "error"}) and "method" not in members
    return Malformed(code, text, id if readable_id else None, is_response)


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"\s*:")
_ID = re.compile(rb'\s*:\s*(-?\d{1,18}(?![\d.eE])|"(?:[^"\\\x00-\x1f]|\\.)*")')


def scan(data: bytes) -> tuple[RequestId | None, set[str]]:
    """Look for the id and the names of the members in bytes that cannot be decoded, or only the start of which is at
    hand: whatever the state of the connection, the waiter for that id must not hang.

    Returns the id, or None, and the member names seen at the top level.
    """
    depth, id, members = 0, None, set()
    for token in _TOKEN.finditer(data):
        text = token[0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif depth == 1 and _COLON.match(data, token.end()):
            name = text[1:-1].decode("latin-1")
            members.add(name)
            if name == "id" and (value := _ID.match(data, token.end())):
                id = _read_id(value[1])
    return id, members


def _read_id(text: bytes) -> RequestId | None:
    try:
        value: RequestId = msgspec.json.decode(text, type=int | str)
    except msgspec.DecodeError:
        return None
    return value
