"""The in-process transport: a client and a server in one event loop, no bytes between them but for the params."""

from __future__ import annotations

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .client.transport import Lost, Receive
from .errors import ConnectionLost
from .nursery import Nursery
from .protocol.jsonrpc import Malformed, Message, decode, encode
from .protocol.versions import Version
from .server.channel import serve
from .server.dispatch import start
from .server.server import Server


class _Channel:
    """The server's end."""

    def __init__(self, incoming: MemoryObjectReceiveStream[Message | Malformed], receive: Receive):
        self._incoming = incoming
        self._receive = receive

    async def receive(self) -> Message | Malformed:
        return await self._incoming.receive()

    async def send(self, message: Message) -> None:
        self._receive(decode(encode(message)))


class MemoryTransport:
    """Connects a client with a Server object of the same process."""

    request_streams = False

    def __init__(self, server: Server):
        self._server = server
        self._nursery = Nursery()
        self._outgoing: MemoryObjectSendStream[Message | Malformed] | None = None

    async def open(self, receive: Receive, lost: Lost) -> None:
        self._outgoing, incoming = anyio.create_memory_object_stream[Message | Malformed](1000)
        ready = anyio.Event()
        self._nursery.start(self._serve, _Channel(incoming, receive), lost, ready)
        await ready.wait()

    async def _serve(self, channel: _Channel, lost: Lost, ready: anyio.Event) -> None:
        try:
            async with start(self._server) as dispatcher:
                ready.set()
                await serve(dispatcher, channel)
        finally:
            ready.set()
            lost(ConnectionLost("the server has ended"))

    async def send(self, message: Message) -> None:
        if self._outgoing is None:
            raise ConnectionLost("the connection is closed")
        try:
            await self._outgoing.send(decode(encode(message)))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ConnectionLost("the server has ended") from error

    def negotiated(self, version: Version) -> None:
        pass

    async def listen(self) -> None:
        pass

    async def close(self) -> None:
        if self._outgoing is not None:
            self._outgoing.close()
        await self._nursery.close()
