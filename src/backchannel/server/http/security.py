"""Which hosts and origins may talk to the endpoint: protection against DNS rebinding (basic/transports/streamable-http,
Security & Endpoint)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from ...errors import INVALID_REQUEST, ConfigurationError
from ...protocol.http import Headers, Refusal
from ...protocol.jsonrpc import ErrorObject, ErrorResponse
from ..options import listed

logger = logging.getLogger("backchannel.http")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_FORM = re.compile(r"(?:\[[0-9a-f:.]+\]|[^\s,:/@\[\]]+)(?::[0-9]*)?", re.IGNORECASE)  # of one host: RFC 9110, 7.2
_MOST = 100  # hosts to remember: where any may come in, the client chooses them
_Host = tuple[str, str]  # name and port; either may be "*"


class Guard:
    """Checks the Host and Origin headers.

    hosts: names that may stand in Host, with a port or for any, `*.example.com` for all below, "*" for any; default
    loopback.  origins: origins such as "https://app.example.com" that browsers may come from, "*" for any; default
    those on the same hosts, or on loopback where any host is served, for a rebound name would be one of "any".
    """

    def __init__(self, hosts: Sequence[str] | None = None, origins: Sequence[str] | None = None):
        names = listed("allowed_hosts", hosts) if hosts is not None else LOOPBACK
        self._hosts = [_split(_bare(name)) for name in names]
        named = [host for host in self._hosts if host[0] != "*"]
        self._origin_hosts = named or [_split(host) for host in LOOPBACK]
        given = listed("allowed_origins", origins) if origins is not None else None
        self._origins = frozenset(map(_origin, given)) if given is not None else None
        self._known: set[bytes] = set()  # hosts that were let in: there are few, and each request names one

    def check(self, headers: Headers) -> Refusal | None:
        """The refusal of a request that may not come in: 421 for a wrong Host, or several, 403 for a wrong Origin; else
        None."""
        host = headers.raw.get(b"host")
        if host is not None and host not in self._known and not self._admits(host):
            text = "Host %r was refused: allow it with http_app(..., allowed_hosts=[...])"
            logger.warning(text, host.decode("latin-1")[:200])
            return _refuse(421, "Misdirected Request: this Host is not allowed here")
        origin = headers.get("origin") if b"origin" in headers.raw else None
        if origin is not None and not self._allows(origin.lower()):
            logger.warning("Origin %r was refused: allow it with http_app(..., allowed_origins=[...])", origin[:200])
            return _refuse(403, "Forbidden: this Origin is not allowed here")
        return None

    def _admits(self, host: bytes) -> bool:
        admitted = _among(self._hosts, host.decode("latin-1").strip(" \t"))
        if admitted and len(self._known) < _MOST:
            self._known.add(host)
        return admitted

    def _allows(self, origin: str) -> bool:
        if self._origins is not None:
            return "*" in self._origins or origin in self._origins
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _among(self._origin_hosts, parts.netloc)


def _bare(host: str) -> str:
    """A host as it is. Raises: ConfigurationError for a URL."""
    if "/" in host:
        raise ConfigurationError(
            f"allowed_hosts has names without scheme and path, such as mcp.example.com, not {host!r}"
        )
    return host


def _origin(origin: str) -> str:
    """An origin in lower case. Raises: ConfigurationError for what no browser sends as one."""
    text = origin.lower().rstrip("/")
    scheme, colon, host = text.partition("://")
    if text not in ("*", "null") and (not scheme or not colon or not host or "/" in host):
        raise ConfigurationError(
            f"allowed_origins has a scheme and a host, such as https://app.example.com, and no path: not {origin!r}"
        )
    return text


def _among(patterns: Iterable[_Host], host: str) -> bool:
    if not _FORM.fullmatch(host):
        return False
    name, port = _split(host)
    return any(
        (known in ("*", name) or (known.startswith("*.") and name.endswith(known[1:]))) and at in ("*", port)
        for known, at in patterns
    )


def _split(host: str) -> _Host:
    """Name and port, in lower case; "*" without a port. An IPv6 address has its brackets."""
    host = host.lower()
    if host.startswith("["):
        name, _, port = host.partition("]")
        return f"{name}]", port.removeprefix(":") or "*"
    if host.count(":") > 1:
        return f"[{host}]", "*"
    name, _, port = host.partition(":")
    return name, port or "*"


def _refuse(status: int, text: str) -> Refusal:
    return Refusal(status, ErrorResponse(None, ErrorObject(INVALID_REQUEST, text)))
