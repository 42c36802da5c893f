"""How a POST of the streamable HTTP transport is read, as a pure function: headers and body in, a verdict out
(basic/transports/streamable-http, Request Metadata and Server Validation).

The verdict is a Call (a modern request that is in order), a Legacy (a message of the session-based protocol, whose
own rules apply) or a Refusal (an HTTP status and the error to send).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from ..errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from .jsonrpc import ErrorObject, ErrorResponse, Malformed, Message, Notification, Request, RequestId, decode
from .methods import METHODS, Direction, Method, lookup
from .types.requests import NO_META, RequestMeta, RequestParams, read_meta
from .versions import META_VERSION, MODERN, Version, is_legacy, is_modern, parse, unsupported

STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}
"""The HTTP status of a modern error, by its code. For other codes: 400 before the method ran, 200 afterwards."""

JSON, SSE = "application/json", "text/event-stream"
_JSON = JSON.encode()
_MODERN = {version.value.encode(): version for version in MODERN}


class Accept(msgspec.Struct, frozen=True):
    """What the client can read. sse_first: of the two it names the event stream first."""

    json: bool
    sse: bool
    sse_first: bool = False


class Call(msgspec.Struct, frozen=True):
    """A modern request in order. `params` is of the method's own type."""

    request: Request
    version: Version
    method: Method
    params: Any
    accept: Accept


class Legacy(msgspec.Struct, frozen=True):
    """A message of the session-based protocol. `version`: its MCP-Protocol-Version header, if there was one."""

    message: Message | Malformed
    session_id: str | None
    version: str | None
    accept: Accept


class Refusal(msgspec.Struct, frozen=True):
    """Answer with this HTTP status and this error; an accepted notification has no error and status 202."""

    status: int
    error: ErrorResponse | None = None


class Headers:
    """The headers of a request: names in lower case ("Clients and servers MUST use case-insensitive comparisons for
    header names").

    A header that is given twice has both values, joined by a comma, as HTTP says.

    raw: as they came, for whoever knows what is usual.
    """

    __slots__ = ("raw",)

    def __init__(self, given: Iterable[tuple[bytes, bytes]]):
        pairs = given if type(given) is list else list(given)
        self.raw = {name.lower(): value for name, value in pairs}
        if len(self.raw) < len(pairs):
            self.raw = {}
            for name, value in pairs:
                key, text = name.lower(), value.strip(b" \t")
                self.raw[key] = b"%b, %b" % (self.raw[key], text) if key in self.raw else text

    def get(self, name: str) -> str | None:
        """A header's value without outer white space, or None."""
        value = self.raw.get(name.encode())
        return value.decode("latin-1").strip(" \t") if value is not None else None


@lru_cache(100)  # there are few, and each client sends the same in every request
def read_accept(value: bytes | None) -> Accept:
    """What an Accept header allows. None means anything; a quality of 0 means no (RFC 9110, section 12.4.2)."""
    if value is None:
        return Accept(True, True)
    allowed: dict[str, bool] = {}
    for part in value.decode("latin-1").lower().split(","):
        kind, *options = (word.strip() for word in part.split(";"))
        allowed[kind] = not any(option.startswith("q=") and not option[2:].strip("0.") for option in options)
    whatever = allowed.get("*/*", False)
    return Accept(
        allowed.get(JSON, allowed.get("application/*", whatever)),
        allowed.get(SSE, allowed.get("text/*", whatever)),
        next((kind for kind in allowed if kind in (JSON, SSE)), JSON) == SSE and allowed[SSE],
    )


def read_request(headers: Headers, body: bytes, methods: Mapping[str, Method] = METHODS) -> Call | Legacy | Refusal:
    """Read one POST.

    headers: the request's headers.  body: the whole body.  methods: the requests that there are.
    Returns a Call, a Legacy, or a Refusal with an HTTP status and the error to answer with.
    """
    content_type = headers.raw.get(b"content-type", b"")
    if content_type != _JSON and content_type.split(b";")[0].strip().lower() != _JSON:
        return _refuse(None, INVALID_REQUEST, f"Content-Type must be {JSON}", status=415)
    accept = read_accept(headers.raw.get(b"accept"))
    if not accept.json and not accept.sse:
        return _refuse(None, INVALID_REQUEST, f"Accept must allow {JSON} and {SSE}", status=406)
    if (call := _in_order(headers, body, accept, methods)) is not None:
        return call
    message, stated = decode(body), headers.get("mcp-protocol-version")
    meta, fault = _meta(message)
    if meta.version is None and (stated is None or not is_modern(stated)):
        if stated is None or is_legacy(stated) or (isinstance(message, Request) and message.method == "initialize"):
            return Legacy(message, headers.get("mcp-session-id"), stated, accept)
        return _unsupported(_id(message), stated)
    if isinstance(message, Request):
        if fault is not None:
            return _refuse(message.id, INVALID_PARAMS, fault)
        return _climb(message, headers, meta, accept, methods)
    if isinstance(message, Notification):
        return Refusal(202)
    if isinstance(message, Malformed):
        return Refusal(STATUS.get(message.code, 400), message.reply())
    # "The client MUST NOT send JSON-RPC responses" (basic/transports/streamable-http, Sending Messages)
    return _refuse(None, INVALID_REQUEST, "clients do not send responses at this protocol version")


def _in_order(headers: Headers, body: bytes, accept: Accept, methods: Mapping[str, Method]) -> Call | None:
    """A modern request that is in order, as nearly all are, read in one go, as its header says what it is; else None,
    and the ladder finds out what is wrong. Where params have no type of their own they are wanted raw."""
    stated = headers.raw.get(b"mcp-protocol-version", b"")
    version = _MODERN.get(stated)
    if version is None:
        return None
    name = headers.raw.get(b"mcp-method", b"").decode("latin-1")
    method = lookup(name, version, Direction.CLIENT, methods)
    if method is None or method.params is RequestParams:
        return None
    try:
        if not body.isascii():
            body.decode()  # see `decode`
        whole = method.whole(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    params = whole.params
    named = (params.meta.version or "").encode()
    if whole.method != name or named != stated or params.meta.client_capabilities is None:
        return None
    if method.name is not None and not _names(headers, getattr(params, method.name)):
        return None
    return Call(Request(whole.id, name), version, method, params, accept)


def _names(headers: Headers, wanted: str) -> bool:
    given = headers.raw.get(b"mcp-name", b"")
    if given == wanted.encode() and wanted.isascii() and wanted.isprintable() and not wanted.startswith(_PREFIX):
        return True
    return decode_value(headers.get("mcp-name")) == wanted


class _Claim(msgspec.Struct):
    version: Any = msgspec.field(default=None, name=META_VERSION)


class _Claimed(msgspec.Struct):
    meta: _Claim = msgspec.field(name="_meta")


def _meta(message: Message | Malformed) -> tuple[RequestMeta, str | None]:
    """The `_meta` of a request, and what is wrong with it. Of one that cannot be read, whether it names a version."""
    if not isinstance(message, Request):
        return NO_META, None
    try:
        return read_meta(message.params), None
    except (msgspec.DecodeError, RecursionError) as error:
        fault = f"Invalid params: {error}"
    try:
        claim = msgspec.json.decode(message.params or b"{}", type=_Claimed).meta.version
    except (msgspec.DecodeError, RecursionError):
        claim = None
    return NO_META if claim is None else RequestMeta(version=str(claim)), fault


def _climb(
    request: Request, headers: Headers, meta: RequestMeta, accept: Accept, methods: Mapping[str, Method]
) -> Call | Refusal:
    """The ladder of a modern request: each rung either refuses or lets it climb on."""
    id = request.id
    if meta.version is None or meta.client_capabilities is None:
        missing = "protocolVersion" if meta.version is None else "clientCapabilities"
        return _refuse(id, INVALID_PARAMS, f"Invalid params: _meta lacks io.modelcontextprotocol/{missing}")
    if refusal := _mismatch(id, "MCP-Protocol-Version", headers.get("mcp-protocol-version"), meta.version):
        return refusal
    version = parse(meta.version)
    if version is None or not version.is_modern:
        return _unsupported(id, meta.version)
    if refusal := _mismatch(id, "Mcp-Method", headers.get("mcp-method"), request.method):
        return refusal
    method = lookup(request.method, version, Direction.CLIENT, methods)
    if method is None:
        return _refuse(id, METHOD_NOT_FOUND, f"Method not found: {request.method[:200]}")
    try:
        params = method.read(request.params or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        return _refuse(id, INVALID_PARAMS, f"Invalid params: {error}")
    if method.name is not None:
        wanted = getattr(params, method.name)
        if refusal := _mismatch(id, "Mcp-Name", decode_value(headers.get("mcp-name")), wanted):
            return refusal
    return Call(request, version, method, params, accept)


_PREFIX, _SUFFIX = "=?base64?", "?="


def encode_value(value: str) -> str:
    """A value as it goes into an `Mcp-Name` or `Mcp-Param-*` header: as it is, where it is printable ASCII without
    spaces at the ends, else in Base64 (basic/transports/streamable-http, Value Encoding).

    A tab inside could stay, says that page; in Base64 it is safe from whoever folds white space, and the conformance
    suite wants it so.
    """
    plain = value.isascii() and value.isprintable() and value == value.strip(" ")
    if plain and not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    return f"{_PREFIX}{base64.b64encode(value.encode()).decode()}{_SUFFIX}"


def decode_value(header: str | None) -> str | None:
    """The value of such a header; None if it is absent, not well encoded, or has characters that no header may have."""
    if header is None or not header.isascii() or not header.replace("\t", " ").isprintable():
        return None
    rest = header.removeprefix(_PREFIX)
    if rest == header or not rest.endswith(_SUFFIX):
        return header
    try:
        return base64.b64decode(rest.removesuffix(_SUFFIX), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _id(message: Message | Malformed) -> RequestId | None:
    """The id to answer with: a response has one of this side's, which means nothing to the client."""
    if isinstance(message, Request) or (isinstance(message, Malformed) and not message.is_response):
        return message.id
    return None


def _mismatch(id: RequestId, header: str, given: str | None, wanted: str) -> Refusal | None:
    """Compare a header with what it mirrors (basic/transports/streamable-http, Server Validation)."""
    if given == wanted:
        return None
    is_ = "is missing or malformed" if given is None else f"is {given[:200]!r}"
    return _refuse(id, HEADER_MISMATCH, f"Header mismatch: {header} {is_}; the body says {wanted[:200]!r}")


def _unsupported(id: RequestId | None, requested: str) -> Refusal:
    error = unsupported(requested)
    return _refuse(id, error.code, str(error), error.data)


def _refuse(id: RequestId | None, code: int, text: str, data: Any = None, *, status: int = 0) -> Refusal:
    return Refusal(status or STATUS.get(code, 400), ErrorResponse(id, ErrorObject(code, text, data)))
