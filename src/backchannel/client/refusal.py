"""What an HTTP response that is no success says, as an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import MISSING_CLIENT_CAPABILITY, AuthRequired, RemoteProtocolError
from ..protocol.jsonrpc import ErrorResponse, decode

if TYPE_CHECKING:
    import aiohttp

_LONGEST = 2**20
USUAL = "/mcp"
_GIVEN = {
    "elicitation": {"": "elicit=...", "form": "elicit=...", "url": "elicit_url=..."},
    "sampling": {
        "": "sample=...",
        "tools": "sample=..., sample_tools=True",
        "context": "sample=..., sample_context=True",
    },
    "roots": {"": "roots=[...]"},
}
"""Capability -> what declares it, and its parts."""
_NOWHERE = f"is the endpoint {USUAL}?"
LOG_IN = "; give Client(..., auth=OAuth())"


async def read_body(response: aiohttp.ClientResponse, limit: int = _LONGEST) -> bytes:
    """The body, or where it is longer than `limit`, more than `limit` bytes of it."""
    content = response.content
    body = await content.readany()
    if content.at_eof() or len(body) > limit:
        return body
    pieces = bytearray(body)
    while len(pieces) <= limit and (piece := await content.readany()):
        pieces += piece
    return bytes(pieces)


def refusal(name: str, response: aiohttp.ClientResponse, body: bytes) -> RemoteProtocolError | AuthRequired:
    """The error in the body, or one of code 0 that shows the beginning of the body; for 404, where endpoints often are;
    for credentials that were refused, why.

    name: of the server, for messages.
    """
    status = response.status
    challenge = ", ".join(response.headers.getall("www-authenticate", []))
    if status == 401 or (status == 403 and "insufficient_scope" in challenge):
        return AuthRequired(f"{name} {_wanted(response, challenge)}{LOG_IN}", challenge)
    message = decode(body)
    if isinstance(message, ErrorResponse):
        return error_of(message, status)
    start = body[:200].decode("utf-8", "replace").strip() or _why(response, challenge)
    hint = f" {_NOWHERE}" if status == 404 and response.url.path != USUAL else ""
    text = f"{name} answered with HTTP {status}{':' if hint or start else ''}{hint}{' ' if start else ''}{start}"
    return RemoteProtocolError(0, text, status=status)


def _wanted(response: aiohttp.ClientResponse, header: str) -> str:
    """What credentials are wanted, by a WWW-Authenticate header."""
    why = _why(response, header)
    what = "a token with more scopes" if response.status == 403 else "other credentials" if why else "credentials"
    return f"wants {what} (HTTP {response.status}){': ' if why else ''}{why}"


def _why(response: aiohttp.ClientResponse, header: str) -> str:
    from .auth.challenge import challenge_of, reason

    return reason(challenge_of(header), response.request_info.headers.get("authorization", "")) if header else ""


def error_of(message: ErrorResponse, status: int = 200) -> RemoteProtocolError:
    """The error of a response that came with this HTTP status; for what this Client lacks it says how that is given."""
    code, text, data = message.error.code, message.error.message, message.error.data
    missing = data.get("requiredCapabilities") if isinstance(data, Mapping) else None
    if code == MISSING_CLIENT_CAPABILITY and isinstance(missing, Mapping) and (give := _arguments(missing)):
        text = f"{text}; to answer such questions give Client({give})"
    return RemoteProtocolError(code, text, data, status=status)


def _arguments(missing: Mapping[str, Any]) -> str:
    """What a Client is given to have these capabilities."""
    found = []
    for name in ("elicitation", "sampling", "roots"):
        inner = missing.get(name)
        if name in missing:
            within = [key for key in _GIVEN.get(name, {}) if isinstance(inner, Mapping) and key in inner]
            found += [_GIVEN[name][key] for key in within or [""]]
    return ", ".join(found)
