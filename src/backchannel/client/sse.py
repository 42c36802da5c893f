"""HTTP+SSE, the transport of 2024-11-05, for servers that have no other (deprecated; use streamable HTTP):
2024-11-05 basic/transports, HTTP with SSE.

How it works: one GET stream brings everything from the server; its first event says where messages are POSTed to.
"""

from __future__ import annotations

import logging
import urllib.parse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from ..errors import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_VERSION,
    BackchannelError,
    ConnectionFailed,
    ConnectionLost,
    RemoteProtocolError,
)
from ..nursery import Nursery
from ..one_line import one_line
from ..protocol.http import JSON, SSE
from ..protocol.jsonrpc import Malformed, Message, Request
from ..protocol.lines import Oversized
from ..protocol.sse import Event, SSEDecoder
from ..protocol.versions import FEATURES, Version
from ..waiter import Waiter
from .endpoint import Endpoint, endpoint_for, headers_of
from .refusal import read_body, refusal
from .transport import Lost, Receive, Transport, encoded, is_junk, read, too_large

if TYPE_CHECKING:
    import aiohttp

    from .auth.auth import Auth

logger = logging.getLogger("backchannel.client")

_OLD = frozenset({400, 404, 405})
_MODERN = frozenset({HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND})


class SseTransport:
    """Carries messages to a server of 2024-11-05, whose event stream is at `url`.

    url, headers, timeout_connect, max_message, session, auth: as for HttpTransport; the `endpoint` event has to come
    within `timeout_connect` seconds, too.

    Raises: ConfigurationError.  Specification: 2024-11-05 basic/transports.
    """

    request_streams = False

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_connect: float = 10.0,
        max_message: int = 64 * 2**20,
        session: aiohttp.ClientSession | None = None,
        auth: Auth | None = None,
    ):
        self.headers = headers_of(headers)
        self._url = url
        self._timeout = timeout_connect
        self._max_message = max_message
        self._session = session
        self._auth = auth
        self._stream = endpoint_for(url, timeout_connect, session, auth)
        self._posts: Endpoint | None = None
        self._version: Version | None = None
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._nursery = Nursery()
        self._opened = Waiter()
        self._closing = False

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Open the stream, and wait until it says where messages go.

        Raises: ConnectionFailed, AuthRequired, RemoteProtocolError where this is no such server.
        """
        if self._receive is not None or self._closing:
            raise ConnectionFailed(f"this connection to {self._stream.name} was used before; make a new one")
        self._receive, self._lost = receive, lost
        self._stream.open()
        self._nursery.start(self._run)
        while True:
            with anyio.move_on_after(self._timeout):
                await self._opened.wait()
                return
            if not self._stream.held:
                raise ConnectionFailed(f"{self._stream.name} sent no endpoint event within {self._timeout:g} s")

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """POST one message; the response to a request comes on the stream.

        Raises: ConnectionFailed (nothing was sent), ConnectionLost, LocalProtocolError, AuthRequired, and
        RemoteProtocolError with the HTTP `status`.
        """
        body = encoded(message)
        if self._posts is None or self._closing:
            raise ConnectionLost(f"the connection to {self._stream.name} is closed")
        async with self._posts.exchange("POST", {**self._base(), "content-type": JSON}, body) as response:
            if response.status >= 300:
                raise refusal(self._posts.name, response, await read_body(response))

    def negotiated(self, version: Version) -> None:
        """Messages are read as this version has them."""
        self._version = version

    async def listen(self) -> None:
        """Nothing to do: the stream is open."""

    async def close(self) -> None:
        """Close all connections."""
        self._closing = True
        self._stream.interrupt()
        await self._nursery.close()
        await self._stream.close()
        if self._posts is not None:
            await self._posts.close()

    @property
    def streams(self) -> int:
        """How many responses are being read."""
        return self._stream.busy + (self._posts.busy if self._posts is not None else 0)

    def _base(self) -> dict[str, str]:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self._version is not None and FEATURES[self._version].version_header:
            headers["mcp-protocol-version"] = self._version.value
        return headers

    async def _run(self) -> None:
        """Read the stream to its end, which is the end of the connection."""
        why: BackchannelError = ConnectionLost(f"the stream from {self._stream.name} has ended")
        try:
            async with self._stream.exchange("GET", {**self._base(), "accept": SSE}) as response:
                if response.status != 200 or response.content_type != SSE:
                    raise refusal(self._stream.name, response, await read_body(response))
                events = SSEDecoder(self._max_message)
                while chunk := await response.content.readany():
                    for event in events.feed(chunk):
                        self._take(event)
        except BackchannelError as error:
            why = error
        finally:
            was_open = self._opened.done
            self._opened.fail(why)
            if was_open and self._lost is not None and not self._closing:
                self._lost(why if isinstance(why, ConnectionLost) else ConnectionLost(str(why)))

    def _take(self, event: Event | Oversized) -> None:
        if self._closing or self._receive is None:
            return
        if self._posts is None:
            return self._begin(event)
        if isinstance(event, Oversized):
            messages: list[Message | Malformed] = [too_large(event)]
            data = event.head
        else:
            data = event.data
            messages = read(data, self._version) if data and event.event == "message" else []
        for message in messages:
            if isinstance(message, Malformed) and message.id is None and is_junk(message, data):
                logger.warning("%s sent an event that was skipped: %s", self._stream.name, one_line(message.message))
            else:
                self._receive(message)

    def _begin(self, event: Event | Oversized) -> None:
        """ "When a client connects, the server MUST send an `endpoint` event containing a URI for the client to use for
        sending messages" (2024-11-05 basic/transports). Messages hold what is meant for this server alone."""
        if isinstance(event, Oversized) or event.event != "endpoint":
            raise RemoteProtocolError(0, f"{self._stream.name} does not begin its stream with an endpoint event")
        url = _joined(self._url, event.data.decode("utf-8", "replace").strip())
        if url is None or _origin(url) != _origin(self._url):
            raise RemoteProtocolError(0, f"{self._stream.name} wants its messages sent to another server")
        posts = endpoint_for(url, self._timeout, self._session, self._auth, self._url)
        posts.open()
        self._posts = posts
        self._opened.resolve(None)


def _joined(base: str, url: str) -> str | None:
    try:
        joined = urllib.parse.urljoin(base, url)
        _origin(joined)
    except ValueError:
        return None
    return joined


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


class Fallback:
    """Streamable HTTP, or HTTP+SSE if the server does not know it (basic/transports/streamable-http, HTTP+SSE
    Transport).

    first: streamable HTTP.  second: makes the other transport, when `initialize` was refused with HTTP 400, 404 or 405,
    and no modern error.  `current`: the one in use.
    """

    def __init__(self, first: Transport, second: Callable[[], Transport]):
        self.first = first
        self._second = second
        self.current = first
        self._settled = False
        self._ears: tuple[Receive, Lost] | None = None

    @property
    def request_streams(self) -> bool:
        """Whether each request has a response stream of its own."""
        return self.current.request_streams

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Connect. Raises: as `first` does."""
        self._ears = receive, lost
        await self.first.open(receive, lost)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Send one message. Raises: as `first` does."""
        try:
            return await self.current.send(message, headers)
        except RemoteProtocolError as error:
            if self._settled or not _is_old(message, error) or not await self._change():
                raise
        await self.current.send(message, headers)

    async def _change(self) -> bool:
        """Use the other transport, if the server knows that one."""
        assert self._ears is not None
        other = self._second()
        try:
            await other.open(*self._ears)
            self.current, self._settled = other, True
        except BackchannelError as error:
            logger.debug("nor is it a server of 2024-11-05: %s", one_line(error))
        finally:
            with anyio.CancelScope(shield=True):
                await (self.first if self.current is other else other).close()
        return self.current is other

    def negotiated(self, version: Version) -> None:
        """Tell it which version is spoken. The transport is the one of that server from now on."""
        self._settled = True
        self.current.negotiated(version)

    async def listen(self) -> None:
        """Begin to receive what belongs to no request."""
        await self.current.listen()

    async def close(self) -> None:
        """Disconnect."""
        await self.current.close()


def _is_old(message: Message, error: RemoteProtocolError) -> bool:
    """Whether this is how a server of 2024-11-05 refuses a POST, "and the response body is not a recognized modern
    JSON-RPC error"."""
    starts = isinstance(message, Request) and message.method == "initialize"
    return starts and error.status in _OLD and error.code not in _MODERN
