"""How this side of the server fetches what an authorization server publishes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from ...errors import ConfigurationError
from .refusal import Unavailable

PATIENCE = 5.0
"""Seconds that one request gets."""
_LARGEST = 1 << 20  # bytes of a body
_MAX_AGE = re.compile(r"max-age=(\d{1,9})")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response. max_age: seconds for which it may be kept, None where it does not say."""

    status: int
    body: bytes
    max_age: float | None = None

    def document(self) -> dict[str, Any] | None:
        """The JSON object that it is, if it is one."""
        if self.status != 200:
            return None
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None


class Fetch(Protocol):
    """Sends one request, and follows no redirect: where keys come from is not for others to say."""

    async def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Fetched:
        """The response, whatever its status. Raises: Unavailable, or OSError, if there is none in time."""


async def fetch(method: str, url: str, headers: Mapping[str, str], body: bytes) -> Fetched:
    """A Fetch over the network, on a connection of its own: it is needed about as often as keys change."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, headers=headers, data=body or None, allow_redirects=False) as response,
        ):
            chunks, size = [], 0
            async for chunk in response.content.iter_chunked(65536):
                chunks.append(chunk)
                size += len(chunk)
                if size > _LARGEST:
                    raise Unavailable(f"{url} has more than {_LARGEST} bytes")
            found = _MAX_AGE.search(response.headers.get("cache-control", ""))
            return Fetched(response.status, b"".join(chunks), float(found[1]) if found else None)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unavailable(f"{url}: {type(error).__name__}: {error}") from error


def check_url(what: str, url: Any, insecure: bool) -> str:
    """A URL of an authorization server, as it is given. "All authorization server endpoints MUST be served over HTTPS"
    (basic/authorization, Communication Security); on loopback, where tests and development are, over HTTP too.

    Raises: ConfigurationError.
    """
    if not isinstance(url, str):
        raise ConfigurationError(f"{what} is a URL, not {url!r}")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if not parts.hostname or parts.scheme not in ("http", "https") or parts.fragment or "@" in parts.netloc:
        raise ConfigurationError(f"{what} is a URL such as https://auth.example.com, not {url!r}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not insecure:
        raise ConfigurationError(f"{what} has to be https, not {url!r}; insecure=True is for networks of tests")
    return url
