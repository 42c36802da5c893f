"""The HTTP endpoint of a server: one request and its response at a time, with nothing of MCP in it.

How it works: whoever uses `exchange` has the response until the end of the block. If the block fails or is cancelled
the connection is closed at once; else what is left of the response gets a moment to end by itself, so that its
connection is used again. aiohttp is imported in `open`. The block is interrupted as `asyncio.timeout` does it, which
costs less than a scope: HTTP has asyncio alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import ipaddress
import sys
import urllib.parse
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import ConfigurationError, ConnectionFailed, ConnectionLost, RemoteProtocolError

if TYPE_CHECKING:
    import aiohttp

    from .auth.auth import Auth

_KEEP_ALIVE = 4.0  # seconds; less than the 5 of uvicorn and Node, or a POST may meet a connection that just closes
_LINGER = 1.0  # seconds that a response gets to end after its reader has left
_REDIRECTS = 3
_LARGE = 2**16  # bytes; a longer body is sent in pieces
_MOVED = frozenset({301, 302, 307, 308})
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""What OpenSSL calls an answer that is not TLS."""


class Endpoint:
    """Makes requests to `url`. `name` is its host and port, which is all of the URL that messages show.

    timeout: seconds for a connection to be made.  session: an aiohttp.ClientSession to use; it is not closed.

    Raises: ConfigurationError.
    """

    def __init__(self, url: str, timeout: float, session: aiohttp.ClientSession | None = None):
        try:
            self._parts = urllib.parse.urlsplit(url)
            port = self._parts.port or {"http": 80, "https": 443}[self._parts.scheme]
        except (ValueError, KeyError) as error:
            raise ConfigurationError("an MCP endpoint is given as an http or https URL") from error
        if not self._parts.hostname:
            raise ConfigurationError("the URL of an MCP endpoint has a host")
        self.name = f"{self._parts.hostname}:{port}"
        self._url: Any = url
        self._timeout = timeout
        self._session = session
        self._is_ours = session is None
        self._client_timeout: Any = None
        self._open: set[Exchange] = set()
        self._lingering: dict[aiohttp.ClientResponse, asyncio.TimerHandle] = {}

    def open(self) -> None:
        """Get ready; a connection is made when the first request is. Raises: ConfigurationError without asyncio."""
        import aiohttp

        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            raise ConfigurationError("HTTP needs asyncio; stdio and in-process servers work on trio too") from error
        self._client_timeout = aiohttp.ClientTimeout(total=None, connect=self._timeout)
        if self._session is None:
            # No limit: while the response to one request is read, many others must get through.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE)
            proxy = proxy_for(self._parts.scheme, self._parts.hostname or "")
            self._session = aiohttp.ClientSession(connector=connector, proxy=proxy)

    def exchange(self, method: str, headers: dict[str, str], body: bytes | None = None) -> Exchange:
        """The response to one request, whatever its status: `async with endpoint.exchange(...) as response`.

        Raises: ConnectionFailed where nothing was sent, else ConnectionLost, RemoteProtocolError for a redirect
        to another server.
        """
        return Exchange(self, method, headers, body)

    def translated(self, error: Exception) -> ConnectionFailed | ConnectionLost:
        """An exception of aiohttp as one of ours. Their own texts may hold the URL, and with it secrets."""
        import aiohttp

        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return ConnectionFailed(f"cannot connect to {self.name}: no connection within {self._timeout:g} s")
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError):
            cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
            what = cause or f"the proxy answered with HTTP {getattr(error, 'status', 'nothing')}"
            hint = "; the port may speak plain HTTP: try http://" if getattr(cause, "reason", "") in _NO_TLS else ""
            return ConnectionFailed(f"cannot connect to {self.name}: {what}{hint}")
        if isinstance(error, aiohttp.ClientResponseError):
            return ConnectionLost(f"{self.name} answered with something that is not HTTP")
        return ConnectionLost(f"the connection to {self.name} broke: {type(error).__name__}")

    @property
    def held(self) -> bool:
        """Whether something else is waited for than the server, such as that somebody logs in."""
        return False

    @property
    def busy(self) -> int:
        """How many responses are waited for, or being read."""
        return len(self._open)

    def interrupt(self) -> None:
        """End the exchanges under way: they raise ConnectionLost."""
        for exchange in self._open:
            exchange.interrupt()

    async def close(self) -> None:
        """Close all connections. Nothing can be sent after."""
        self.interrupt()
        for response, timer in self._lingering.items():
            timer.cancel()
            response.close()
        self._lingering.clear()
        session, self._session = self._session, None
        if session is not None and self._is_ours:
            with anyio.CancelScope(shield=True):
                await session.close()

    def _gone(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.name} is closed")

    async def _request(self, method: str, headers: dict[str, str], body: bytes | None) -> aiohttp.ClientResponse:
        """Send it, and follow redirects as long as they stay with the server: to others the headers are a secret."""
        for _ in range(_REDIRECTS + 1):
            if self._session is None or self._session.closed:
                raise self._gone()
            response = await self._session.request(
                method,
                self._url,
                headers=headers,
                data=io.BytesIO(body) if body is not None and len(body) > _LARGE else body,
                timeout=self._client_timeout,
                allow_redirects=False,
                read_bufsize=2**18,
            )
            location = response.headers.get("location") if response.status in _MOVED else None
            if location is None:
                return response
            response.close()
            self._url = self._moved(response, location)
        raise RemoteProtocolError(0, f"{self.name} redirects without end", status=response.status)

    def _moved(self, response: aiohttp.ClientResponse, location: str) -> Any:
        old = response.url
        with contextlib.suppress(ValueError):
            new = old.join(type(old)(location))
            upgraded = (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
            if new.origin() == old.origin() or (upgraded and new.host == old.host):
                return new
        text = f"{self.name} redirects to another server; connect to that one if you trust it"
        raise RemoteProtocolError(0, text, status=response.status)

    def _leave(self, response: aiohttp.ClientResponse) -> None:
        """Nobody reads this response any more. When it has ended, aiohttp uses its connection again."""
        if not response.closed:
            self._lingering[response] = asyncio.get_running_loop().call_later(_LINGER, self._forget, response)
            response.content.on_eof(functools.partial(self._forget, response))

    def _forget(self, response: aiohttp.ClientResponse) -> None:
        if timer := self._lingering.pop(response, None):
            timer.cancel()
            response.close()


def endpoint_for(
    url: str,
    timeout: float,
    session: aiohttp.ClientSession | None,
    auth: Auth | None,
    server: str | None = None,
) -> Endpoint:
    """An Endpoint, whose requests show tokens where `auth` obtains them. server: URL of the MCP endpoint, if `url` is
    not it. Raises: ConfigurationError."""
    return Endpoint(url, timeout, session) if auth is None else auth.endpoint(url, timeout, session, server)


def headers_of(given: Mapping[str, str] | None) -> dict[str, str]:
    """The headers that are given, in a dict of their own. Raises: ConfigurationError for what no header may hold."""
    headers = dict(given or {})
    for name, value in headers.items():
        if any(char in name + value for char in "\r\n\0"):
            raise ConfigurationError(f"the header {name!r} holds a line end or NUL")
    return headers


class Exchange:
    """One request, and its response for the time of the block."""

    __slots__ = ("_body", "_cancelling", "_endpoint", "_headers", "_interrupted", "_method", "_response", "_task")

    def __init__(self, endpoint: Endpoint, method: str, headers: dict[str, str], body: bytes | None):
        self._endpoint = endpoint
        self._method, self._headers, self._body = method, headers, body
        self._response: aiohttp.ClientResponse | None = None
        self._interrupted = False

    def interrupt(self) -> None:
        """End it: the block raises ConnectionLost."""
        if not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    async def __aenter__(self) -> aiohttp.ClientResponse:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._endpoint._open.add(self)
        try:
            self._response = await self._endpoint._request(self._method, self._headers, self._body)
        finally:
            if self._response is None:
                self._end(sys.exc_info()[1])
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        endpoint, response = self._endpoint, self._response
        endpoint._open.discard(self)
        if response is not None:
            if error is None:
                endpoint._leave(response)
            else:
                response.close()
        # One that is cancelled besides by somebody else stays so.
        interrupted = self._interrupted and self._task.uncancel() <= self._cancelling
        if isinstance(error, asyncio.CancelledError) and interrupted:
            raise endpoint._gone() from None
        if error is not None and isinstance(error, faults()):
            raise endpoint.translated(error) from error


def faults() -> tuple[type[Exception], ...]:
    """What aiohttp raises when a request fails, to be `translated`."""
    import aiohttp

    return aiohttp.ClientError, OSError


def proxy_for(scheme: str, host: str) -> str | None:
    """The proxy that the environment names, as every tool takes it; never for this machine."""
    import urllib.request

    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host == "localhost" or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all") or ""
    return proxy if proxy.startswith(("http://", "https://")) else None
