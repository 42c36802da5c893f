"""The in-process transport: a client and a server in one event loop. Messages still pass through JSON, so that both
sides see what they would see on any other wire.

How it works: the server has a channel, as on a pipe. But a stateless request that is in order needs none of it: on
asyncio it is answered where it is asked, if its handler waits for nothing, and else it is served while its sender waits
for that, and is cancelled with it. What is out of order, what stands until one side ends it, what belongs to a session,
and all on trio goes through the channel.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextvars import Context, copy_context

import anyio
import anyio.lowlevel
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .client import transport as client
from .client.transport import Lost, Receive
from .errors import INTERNAL_ERROR, ConnectionFailed, ConnectionLost, LocalProtocolError, UnsupportedVersion
from .nursery import Nursery, being_cancelled, on_asyncio
from .protocol.jsonrpc import (
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Outcome,
    Request,
    Response,
    decode,
    encode,
    encode_anyway,
)
from .protocol.versions import Version
from .server import channel as server
from .server.dispatch import Dispatcher, start
from .server.exchange import Exchange, Principal
from .server.failures import answer_cancelled
from .server.outbox import encoded
from .server.server import Server
from .server.session import Session
from .server.streams import EventStream
from .waiter import Waiter

logger = logging.getLogger("backchannel")

_GRACE = 5.0  # seconds that the server's lifespan gets to end
_TURN = 32  # messages, after which others get their turn
_NOT_JSON = (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError)


class _Channel:
    """The server's end."""

    def __init__(self, incoming: MemoryObjectReceiveStream[Message | Malformed], receive: Receive):
        self._incoming = incoming
        self._receive = receive

    async def receive(self) -> list[Message | Malformed]:
        return [await self._incoming.receive()]

    def write(self, messages: list[bytes]) -> bool:
        for message in messages:
            self._receive(decode(message))
        return True

    async def flush(self) -> None:
        """Nothing waits here."""


class _Calls:
    """The requests that are served while their senders wait, and the stream of what flows before their responses. Made
    in the context that their handlers are to see."""

    def __init__(self, dispatcher: Dispatcher, receive: Receive, principal: Principal | None):
        self._dispatcher = dispatcher
        self._receive = receive
        self._context = copy_context()
        self._session = Session(EventStream(), principal=principal)  # which none of them belongs to
        self._running: dict[asyncio.Task[Outcome], Exchange] = {}
        self._turn = 0
        self._over = False
        self._idle = Waiter()

    def read(self, request: Request) -> Exchange | None:
        """The exchange for a request that can be served so."""
        if self._over:
            return None
        try:
            sent = Request(request.id, request.method, msgspec.Raw(encode(request.params)))
            exchange = server.read(sent, self._session, self, self._dispatcher.server.methods)
        except (LocalProtocolError, UnsupportedVersion, *_NOT_JSON):  # the channel says what is wrong
            return None
        return exchange if exchange.version.is_modern and not exchange.method.standing else None

    def serve(self, exchange: Exchange) -> Outcome | Malformed | Awaitable[None]:
        """The response to it. What takes longer gives that to the client, when it is awaited."""
        self._turn += 1
        return self._now(exchange) if self._turn % _TURN and not being_cancelled() else self._after_others(exchange)

    async def _after_others(self, exchange: Exchange) -> None:
        await anyio.lowlevel.checkpoint()
        came = self._now(exchange)
        await came if isinstance(came, Awaitable) else self._receive(came)

    def _now(self, exchange: Exchange) -> Outcome | Malformed | Awaitable[None]:
        if len(self._running) >= self._dispatcher.server.limits.in_flight:
            error = ErrorObject(INTERNAL_ERROR, "too many requests in flight on this connection")
            return ErrorResponse(exchange.request.id, error)
        context = self._context.copy()
        outcome = context.run(server.at_once, self._dispatcher, exchange)
        return _passed(outcome) if outcome is not None else self._run(exchange, context)

    async def _run(self, exchange: Exchange, context: Context) -> None:
        # In a task of its own: who cancels that does not cancel the client's, nor the other way round but by the
        # exchange's scope, which leaves shielded work alone. That may go on when the client has left.
        task = asyncio.get_running_loop().create_task(self._dispatcher(exchange), context=context)
        self._running[task] = exchange
        task.add_done_callback(self._ended)
        try:
            outcome = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                exchange.cancel("the client has cancelled the request")
                raise
            outcome = answer_cancelled(exchange)
        if not exchange.cancelled:
            self._receive(_passed(outcome))

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        del self._running[task]
        if self._over and not self._running:
            self._idle.resolve(None)

    async def end(self) -> None:
        """Cancel them, and wait until they have ended."""
        self._over = True
        for task, exchange in self._running.items():
            exchange.cancel("the session ended")
            if exchange.around is None and exchange.scope is None:  # it has not begun
                task.cancel()
        if self._running:
            with anyio.move_on_after(_GRACE):
                await self._idle.wait()
        for task in self._running:
            task.cancel()

    # The stream of an exchange.

    def append(self, message: Message) -> bool:
        """Give a message to the client."""
        if self._over:
            return False
        try:
            self._receive(decode(encoded(message)))
        except LocalProtocolError as error:
            logger.error("a message was not sent: %s", error)
        return True

    async def drain(self) -> None:
        """All has been read. But who goes on and on lets others have their turn, and can be cancelled."""
        self._turn += 1
        await (anyio.lowlevel.checkpoint_if_cancelled() if self._turn % _TURN else anyio.lowlevel.checkpoint())

    def dismiss(self, retry: float) -> None:
        """There is no reader that would come back."""


def _passed(outcome: Outcome) -> Outcome | Malformed:
    """A response as the client gets it."""
    if isinstance(outcome, Response):
        try:
            return Response(outcome.id, msgspec.Raw(encode(outcome.result)))
        except _NOT_JSON:
            pass
    passed = decode(encode_anyway(outcome))
    assert isinstance(passed, Response | ErrorResponse | Malformed)
    return passed


class MemoryTransport:
    """Connects a client with a Server object of the same process, which runs for as long as the connection lasts.

    principal: who calls.
    """

    request_streams = False

    def __init__(self, server: Server, principal: Principal | None = None):
        self._server = server
        self._principal = principal
        self._nursery = Nursery()
        self._outgoing: MemoryObjectSendStream[Message | Malformed] | None = None
        self._serving: anyio.CancelScope | None = None
        self._ended = Waiter()
        self._calls: _Calls | None = None
        self._stateless = False

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Start the server. Raises: ConnectionFailed if its lifespan fails."""
        if self._outgoing is not None or self._nursery.closed:
            raise ConnectionFailed("this connection in the process was used before; make a new MemoryTransport")
        self._receive = receive
        self._outgoing, incoming = anyio.create_memory_object_stream[Message | Malformed](1000)
        opened = Waiter()
        self._nursery.start(self._serve, _Channel(incoming, receive), incoming, lost, opened)
        await opened.wait()

    async def _serve(
        self,
        channel: _Channel,
        incoming: MemoryObjectReceiveStream[Message | Malformed],
        lost: Lost,
        opened: Waiter,
    ) -> None:
        why = "the server in this process has ended"
        try:
            async with start(self._server) as dispatcher:
                self._calls = _Calls(dispatcher, self._receive, self._principal)
                opened.resolve(None)
                with anyio.CancelScope() as self._serving:
                    await server.serve(dispatcher, channel, self._principal)
                await self._calls.end()
        except Exception as error:
            if opened.done:
                logger.exception("the server %r failed", self._server.info.name)
            why = f"the server {self._server.info.name!r} failed: {type(error).__name__}: {error}"
            failure = ConnectionFailed(why)
            failure.__cause__ = error
            opened.fail(failure)
        finally:
            opened.fail(ConnectionFailed(why))
            incoming.close()
            lost(ConnectionLost(why))
            self._ended.resolve(None)

    def at_once(self, request: Request) -> Outcome | Malformed | Awaitable[None]:
        """Send a request. Returns its response, if that is there at once; else what is to be awaited, as `send`."""
        if self._stateless and self._calls is not None and not self._nursery.closed:
            exchange = self._calls.read(request)
            if exchange is not None:
                return self._calls.serve(exchange)
        return self._put(request)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Send one message. A stateless request has its response when this returns, and is cancelled with it.

        Raises: ConnectionLost, LocalProtocolError.
        """
        came = self.at_once(message) if isinstance(message, Request) else self._put(message)
        await came if isinstance(came, Awaitable) else self._receive(came)

    async def _put(self, message: Message) -> None:
        """Send it through the channel."""
        if self._outgoing is None or self._nursery.closed:
            raise ConnectionLost("the connection is closed")
        try:
            await self._outgoing.send(decode(client.encoded(message)))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ConnectionLost("the server in this process has ended") from error

    def negotiated(self, version: Version) -> None:
        """From now on requests are served at once, if they are stateless."""
        self._stateless = version.is_modern and on_asyncio()

    async def listen(self) -> None:
        """Nothing to do: there is one channel, and it is open."""

    async def close(self) -> None:
        """Cancel what the server is doing, and let its lifespan end, also where the caller's task is cancelled."""
        self._nursery.retire()
        if self._outgoing is not None:
            self._outgoing.close()
        if self._serving is not None:
            self._serving.cancel()
            with anyio.move_on_after(_GRACE, shield=True):
                await self._ended.wait()
        await self._nursery.close(_GRACE)
