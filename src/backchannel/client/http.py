"""Streamable HTTP for the client: every message is a POST to one endpoint, in both eras
(basic/transports/streamable-http; 2025-11-25 basic/transports).

How it works: `send` of a request reads the response of its POST until the answer is there. So a request lives in its
caller's task, cancelling that task closes the stream, and on the modern wire nothing runs in the background. On a
legacy session a stream that breaks off is taken up again by GET, from the last event id on; `listen` is such a GET
from the start. An `initialize` begins a new session in place of the one before.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import (
    INVALID_REQUEST,
    AuthRequired,
    BackchannelError,
    ConfigurationError,
    ConnectionFailed,
    ConnectionLost,
    RemoteProtocolError,
)
from ..nursery import Nursery
from ..one_line import one_line
from ..protocol.http import JSON, SSE
from ..protocol.jsonrpc import ErrorResponse, Malformed, Message, Request, Response, decode
from ..protocol.lines import Oversized
from ..protocol.sse import Event, SSEDecoder
from ..protocol.versions import FEATURES, Version
from .cursor import Cursor
from .endpoint import endpoint_for, faults, headers_of
from .refusal import error_of, read_body, refusal
from .repeated import repeated
from .transport import Lost, Receive, SessionGone, encoded, is_junk, read, too_large

if TYPE_CHECKING:
    import aiohttp

    from .auth.auth import Auth

logger = logging.getLogger("backchannel.client")

_POSTED = {"content-type": JSON, "accept": f"{JSON}, {SSE}"}
"""Of every POST: "an Accept header listing both" (basic/transports/streamable-http, Sending Messages)."""
_FAILURES = 5  # tries to take up a stream that fail, one after the other
_BARREN = 100  # streams that end without an event, one after the other: a server may let its client poll
_GOODBYE = 2.0  # seconds that the server gets to end the session
_OPENING = 0.2  # seconds after `listen` in which requests wait for its stream


class HttpTransport:
    """Carries messages to the MCP endpoint at `url`. There is no one connection to lose, so it calls `lost` only where
    the stream of a session finds that the session is gone.

    url: an http or https URL.  headers: sent with every request; what changes in `transport.headers` later counts from
    the next request on.  timeout_connect: seconds for a connection to be made.  max_message: the most bytes that a
    message from the server may have.  session: an aiohttp.ClientSession with settings of your own; it is not closed.
    auth: obtains tokens, such as an OAuth().

    Raises: ConfigurationError.  Specification: basic/transports/streamable-http.
    """

    request_streams = True

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
        self.max_message = max_message
        self._endpoint = endpoint_for(url, timeout_connect, session, auth)
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._version: Version | None = None
        self._session_id: str | None = None
        self._listening: str | None = None
        self._made: tuple[Any, dict[str, str]] = (None, {})
        self._reading: anyio.CancelScope | None = None
        self._opened: anyio.Event | None = None
        self._opened_by = 0.0
        self._nursery = Nursery()
        self.reconnects = self.dropped = 0
        self._closing = False
        self._closed = anyio.Event()
        if max_message < 1:
            raise ConfigurationError("max_message is a number of bytes, at least 1")

    @property
    def streams(self) -> int:
        """How many responses are waited for, or being read."""
        return self._endpoint.busy

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Get ready; a connection is made when the first message is sent. Raises: ConfigurationError."""
        if self._receive is not None or self._closing:
            raise ConnectionFailed(f"this connection to {self._endpoint.name} was used before; make a new one")
        self._endpoint.open()
        self._receive, self._lost = receive, lost

    def negotiated(self, version: Version) -> None:
        """From now on this version's headers are sent, and messages are read as it has them."""
        self._version = version

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """POST one message, and read the response to a request; cancelling it closes the response at once.

        headers: to send with it.

        Raises: ConnectionFailed (nothing was sent), SessionGone, ConnectionLost, AuthRequired for HTTP 401,
        LocalProtocolError, and RemoteProtocolError with the HTTP `status` for what is no answer to `message`; its
        `code` is 0 where the body holds no JSON-RPC error.
        """
        body = encoded(message)
        if self._closing:
            raise ConnectionLost(f"the connection to {self._endpoint.name} is closed")
        request = message if isinstance(message, Request) else None
        starts = request is not None and request.method == "initialize"
        if request is not None and not starts and self._opened is not None:
            await self._give_way(self._opened)
        given = {name.lower(): value for name, value in headers.items()} if headers else {}
        sent = {**self._base(starts), **given, **repeated(message, self._version), **_POSTED}
        async with self._endpoint.exchange("POST", sent, body) as response:
            if response.status >= 300:
                await self._refused(response, request, "mcp-session-id" in sent)
            elif request is not None:
                if starts:
                    self._session_id = _session_id(response)
                session_id = self._session_id if starts else sent.get("mcp-session-id")
                await self._answer(response, request, None if "mcp-method" in sent else Cursor(session_id))

    async def listen(self) -> None:
        """Open the GET stream of a legacy session that has an id, and read it in the background."""
        if self._session_id not in (None, self._listening) and not self._closing:
            self._listening = self._session_id
            if self._reading is not None:
                self._reading.cancel()
            self._reading, self._opened = anyio.CancelScope(), anyio.Event()
            self._opened_by = anyio.current_time() + _OPENING
            self._nursery.start(self._listen, self._session_id, self._reading, self._opened)

    async def _give_way(self, opened: anyio.Event) -> None:
        """A server may lose what it sends on the GET stream before that is open, such as a question of the next call.
        So requests give it a moment; some servers say nothing there before there is something to send."""
        with anyio.CancelScope(deadline=self._opened_by):
            await opened.wait()
        if self._opened is opened:
            self._opened = None

    async def close(self) -> None:
        """End the session, if there is one, and close all connections. Takes at most little more than two seconds."""
        if self._closing:
            return await self._closed.wait()
        self._closing = True
        self._endpoint.interrupt()
        try:
            await self._nursery.close()
            if self._session_id is not None:
                # "Clients that no longer need a particular session SHOULD send an HTTP DELETE" (2025-11-25)
                with anyio.move_on_after(_GOODBYE, shield=True), contextlib.suppress(BackchannelError):
                    async with self._endpoint.exchange("DELETE", self._base()):
                        pass
        finally:
            await self._endpoint.close()
            self._closed.set()

    def _base(self, starts: bool = False) -> dict[str, str]:
        """The headers of every request; `initialize` has no version yet, and is sent "without a session ID attached"
        (2025-11-25 basic/transports)."""
        known = (self.headers, self._version, self._session_id)
        if starts or self._made[0] != known:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if starts:
                return headers
            if self._version is not None and FEATURES[self._version].version_header:
                headers["mcp-protocol-version"] = self._version.value
            if self._session_id is not None:
                headers["mcp-session-id"] = self._session_id
            self._made = (dict(self.headers), *known[1:]), headers
        return self._made[1]

    async def _answer(self, response: aiohttp.ClientResponse, request: Request, cursor: Cursor | None) -> None:
        """Hand on what a successful response brings, up to the answer to `request`.

        cursor: at the beginning of its stream; None if that cannot be resumed.
        """
        if response.content_type == SSE:
            return await self._follow(response, request, cursor)
        data = await read_body(response, self.max_message)
        if len(data) > self.max_message:
            text = f"the response is over the limit of {self.max_message} bytes (max_message)"
            return self._hand_on(Malformed(INVALID_REQUEST, text, request.id, True))
        answered = False
        for message in read(data, self._version):
            if isinstance(message, Malformed) and response.content_type == JSON:
                message = Malformed(message.code, message.message, request.id, True)
            if isinstance(message, ErrorResponse) and message.id != request.id:
                raise error_of(message, response.status)
            if _answers(message, request) or not isinstance(message, Malformed | Response):
                self._hand_on(message)
                answered = answered or _answers(message, request)
        if not answered:
            what = f"HTTP {response.status}, {response.content_type}"
            text = f"{self._endpoint.name} did not answer {request.method}: {what}"
            raise RemoteProtocolError(0, text, status=response.status)

    async def _follow(self, response: aiohttp.ClientResponse, request: Request, cursor: Cursor | None) -> None:
        """Read the stream of a request; where it ends too early, take it up again if that can be."""
        broken: Exception | None = None
        try:
            if await self._read(response, cursor or Cursor(), request):
                return
        except faults() as error:
            broken = self._endpoint.translated(error)
        response.close()
        if cursor is None or cursor.id is None:
            text = f"the stream from {self._endpoint.name} ended before the response to {request.method}"
            raise ConnectionLost(text) from broken
        await self._resume(cursor, request, broken)

    async def _resume(self, cursor: Cursor, request: Request, broken: Exception | None) -> None:
        """Resumption "is always via HTTP GET with Last-Event-ID" (2025-11-25 basic/transports, Resumability)."""
        failures = barren = 0
        while failures < _FAILURES and barren < _BARREN:
            await anyio.sleep(cursor.pause(failures))
            seen = cursor.events
            self.reconnects += 1
            try:
                if await self._get(cursor, request):
                    return
                failures = 0
            except (ConnectionFailed, ConnectionLost, RemoteProtocolError) as error:
                refused = isinstance(error, RemoteProtocolError) and error.status < 500
                if refused or isinstance(error, SessionGone):
                    raise ConnectionLost(f"the stream of {request.method} could not be resumed: {error}") from error
                broken, failures = error, failures + 1
            barren += 1
            if cursor.events > seen:
                failures = barren = 0
        text = f"the stream of {request.method} could not be resumed from {self._endpoint.name}"
        raise ConnectionLost(text) from broken

    async def _listen(self, session_id: str, reading: anyio.CancelScope, opened: anyio.Event) -> None:
        """The stream of what belongs to no request, for as long as the session lasts.

        opened: set when the first GET has an answer, or none will come.
        """
        cursor, failures = Cursor(session_id), 0
        with reading:
            while self._session_id == session_id:
                seen = cursor.events
                try:
                    await self._get(cursor, None, opened)
                    failures = 0
                except SessionGone as error:
                    if cursor.connections and self._lost is not None:
                        return self._lost(error)
                    return logger.warning("no stream of notifications: %s", one_line(error))
                except (RemoteProtocolError, AuthRequired) as error:
                    status = error.status if isinstance(error, RemoteProtocolError) else 401
                    if status == 405:  # "the server does not offer an SSE stream at this endpoint" (2025-11-25)
                        return
                    if status < 500:
                        return logger.warning("no stream of notifications: %s", one_line(error))
                    failures += 1
                except (ConnectionFailed, ConnectionLost):
                    failures += 1
                finally:
                    opened.set()
                if cursor.events > seen:
                    failures = 0
                await anyio.sleep(cursor.pause(failures))
                self.reconnects += 1

    async def _get(self, cursor: Cursor, request: Request | None, opened: anyio.Event | None = None) -> bool:
        """One GET stream, from `cursor` on, to its end. Returns whether it brought the answer to `request`.

        opened: set when the stream is open.
        """
        if cursor.session_id != self._session_id:
            raise SessionGone(f"{self._endpoint.name} has lost the session that this stream belongs to")
        headers = {**self._base(), "accept": SSE}
        if cursor.id is not None:
            headers["last-event-id"] = cursor.id
        async with self._endpoint.exchange("GET", headers) as response:
            if response.status != 200 or response.content_type != SSE:
                await self._refused(response, None, "mcp-session-id" in headers)
            cursor.connections += 1
            if opened is not None:
                opened.set()
            return await self._read(response, cursor, request)

    async def _read(self, response: aiohttp.ClientResponse, cursor: Cursor, request: Request | None) -> bool:
        """Hand on each message of a stream as it arrives. Returns whether the answer to `request` came."""
        events = SSEDecoder(self.max_message)
        try:
            while chunk := await response.content.readany():
                for event in events.feed(chunk):
                    cursor.events += 1
                    if self._event(event, request):
                        return True
        finally:
            cursor.id = events.last_event_id or cursor.id
            cursor.retry = events.retry if events.retry is not None else cursor.retry
        return False

    def _event(self, event: Event | Oversized, request: Request | None) -> bool:
        """Hand on what one event holds. Returns whether that is the answer to `request`."""
        large = isinstance(event, Oversized)
        data = event.head if isinstance(event, Oversized) else event.data
        messages: list[Message | Malformed] = []
        if isinstance(event, Oversized):
            messages = [too_large(event)]
        elif data and event.event == "message":
            messages = read(data, self._version)
        answered = False
        for message in messages:
            if isinstance(message, Malformed) and message.is_response and message.id is None and request is not None:
                message = Malformed(message.code, message.message, request.id, True)
            if isinstance(message, ErrorResponse) and message.id is None and request is not None:
                raise error_of(message, 200)
            if isinstance(message, Malformed) and message.id is None and (large or is_junk(message, data)):
                self.dropped += 1
                logger.warning("%s sent an event that was skipped: %s", self._endpoint.name, one_line(message.message))
            else:
                self._hand_on(message)
                answered = answered or _answers(message, request)
        return answered

    def _hand_on(self, message: Message | Malformed) -> None:
        if self._receive is not None and not self._closing:
            self._receive(message)

    async def _refused(self, response: aiohttp.ClientResponse, request: Request | None, in_session: bool) -> None:
        """A response that is no success: the answer to `request` all the same, or raise what it says."""
        body = await read_body(response)
        error = refusal(self._endpoint.name, response, body)
        if isinstance(error, AuthRequired):
            raise error
        message = decode(body)
        # "When a client receives HTTP 404 in response to a request containing an MCP-Session-Id, it MUST start a new
        # session" (2025-11-25 basic/transports), whatever the body says.
        gone = error.status == 404 and in_session
        if not gone and not isinstance(message, Malformed) and _answers(message, request):
            return self._hand_on(message)
        if gone:
            raise SessionGone(f"{self._endpoint.name} does not know this session any more (HTTP 404)")
        raise error


def _session_id(response: aiohttp.ClientResponse) -> str | None:
    value = response.headers.get("mcp-session-id") or None
    # "The session ID MUST only contain visible ASCII characters" (2025-11-25 basic/transports)
    if value is not None and not all("!" <= char <= "~" for char in value):
        text = "the server's session id has characters that it may not have"
        raise RemoteProtocolError(0, text, status=response.status)
    return value


def _answers(message: Message | Malformed, request: Request | None) -> bool:
    if request is None or (isinstance(message, Malformed) and not message.is_response):
        return False
    return isinstance(message, Response | ErrorResponse | Malformed) and message.id == request.id
