"""The metadata of a protected resource, as it is sent: to anybody, and to scripts of any page (RFC 9728, section 3)."""

from __future__ import annotations

import logging

from .responses import RawHeaders, Send

logger = logging.getLogger("backchannel.http")
_ANYBODY: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD, OPTIONS"),
    (b"access-control-allow-headers", b"*"),  # clients send the protocol version
]


async def send_metadata(send: Send, method: str, document: bytes) -> None:
    """The response to a request for it. document: as JSON."""
    status, headers, body = 405, [(b"allow", b"GET, HEAD, OPTIONS")], b""
    if method == "OPTIONS":
        status, headers = 204, [(b"access-control-max-age", b"86400")]
    elif method in ("GET", "HEAD"):
        status, body = 200, document
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"max-age=300")]
        headers.append((b"content-length", str(len(document)).encode()))
    try:
        await send({"type": "http.response.start", "status": status, "headers": [*headers, *_ANYBODY]})
        await send({"type": "http.response.body", "body": body if method != "HEAD" else b""})
    except OSError:  # what a server may raise once the client has left
        logger.debug("the client left before it had the metadata")
