"""Serving over standard input and output (basic/transports/stdio).

How it works: reading waits until there is something and takes what is there, which blocks nobody and leaves the mode of
the descriptor alone, for it may be shared with the parent. What cannot be waited for (files, and Windows) is pumped
into a socket by a thread. Writing is non-blocking, until the channel is closed, on pipes and sockets; elsewhere it is
done in a worker thread.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable

import anyio
import anyio.lowlevel
import anyio.to_thread

from ..protocol.jsonrpc import Malformed, Message, decode
from ..protocol.lines import LineDecoder, Oversized
from ..protocol.oversized import stand_in
from .channel import serve
from .dispatch import start
from .input import Input
from .process import LIFESPAN, THREADS, Ending, release
from .process import claim as claim
from .server import Server

CHUNK = 65536
"""Bytes that are read at once: what a pipe holds."""
_TURN = 32  # messages that are given out at once


async def serve_stdio(server: Server) -> None:
    """Serve the client at the other end of stdin and stdout until it closes stdin. Runs on asyncio and on trio.

    It takes the standard streams as `claim` says. Signals and the end of the process are the caller's business.

    Specification: basic/transports/stdio.
    """
    await _serve(server, Ending())


def run_stdio(server: Server) -> None:
    """Serve the client at the other end of stdin and stdout on asyncio, and return when it has closed stdin.

    SIGINT and SIGTERM end the server as well: handlers and the lifespan are cancelled, and the exit code is 130 or 143.
    Where a thread of a handler does not stop, the process ends here, with the same code, 0 after the end of stdin.

    Raises: SystemExit after a signal.  Specification: basic/transports/stdio, Shutdown.
    """
    claim()  # before the event loop takes descriptors
    with Ending(server.limits.grace) as ending:
        anyio.run(_serve, server, ending, True)
    if ending.code:
        raise SystemExit(ending.code)


async def _serve(server: Server, ending: Ending, alone: bool = False) -> None:
    """alone: the process has no other purpose."""
    reading, serving = anyio.CancelScope(), anyio.CancelScope()

    def end() -> None:
        ending.within(ending.handlers)
        ending.cancellable(serving)

    channel = StdioChannel(claim(), server.limits.message, end)
    if alone:
        ending.attach()
    try:
        with anyio.CancelScope() as starting:
            ending.cancellable(starting)
            async with start(server) as dispatcher:
                if alone:
                    gc.freeze()  # as `settle` does, but for the collection: that takes a tenth of the time until now
                    ending.watch_hangup(channel.descriptor, channel.reading)
                with serving:
                    ending.cancellable(reading)
                    await serve(dispatcher, channel, reading=reading)
                ending.cancellable(None)
                ending.within(LIFESPAN)
    finally:
        channel.close()
        ending.within(THREADS)


class StdioChannel:
    """A duplex channel of messages over two descriptors, as `claim` gives them. `close` closes them.

    limit: the largest message in bytes.  on_end: called when the end of the input was read.
    """

    def __init__(self, descriptors: tuple[int, int], limit: int, on_end: Callable[[], None] = lambda: None):
        self.descriptor, self._out = descriptors
        self._on_end = on_end
        self._decoder = LineDecoder(limit)
        self._lines: list[bytes | Oversized] = []
        self._reads = 0
        self._ended = False
        self._pumped = None if _can_wait(self.descriptor, tty=True) else _pump(self.descriptor)
        self._input = Input(self.descriptor if self._pumped is None else self._pumped.fileno(), self._read)
        self._blocking = not _can_wait(self._out)
        self._was_blocking = os.get_blocking(self._out) if not self._blocking else True
        if not self._blocking:
            os.set_blocking(self._out, False)
        self._unwritten = memoryview(b"")
        self._writer = anyio.CapacityLimiter(1)

    def reading(self) -> int | None:
        """How many reads there were; None after the end."""
        return None if self._ended else self._reads

    async def receive(self) -> list[Message | Malformed]:
        """The next messages, which are only a few, so that others get their turn. Raises: anyio.EndOfStream."""
        if self._lines:
            await anyio.lowlevel.checkpoint()
        while not self._lines:
            if self._ended:
                raise anyio.EndOfStream
            await self._input.more()
        lines = self._lines[:_TURN]
        del self._lines[:_TURN]
        return [too_large(line) if isinstance(line, Oversized) else decode(line) for line in lines]

    def write(self, messages: list[bytes]) -> bool:
        """Write lines. Never waits. Returns whether all is written; if not, `flush` comes next."""
        messages.append(b"")
        data, written = b"\n".join(messages), 0
        if not self._blocking:
            try:
                written = os.write(self._out, data)
            except OSError:
                pass  # `flush` meets it again
        if written < len(data):
            self._unwritten = memoryview(data)[written:]
            return False
        return True

    async def flush(self) -> None:
        """Wait until all is written. Raises: anyio.BrokenResourceError if nobody reads any more."""
        data, self._unwritten = self._unwritten, memoryview(b"")
        try:
            if self._blocking:
                await anyio.to_thread.run_sync(_write, self._out, data, abandon_on_cancel=True, limiter=self._writer)
                return
            while data:
                try:
                    data = data[os.write(self._out, data) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._out)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    def close(self) -> None:
        """Give the descriptors back as they were, and close them."""
        self._ended = True
        self._input.close()
        if not self._blocking:
            os.set_blocking(self._out, self._was_blocking)
        if self._pumped is not None:
            self._pumped.close()  # the pump may be reading; on Windows one could not close what it reads
        else:
            os.close(self.descriptor)
        os.close(self._out)
        release()

    def _read(self) -> bool:
        """Read once, as there is something. At the end, what is left without a line end counts if it is whole. Returns
        whether there is a line, or the end."""
        try:
            data = self._pumped.recv(CHUNK) if self._pumped is not None else os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # reset, or a terminal that is gone
            data = b""
        self._reads += 1
        if data:
            self._lines.extend(self._decoder.feed(data))
            return bool(self._lines)
        self._ended = True
        self._lines.extend(
            line for line in self._decoder.eof() if isinstance(line, bytes) and not isinstance(decode(line), Malformed)
        )
        self._on_end()
        return True


def _can_wait(descriptor: int, tty: bool = False) -> bool:
    """Whether the event loop can wait for this descriptor. A terminal is never made non-blocking: stderr and the shell
    share it."""
    mode = os.fstat(descriptor).st_mode
    waitable = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (tty and os.isatty(descriptor))
    return sys.platform != "win32" and waitable


def _pump(descriptor: int) -> socket.socket:
    """Have a thread carry what can be read into a socket, which the event loop can wait for."""
    near, far = socket.socketpair()
    near.setblocking(False)

    def carry() -> None:
        with far, contextlib.suppress(OSError):
            while data := os.read(descriptor, CHUNK):
                far.sendall(data)

    threading.Thread(target=carry, name="backchannel stdin", daemon=True).start()
    return near


def _write(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def too_large(part: Oversized) -> Malformed:
    """What stands for a message over the limit."""
    text = f"Invalid Request: a message of {part.size} bytes is over the limit of {part.limit} (Limits.message)"
    return stand_in(part, text)
