"""The server as a protected resource: its identifier, and the metadata that clients find it by (RFC 9728).

How it works: behind `/.well-known/oauth-protected-resource` comes the path of the resource. An app that is mounted has
only what lies below its own path, so it is asked there, and clients learn where from the challenge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from ...errors import ConfigurationError
from ...protocol.http import Headers

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_PORTS = {"http": ":80", "https": ":443"}
_URL = re.compile(r"(https?)://([^/?#]+)([^?#]*)(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9._~%\[\]:-]+")


def canonical(url: str) -> str:
    """A URL as it is compared: scheme and host in lower case, no default port, no slash at the end of the path. What is
    no HTTP URL is as it is."""
    found = _URL.fullmatch(url)
    if found is None:
        return url
    scheme, host, path, rest = found.groups()
    scheme = scheme.lower()
    return f"{scheme}://{host.lower().removesuffix(_PORTS[scheme])}{path.rstrip('/')}{rest}"


class Resource:
    """url: the server's own, as clients know it; None: what the request says, with the scheme and host that the ASGI
    server found.

    Raises: ConfigurationError for what is no identifier of a resource.
    """

    def __init__(self, url: str | None):
        parts = _split(url)
        if url is not None and (
            parts is None
            or parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.fragment
            or parts.query
        ):
            raise ConfigurationError(f"resource is this server's URL, such as https://mcp.example.com/mcp, not {url!r}")
        self.pinned = url
        self._parts = parts

    def url(self, scope: Mapping[str, Any], headers: Headers) -> str:
        """The identifier of the resource that a request is for."""
        return self.pinned or _origin(scope, headers) + _encoded(full_path(scope))

    def metadata_url(self, scope: Mapping[str, Any], headers: Headers) -> str:
        """Where the metadata is, as clients of this resource reach it."""
        root, path = _encoded(scope.get("root_path", "").rstrip("/")), _encoded(full_path(scope))
        path = path.removeprefix(root)
        if self._parts is None:
            return f"{_origin(scope, headers)}{root}{WELL_KNOWN}{path}"
        public = self._parts.path.rstrip("/")
        before = public.removesuffix(path) if public.endswith(path) else None
        origin = f"{self._parts.scheme}://{self._parts.netloc}"
        return f"{origin}{WELL_KNOWN}{public}" if before is None else f"{origin}{before}{WELL_KNOWN}{path}"

    def found(self, scope: Mapping[str, Any], headers: Headers, endpoint: str) -> str | None:
        """The identifier of the resource whose metadata a request asks for; None if it asks for something else.
        endpoint: the path of the server in its app. Without a path the metadata is that of the endpoint too."""
        before, middle, after = _encoded(full_path(scope)).partition(WELL_KNOWN)
        if not middle or not (after == "" or after.startswith("/")):
            return None
        endpoint = _encoded(endpoint.rstrip("/"))
        path = before + (after or endpoint)
        if self._parts is not None and path == self._parts.path.rstrip("/"):
            return self.pinned
        mounted = str(scope.get("root_path", "")).endswith(WELL_KNOWN)  # there, so that all below is this app's
        ours = mounted or after in ("", endpoint) or (endpoint != "" and after.endswith(endpoint))
        return (self.pinned or _origin(scope, headers) + path) if ours else None


def full_path(scope: Mapping[str, Any]) -> str:
    """The path of a request, with where the app is mounted, and without a slash at the end."""
    root, path = scope.get("root_path", "").rstrip("/"), scope["path"]
    return str(path if f"{path}/".startswith(f"{root}/") else root + path).rstrip("/")


def _encoded(path: str) -> str:
    """A path as a URL has it. An ASGI server gives it decoded, with whatever a client has put there."""
    return quote(path, safe="/:@!$&'()*+,;=")


def _split(url: Any) -> SplitResult | None:
    try:
        return urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None


def _origin(scope: Mapping[str, Any], headers: Headers) -> str:
    host = headers.get("host") or ""
    if not _HOST.fullmatch(host):
        name, port = scope.get("server") or ("localhost", None)
        host = f"{name}:{port}" if port is not None else name
    return f"{scope.get('scheme', 'http')}://{host}"
