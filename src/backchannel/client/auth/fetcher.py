"""The requests of a flow, over HTTP: to hosts that may be asked, for responses that are not too long."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...errors import ConnectionFailed, LoginFailed
from ..endpoint import proxy_for
from ..refusal import read_body
from .reach import Distance, Resolver, check, distance_of
from .steps import Fetch, Fetched
from .well_known import joined, secure

if TYPE_CHECKING:
    import aiohttp

_LIMIT = 30.0  # seconds for a request and its response
_LONGEST = 2**18  # bytes of a response
_REDIRECTS = 3
_MOVED = frozenset({301, 302, 303, 307, 308})


class Fetcher:
    """Sends the requests of the flows for one MCP server, over a connection each: they are few, and go to many places.

    server: its URL.  trust_network: whether the server may name hosts that are nearer than itself.
    """

    def __init__(self, server: str, *, trust_network: bool = False):
        self._server = server
        self._trusts = trust_network

    async def __call__(self, request: Fetch) -> Fetched:
        """The response, whatever its status. Only a GET follows redirects: others have secrets.

        Raises: ConnectionFailed, LoginFailed for what may not be asked or is too long.
        """
        import aiohttp

        url = secure(request.url, "a URL that the server names")
        timeout = aiohttp.ClientTimeout(total=_LIMIT)
        least = await self._least()
        for _ in range(_REDIRECTS + 1):
            proxy = _checked(url, least)
            resolver = Resolver(Distance.NOWHERE if proxy else least)
            connector = aiohttp.TCPConnector(resolver=resolver, force_close=True)
            async with aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=proxy) as session:
                fetched = await self._once(session, request, url)
            location = fetched.headers.get("location")
            if request.method != "GET" or fetched.status not in _MOVED or location is None:
                return fetched
            url = secure(joined(url, location), f"what {_host(url)} redirects to")
        raise LoginFailed(f"{_host(url)} redirects without end")

    async def _once(self, session: aiohttp.ClientSession, request: Fetch, url: str) -> Fetched:
        import aiohttp

        try:
            async with session.request(
                request.method, url, headers=dict(request.headers), data=request.body or None, allow_redirects=False
            ) as response:
                body = await read_body(response, _LONGEST)
                headers = {name.lower(): value for name, value in response.headers.items()}
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError too
            raise ConnectionFailed(f"{_host(url)} did not answer: {type(error).__name__}") from error
        if len(body) > _LONGEST:
            raise LoginFailed(f"the response of {_host(url)} is too long")
        return Fetched(response.status, headers, body, url)

    async def _least(self) -> Distance:
        if self._trusts:
            return Distance.NOWHERE
        parts = urlsplit(self._server)
        return await distance_of(parts.hostname or "", parts.port or 443)


def _checked(url: str, least: Distance) -> str | None:
    """The proxy for a URL. Raises: LoginFailed for an address that may not be asked: no resolver sees those."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        check(host, host, least)
    except ValueError:
        if host.replace(".", "").isdigit():  # such as 127.1, which is one to who connects
            raise LoginFailed(f"{host} is no way to write an address, so nothing is asked of it") from None
    return proxy_for(parts.scheme, host)


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the server"
