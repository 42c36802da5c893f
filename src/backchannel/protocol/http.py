"""How a POST of the streamable HTTP transport is read, as a pure function: headers and body in, a verdict out
(basic/transports/streamable-http, Request Metadata and Server Validation).

The verdict is a Call (a modern request that is in order), a Legacy (a message of the session-based protocol, whose
own rules apply) or a Refusal (an HTTP status and the error to send).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from .jsonrpc import ErrorObject, ErrorResponse, Malformed, Message, Notification, Request, RequestId, decode
from .methods import Direction, Method, lookup
from .types.requests import RequestMeta
from .versions import SUPPORTED, Version, is_legacy, parse

STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
}
"""The HTTP status of an error that was found before the method ran; 400 where nothing is said."""

JSON, SSE = "application/json", "text/event-stream"


@dataclass(frozen=True, slots=True)
class Accept:
    """What the client can read."""

    json: bool
    sse: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A modern request in order. `params` is of the method's own type."""

    request: Request
    version: Version
    method: Method
    params: Any
    accept: Accept


@dataclass(frozen=True, slots=True)
class Legacy:
    """A message of the session-based protocol. `version`: its MCP-Protocol-Version header, if there was one."""

    message: Message | Malformed
    session_id: str | None
    version: str | None
    accept: Accept


@dataclass(frozen=True, slots=True)
class Refusal:
    """Answer with this HTTP status and this error; an accepted notification has no error and status 202."""

    status: int
    error: ErrorResponse | None = None


class Headers:
    """The headers of a request that matter here: names in lower case, values with outer white space stripped.

    A header that is given twice has both values, joined by a comma, as HTTP says.
    """

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]):
        values: dict[str, str] = {}
        for name, value in raw:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
            values[key] = f"{values[key]}, {text}" if key in values else text
        self._values = values

    def get(self, name: str) -> str | None:
        """The value of the header `name`, given in lower case."""
        return self._values.get(name)


def read_accept(headers: Headers) -> Accept:
    """What the Accept header allows. No header means anything."""
    value = headers.get("accept")
    if value is None:
        return Accept(True, True)
    kinds = {part.split(";")[0].strip().lower() for part in value.split(",")}
    return Accept(
        bool(kinds & {JSON, "application/*", "*/*"}),
        bool(kinds & {SSE, "text/*", "*/*"}),
    )


def read_request(headers: Headers, body: bytes) -> Call | Legacy | Refusal:
    """Read one POST.

    headers: the request's headers.  body: the whole body.
    Returns a Call, a Legacy, or a Refusal with an HTTP status and the error to answer with.
    """
    content_type = headers.get("content-type") or ""
    if content_type.split(";")[0].strip().lower() != JSON:
        return _refuse(415, None, INVALID_REQUEST, f"Content-Type must be {JSON}")
    accept = read_accept(headers)
    if not accept.json and not accept.sse:
        return _refuse(406, None, INVALID_REQUEST, f"Accept must allow {JSON} and {SSE}")
    message = decode(body)
    version = headers.get("mcp-protocol-version")
    envelope = _envelope(message)
    if isinstance(envelope, Malformed):
        return Refusal(400, envelope.reply())
    if not _looks_modern(message, version, envelope):
        return Legacy(message, headers.get("mcp-session-id"), version, accept)
    if isinstance(message, Malformed):
        return Refusal(STATUS.get(message.code, 400), message.reply())
    if isinstance(message, Notification):
        return Refusal(202)
    if not isinstance(message, Request):
        return _refuse(400, None, INVALID_REQUEST, "clients do not send responses at this protocol version")
    return _climb(message, headers, envelope, accept)


def _looks_modern(message: Message | Malformed, version: str | None, envelope: RequestMeta) -> bool:
    """The era of a message: the envelope, then the header, then `initialize`; a version that nobody knows is refused
    by the modern rules, for they can say what is supported."""
    if envelope.version is not None:
        return True
    if isinstance(message, Request) and message.method == "initialize":
        return False
    return version is not None and not is_legacy(version)


class _MetaOnly(msgspec.Struct):
    meta: RequestMeta = msgspec.field(default_factory=RequestMeta, name="_meta")


_meta_decoder = msgspec.json.Decoder(_MetaOnly)


def _envelope(message: Message | Malformed) -> RequestMeta | Malformed:
    if not isinstance(message, Request) or message.params is None:
        return RequestMeta()
    try:
        return _meta_decoder.decode(message.params).meta
    except (msgspec.DecodeError, RecursionError) as error:
        return Malformed(INVALID_PARAMS, f"Invalid params: {error}", message.id)


def _climb(request: Request, headers: Headers, meta: RequestMeta, accept: Accept) -> Call | Refusal:
    """The ladder of a modern request: each rung either refuses or lets it climb on."""
    id, named = request.id, headers.get("mcp-protocol-version")
    if meta.version is None or meta.client_capabilities is None:
        missing = "protocolVersion" if meta.version is None else "clientCapabilities"
        return _refuse(400, id, INVALID_PARAMS, f"Invalid params: _meta lacks io.modelcontextprotocol/{missing}")
    if named != meta.version:
        return _mismatch(id, "MCP-Protocol-Version", named, meta.version)
    version = parse(meta.version)
    if version is None or is_legacy(version):
        data = {"supported": [known.value for known in SUPPORTED], "requested": meta.version}
        return _refuse(400, id, UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if headers.get("mcp-method") != request.method:
        return _mismatch(id, "Mcp-Method", headers.get("mcp-method"), request.method)
    method = lookup(request.method, version, Direction.CLIENT)
    if method is None:
        return _refuse(404, id, METHOD_NOT_FOUND, f"Method not found: {request.method}")
    try:
        params = msgspec.json.decode(request.params if request.params is not None else b"{}", type=method.params)
    except (msgspec.DecodeError, RecursionError) as error:
        return _refuse(400, id, INVALID_PARAMS, f"Invalid params: {error}")
    if method.name is not None:
        given, wanted = decode_value(headers.get("mcp-name")), getattr(params, method.name)
        if given != wanted:
            return _mismatch(id, "Mcp-Name", given, wanted)
    return Call(request, version, method, params, accept)


_PREFIX, _SUFFIX = "=?base64?", "?="


def encode_value(value: str) -> str:
    """A value as it goes into an `Mcp-Name` or `Mcp-Param-*` header: as it is, where it is plain ASCII without white
    space at the ends, else in Base64 (basic/transports/streamable-http, Value Encoding)."""
    plain = all(" " <= char <= "~" or char == "\t" for char in value) and value == value.strip(" \t")
    if plain and not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    return f"{_PREFIX}{base64.b64encode(value.encode()).decode()}{_SUFFIX}"


def decode_value(header: str | None) -> str | None:
    """The value of such a header, or None if it is absent or not well encoded."""
    if header is None or not (header.startswith(_PREFIX) and header.endswith(_SUFFIX)):
        return header
    try:
        return base64.b64decode(header[len(_PREFIX) : -len(_SUFFIX)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _mismatch(id: RequestId, header: str, given: str | None, wanted: str) -> Refusal:
    if given is None:
        text = f"Header mismatch: {header} is missing or malformed; the body says {wanted[:200]!r}"
    else:
        text = f"Header mismatch: {header} is {given[:200]!r}, the body says {wanted[:200]!r}"
    return _refuse(400, id, HEADER_MISMATCH, text)


def _refuse(status: int, id: RequestId | None, code: int, text: str, data: Any = None) -> Refusal:
    return Refusal(status, ErrorResponse(id, ErrorObject(code, text, data)))
