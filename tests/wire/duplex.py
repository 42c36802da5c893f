"""A pipe between a client and a server of this process, framed as stdio is: one line for each message
(basic/transports/stdio)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from backchannel import Server
from backchannel.client import transport as client
from backchannel.client.transport import Lost, Receive
from backchannel.errors import ConnectionLost
from backchannel.nursery import Nursery
from backchannel.protocol.jsonrpc import Malformed, Message, decode
from backchannel.protocol.lines import encode_line
from backchannel.protocol.versions import Version
from backchannel.server import channel as server
from backchannel.server.dispatch import start
from backchannel.waiter import Waiter

if TYPE_CHECKING:
    from .recorder import Recorder

_GRACE = 5.0  # seconds that the server gets to end


class Duplex:
    """A client's transport, and the server at its other end."""

    request_streams = False

    def __init__(self, server: Server, recorder: Recorder):
        self._server = server
        self._recorder = recorder
        self._nursery = Nursery()
        self._outgoing: MemoryObjectSendStream[bytes] | None = None
        self._incoming: MemoryObjectReceiveStream[bytes] | None = None
        self._receive: Receive | None = None
        self._read: Any = None
        self._version: Version | None = None
        self._ended = Waiter()
        self._written = self._wanted = 0

    async def settled(self) -> None:
        """Wait until the server has taken every line, and waits for the next."""
        while self._wanted <= self._written:
            await anyio.lowlevel.checkpoint()

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Start the server."""

        def read(line: bytes) -> None:
            for message in client.read(line, self._version):
                receive(message)

        self.listen_to(read)
        await self.begin()

    def listen_to(self, read: Any) -> None:
        """Give each line of the server to `read`."""
        self._read = read

    async def begin(self) -> None:
        """Start the server."""
        self._outgoing, self._incoming = anyio.create_memory_object_stream[bytes](1000)
        opened = Waiter()
        self._nursery.start(self._serve, opened)
        await opened.wait()

    async def _serve(self, opened: Waiter) -> None:
        try:
            async with start(self._server) as dispatcher:
                opened.resolve(None)
                await server.serve(dispatcher, _Channel(self))
        finally:
            self._ended.resolve(None)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        await self.write(encode_line(client.encoded(message)))

    async def write(self, line: bytes) -> None:
        """Send a line to the server."""
        if self._outgoing is None:
            raise ConnectionLost("the pipe is closed")
        self._recorder.keep("client", line)
        self._written += 1
        await self._outgoing.send(line)

    async def next_line(self) -> bytes:
        """The server's next line to read."""
        assert self._incoming is not None
        self._wanted += 1
        return await self._incoming.receive()

    def tell(self, line: bytes) -> None:
        """Send a line to the client."""
        self._recorder.keep("server", line)
        self._read(line)

    def negotiated(self, version: Version) -> None:
        self._version = version

    async def listen(self) -> None:
        """There is one pipe, and it is open."""

    async def close(self) -> None:
        """Close the server's input, and let it end."""
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
            with anyio.move_on_after(_GRACE, shield=True):
                await self._ended.wait()
        await self._nursery.close(_GRACE)
        if self._incoming is not None:
            self._incoming.close()


class _Channel:
    """The server's end."""

    def __init__(self, pipe: Duplex):
        self._pipe = pipe

    async def receive(self) -> list[Message | Malformed]:
        return [decode((await self._pipe.next_line()).rstrip(b"\n"))]

    def write(self, messages: list[bytes]) -> bool:
        for message in messages:
            self._pipe.tell(encode_line(message))
        return True

    async def flush(self) -> None:
        """Nothing waits here."""


class Raw:
    """The client's end of a pipe, by hand."""

    def __init__(self, pipe: Duplex):
        self._pipe = pipe
        self._send, self._lines = anyio.create_memory_object_stream[bytes](100)

    async def open(self) -> None:
        self._pipe.listen_to(self._send.send_nowait)
        await self._pipe.begin()

    async def close(self) -> None:
        await self._pipe.close()
        self._send.close()
        self._lines.close()

    async def write(self, message: Any) -> None:
        """Write a message, or a line of bytes."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        await self._pipe.write(data + b"\n")

    async def hang_up(self) -> None:
        """Close the server's input. What it says then can be read."""
        await self._pipe.close()

    async def read(self) -> Any:
        """The server's next line."""
        return json.loads(await self._lines.receive())
