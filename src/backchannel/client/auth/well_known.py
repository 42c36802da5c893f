"""URLs of authorization: which may be used at all, and where metadata lies (basic/authorization,
Authorization Server Discovery)."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from ...errors import LoginFailed

_PORTS = {"http": 80, "https": 443}
_NEVER = frozenset('"<>\\^`{|}')
"""Characters that no URL has (RFC 3986): it may be shown to a browser by way of a command."""


def origin(url: str) -> str:
    """Scheme, host and port of a URL, as it is written but for the case. Raises: ValueError."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), "", "", ""))


def is_loopback(host: str | None) -> bool:
    """Whether this host is this machine, by its name."""
    if host is None or host.lower() == "localhost":
        return host is not None
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def secure(url: str, what: str) -> str:
    """The URL, if it may be used: "All authorization server endpoints MUST be served over HTTPS"
    (basic/authorization/security-considerations, Communication Security), but for those on this machine.

    what: the name of the URL, for the message.

    Raises: LoginFailed.
    """
    try:
        parts = urlsplit(url)
        allowed = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        allowed = allowed and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        allowed = False
    if not allowed or not all("!" <= char <= "~" and char not in _NEVER for char in url):
        raise LoginFailed(f"{what} is no https URL, so it is not used: {url[:200]!r}")
    return url


def joined(base: str, url: str) -> str:
    """A URL that may be relative. One that is none stays as it is, for `secure` to refuse."""
    try:
        return urljoin(base, url)
    except ValueError:
        return url


def covers(resource: str, server: str) -> bool:
    """Whether the server at this URL belongs to the resource: the same host, and a path below that of the resource. A
    slash at its end makes no difference."""
    try:
        wide, narrow = urlsplit(resource), urlsplit(server)
        if _place(wide) != _place(narrow) or wide.fragment or (wide.query and wide.query != narrow.query):
            return False
    except ValueError:
        return False
    prefix, path = wide.path.rstrip("/") + "/", narrow.path.rstrip("/") + "/"
    return path.startswith(prefix) and not {".", ".."} & set(wide.path.split("/"))


def _place(parts: SplitResult) -> tuple[str, str | None, int | None]:
    scheme = parts.scheme.lower()
    return scheme, parts.hostname, parts.port or _PORTS.get(scheme)


def resource_metadata(server: str) -> list[str]:
    """Where the metadata of a protected resource may lie: "At the path of the server's MCP endpoint", and "At the root"
    (Protected Resource Metadata Discovery Requirements)."""
    parts, base = urlsplit(server), origin(server)
    name = "/.well-known/oauth-protected-resource"
    paths = [f"{name}{parts.path.rstrip('/')}{'?' + parts.query if parts.query else ''}", name]
    return [base + path for path in dict.fromkeys(paths)]


def server_metadata(issuer: str) -> list[str]:
    """Where the metadata of an authorization server may lie, in the order in which they have to be tried
    (Authorization Server Metadata Discovery)."""
    base, path = origin(issuer), urlsplit(issuer).path.rstrip("/")
    oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    places = [oauth + path, openid + path, path + openid] if path else [oauth, openid]
    return [base + place for place in places]


def same_issuer(one: str, other: str) -> bool:
    """Whether two issuers are the same: "MUST be identical", but for a slash at the end, since metadata of both lie at
    one and the same URL (RFC 8414, 3.1), and many servers publish one form here and the other there."""
    return one.removesuffix("/") == other.removesuffix("/")
