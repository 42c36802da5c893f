"""A server behind two pipes in this process: the framing and the channel of stdio, without a child
(basic/transports/stdio)."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping

import anyio
import msgspec

from ..client.transport import Lost, Receive, encoded, read, too_large
from ..errors import ConnectionFailed, ConnectionLost
from ..nursery import Nursery
from ..protocol.jsonrpc import Message
from ..protocol.lines import LineDecoder, Oversized, encode_line
from ..protocol.versions import Version
from ..server.channel import serve
from ..server.dispatch import start
from ..server.exchange import Principal
from ..server.server import Server
from ..server.stdio import CHUNK, StdioChannel
from ..waiter import Waiter

logger = logging.getLogger("backchannel")
_LIFESPAN = 5.0  # seconds that the server's lifespan gets to end, after its handlers


class PipeTransport:
    """Connects a client with a Server object of the same process by two pipes, as stdio does by standard streams.

    principal: who calls.
    """

    request_streams = False

    def __init__(self, server: Server, principal: Principal | None = None):
        self._server = server
        self._principal = principal
        self._nursery = Nursery()
        self._version: Version | None = None
        self._out: int | None = None
        self._sending = anyio.Lock()
        self._served, self._heard = Waiter(), Waiter()

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Start the server. Raises: ConnectionFailed if its lifespan fails."""
        if self._out is not None or self._nursery.closed:
            raise ConnectionFailed("these pipes were used before; make a new PipeTransport")
        (stdin, self._out), (back, stdout) = os.pipe(), os.pipe()
        os.set_blocking(self._out, False)
        opened = Waiter()
        self._nursery.start(self._serve, StdioChannel((stdin, stdout), self._server.limits.message), opened)
        self._nursery.start(self._read, back, receive, lost)
        try:
            await opened.wait()
        except ConnectionFailed:
            await self.close()
            raise

    async def _serve(self, channel: StdioChannel, opened: Waiter) -> None:
        why = ConnectionFailed(f"the server {self._server.name!r} has ended")
        try:
            async with start(self._server) as dispatcher:
                opened.resolve(None)
                await serve(dispatcher, channel, self._principal)
        except Exception as error:
            if opened.done:
                logger.exception("the server %r failed", self._server.name)
            why = ConnectionFailed(f"the server {self._server.name!r} failed: {type(error).__name__}: {error}")
            why.__cause__ = error
        finally:
            channel.close()
            opened.fail(why)
            self._served.resolve(None)

    async def _read(self, descriptor: int, receive: Receive, lost: Lost) -> None:
        lines = LineDecoder(self._server.limits.message)
        try:
            while True:
                await anyio.wait_readable(descriptor)
                data = os.read(descriptor, CHUNK)
                if not data:
                    break
                for line in lines.feed(data):
                    for message in [too_large(line)] if isinstance(line, Oversized) else read(line, self._version):
                        receive(message)
        finally:
            os.close(descriptor)
            lost(ConnectionLost(f"the server {self._server.name!r} has ended"))
            self._heard.resolve(None)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Write one line, whole even if the caller is cancelled. Raises: ConnectionLost, LocalProtocolError."""
        data = encoded(message)
        if b"\n" in data or b"\r" in data:  # raw JSON inside it is pretty-printed
            data = msgspec.json.format(data, indent=-1)
        async with self._sending:
            with anyio.CancelScope(shield=True):
                await self._write(memoryview(encode_line(data)))

    async def _write(self, data: memoryview) -> None:
        while data:
            if self._out is None:
                raise ConnectionLost("the connection is closed")
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._out)
            except OSError as error:
                raise ConnectionLost(f"the server {self._server.name!r} has ended") from error

    def negotiated(self, version: Version) -> None:
        """Lines are read as this version has them."""
        self._version = version

    async def listen(self) -> None:
        """Nothing to do: there is one channel, and it is open."""

    async def close(self) -> None:
        """Close the server's input, and let it end as it does when stdin is closed, also where the caller's task is
        cancelled."""
        self._nursery.retire()
        if self._out is not None:
            out, self._out = self._out, None
            with contextlib.suppress(OSError):
                os.close(out)
            with anyio.move_on_after(self._server.limits.grace + _LIFESPAN, shield=True):
                await self._served.wait()
                await self._heard.wait()
        await self._nursery.close(_LIFESPAN)
