"""The in-process transport: a client and a server in one event loop. Messages still pass through JSON, so that both
sides see what they would see on any other wire."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .client import transport as client
from .client.transport import Lost, Receive
from .errors import ConnectionFailed, ConnectionLost
from .nursery import Nursery
from .protocol.jsonrpc import Malformed, Message, decode
from .protocol.versions import Version
from .server import channel as server
from .server.dispatch import start
from .server.server import Server
from .waiter import Waiter

logger = logging.getLogger("backchannel")

_GRACE = 5.0  # seconds that the server's lifespan gets to end


class _Channel:
    """The server's end."""

    def __init__(self, incoming: MemoryObjectReceiveStream[Message | Malformed], receive: Receive):
        self._incoming = incoming
        self._receive = receive

    async def receive(self) -> Message | Malformed:
        return await self._incoming.receive()

    async def send(self, message: Message) -> None:
        self._receive(decode(server.encoded(message)))


class MemoryTransport:
    """Connects a client with a Server object of the same process, which runs for as long as the connection lasts."""

    request_streams = False

    def __init__(self, server: Server):
        self._server = server
        self._nursery = Nursery()
        self._outgoing: MemoryObjectSendStream[Message | Malformed] | None = None
        self._serving: anyio.CancelScope | None = None
        self._ended = Waiter()

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Start the server. Raises: ConnectionFailed if its lifespan fails."""
        if self._outgoing is not None or self._nursery.closed:
            raise ConnectionFailed("this connection in the process was used before; make a new MemoryTransport")
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
                opened.resolve(None)
                with anyio.CancelScope() as self._serving:
                    await server.serve(dispatcher, channel)
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

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Raises: ConnectionLost, LocalProtocolError."""
        if self._outgoing is None or self._nursery.closed:
            raise ConnectionLost("the connection is closed")
        try:
            await self._outgoing.send(decode(client.encoded(message)))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ConnectionLost("the server in this process has ended") from error

    def negotiated(self, version: Version) -> None:
        """Nothing depends on it."""

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
