"""Which hosts and origins may talk to the endpoint: protection against DNS rebinding (basic/transports/streamable-http,
Security & Endpoint)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

from ...errors import INVALID_REQUEST
from ...protocol.http import Headers, Refusal
from ...protocol.jsonrpc import ErrorObject, ErrorResponse

logger = logging.getLogger("backchannel.http")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Checks the Host and Origin headers.

    hosts: names that may stand in Host, without a port, `*.example.com` for all below, "*" for any; default loopback.
    origins: origins such as "https://app.example.com" that browsers may come from; default: those on the same hosts.
    """

    def __init__(self, hosts: Sequence[str] | None = None, origins: Sequence[str] | None = None):
        self._hosts = tuple(host.lower() for host in (hosts if hosts is not None else LOOPBACK))
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins) if origins is not None else None

    def check(self, headers: Headers) -> Refusal | None:
        """The refusal of a request that may not come in: 421 for a wrong Host, 403 for a wrong Origin; else None."""
        host = headers.get("host")
        if host is not None and not self._allows(_name(host)):
            logger.warning("Host %r was refused: allow it with http_app(..., allowed_hosts=[...])", host[:200])
            return _refuse(421, "Misdirected Request: this Host is not allowed here")
        origin = headers.get("origin")
        if origin is not None and not self._allows_origin(origin.lower()):
            logger.warning("Origin %r was refused: allow it with http_app(..., allowed_origins=[...])", origin[:200])
            return _refuse(403, "Forbidden: this Origin is not allowed here")
        return None

    def _allows(self, name: str) -> bool:
        return any(
            pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))
            for pattern in self._hosts
        )

    def _allows_origin(self, origin: str) -> bool:
        if self._origins is not None:
            return "*" in self._origins or origin in self._origins
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and self._allows(_name(parts.netloc))


def _name(host: str) -> str:
    """A host without its port, in lower case."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _refuse(status: int, text: str) -> Refusal:
    return Refusal(status, ErrorResponse(None, ErrorObject(INVALID_REQUEST, text)))
