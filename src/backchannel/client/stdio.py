"""A server that the client launches, spoken to over its standard streams (basic/transports/stdio).

How it works: one task, which belongs to the event loop and not to whoever opened the transport, owns the process from
its start to its end. It runs the pumps of the three pipes, and whatever ends the connection (`close`, a cancelled
`open`, the death of the process) makes it climb the same ladder: close stdin, wait, SIGTERM, wait, SIGKILL, to the
whole process group. After a death that nobody wanted the process may be started again. Writes go through a queue,
because a write that was cancelled half-way would cut a line in two.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import anyio
import anyio.abc
import msgspec

from ..errors import ConfigurationError, ConnectionFailed, ConnectionLost
from ..nursery import Nursery
from ..one_line import one_line
from ..protocol.jsonrpc import Malformed, Message
from ..protocol.lines import LineDecoder, Oversized, encode_line
from ..protocol.versions import Version
from ..waiter import Waiter
from .process import BROKEN, Child
from .transport import Lost, Receive, SessionGone, encoded, is_junk, read, too_large

logger = logging.getLogger("backchannel.client")

INHERITED = frozenset(
    "HOME LOGNAME PATH SHELL TERM USER TZ LANG LANGUAGE TMPDIR TEMP TMP VIRTUAL_ENV "
    "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES "
    "SYSTEMDRIVE SYSTEMROOT USERNAME USERPROFILE WINDIR".split()
)
"""The environment variables that a server inherits, besides those named LC_*."""

STDERR_KEPT = 65536
"""How many bytes of the end of stderr are kept."""
_SHOWN_LINES = 20
_JUNK_REPORTS = 20
_LONGEST_PAUSE = 5.0  # seconds before it is started again; the first is 0.1, and each is twice the one before
_STABLE = 60.0  # seconds after which a death is the first one again
_DRAIN = 0.5  # seconds that the pipes of a process that has ended get to bring what is left in them


@dataclass(init=False)
class StdioServer:
    """How to launch a server: `StdioServer("python", "server.py")`.

    command, args: the program and its arguments, without a shell.  env: variables added to those that are inherited,
    which are the ones in `INHERITED` and LC_*, so that secrets of this process do not leak; give `env=os.environ` to
    pass everything.  cwd: its working directory.  grace: seconds it gets to end by itself when stdin closes, and
    again after SIGTERM.  stderr: "inherit" passes it through to this process's stderr, "capture" only keeps its end
    for error messages.  max_message: the most bytes a message from it may have.  restart: how many times in a row it is
    started again when it has ended by itself; what it had in its memory is gone.

    Raises: ConfigurationError.  Specification: basic/transports/stdio.
    """

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: dict[str, str] = field(repr=False)
    cwd: str | None
    grace: float
    stderr: Literal["inherit", "capture"]
    max_message: int
    restart: int

    def __init__(
        self,
        command: str | os.PathLike[str],
        *args: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        grace: float = 2.0,
        stderr: Literal["inherit", "capture"] = "inherit",
        max_message: int = 16 * 2**20,
        restart: int = 0,
    ):
        self.command = os.fspath(command)
        self.args = tuple(os.fspath(arg) for arg in args)
        self.env = dict(env or {})
        self.cwd = os.fspath(cwd) if cwd is not None else None
        self.grace, self.stderr, self.max_message = grace, stderr, max_message
        self.restart = restart
        if not self.command:
            raise ConfigurationError("StdioServer needs a command")
        if grace < 0 or max_message < 1 or restart < 0:
            raise ConfigurationError("grace is a number of seconds, max_message one of bytes, restart one of times")
        if stderr not in ("inherit", "capture"):
            raise ConfigurationError(f'stderr is "inherit" or "capture", not {stderr!r}')

    @property
    def label(self) -> str:
        """What messages call it: the command, and its first argument where that cannot be a secret."""
        first = self.args[0] if self.args else ""
        return (
            self.command
            if not first or first[0] == "-" or "://" in first or "=" in first
            else f"{self.command} {first}"
        )

    def environment(self) -> dict[str, str]:
        """The environment it runs in."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name.upper() in INHERITED or name.startswith("LC_")
            if not value.startswith("()")  # a function of a shell, which is code
        }
        return {**inherited, **self.env}


@dataclass(eq=False, slots=True)
class _Line:
    data: bytes
    written: Waiter


class StdioTransport:
    """Carries messages to a `StdioServer`. After `close` nothing more is received, and `lost` is not called."""

    request_streams = False

    def __init__(self, server: StdioServer):
        self.server = server
        self._nursery = Nursery()
        self._child: Child | None = None
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._version: Version | None = None
        self._gone: str | None = f"the server {server.label!r} is not running"  # why nothing can be sent
        self._again: Waiter | None = None  # resolved when it was started again
        self._deaths = 0  # one after the other
        self._stop = anyio.Event()
        self._closing = False
        self.dropped = 0
        self._prepare()

    def _prepare(self) -> None:
        """What belongs to one process."""
        self._queue: list[_Line] = []
        self._writing: list[_Line] = []
        self._wake, self._over, self._failed = anyio.Event(), anyio.Event(), anyio.Event()
        self._out_ended, self._err_ended = anyio.Event(), anyio.Event()
        self._tail = bytearray()

    @property
    def pid(self) -> int | None:
        """The process id of the server, which is also that of its process group; None before `open`."""
        return self._child.pid if self._child is not None else None

    @property
    def stderr(self) -> str:
        """The end of what the server wrote to stderr, at most 64 KiB."""
        return self._tail.decode("utf-8", "replace")

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Launch the server. Raises: ConnectionFailed that names the command and the cause."""
        if self._receive is not None or self._nursery.closed:
            raise ConnectionFailed(f"this connection to {self.server.label!r} was used before; make a new one")
        self._receive, self._lost = receive, lost
        opened = Waiter()
        self._nursery.start(self._own, opened)
        self._nursery.start(self._stop_when_cancelled)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            await opened.wait()
            undo.pop_all()

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Write one message. Raises: ConnectionLost, LocalProtocolError."""
        data = encoded(message)
        if b"\n" in data or b"\r" in data:  # raw JSON inside it is pretty-printed
            data = msgspec.json.format(data, indent=-1)
        if self._again is not None:
            await self._again.wait()
        if self._gone is not None:
            raise ConnectionLost(self._gone)
        line = _Line(encode_line(data), Waiter())
        self._queue.append(line)
        self._wake.set()
        try:
            await line.written.wait()
        finally:
            if not line.written.done and line in self._queue:
                self._queue.remove(line)

    def negotiated(self, version: Version) -> None:
        """Messages are read as this version has them."""
        self._version = version

    async def listen(self) -> None:
        """Nothing to do: there is one channel, and it is open."""

    async def close(self) -> None:
        """End the server: close its stdin, then SIGTERM, then SIGKILL, each after `grace` seconds. Takes at most
        little more than twice that, and goes on even if the caller is cancelled."""
        await self._nursery.close()

    async def _stop_when_cancelled(self) -> None:
        """Through this task the end of the nursery reaches the owner of the process, which is shielded."""
        try:
            await anyio.sleep_forever()
        finally:
            self._closing = True
            self._stop.set()
            self._over.set()

    async def _own(self, opened: Waiter) -> None:
        try:
            with anyio.CancelScope(shield=True):  # it ends by the ladder, in bounded time
                while not self._closing and not self._nursery.closed:
                    self._prepare()
                    self._child = await self._launch()
                    self._gone = None
                    (self._again or opened).resolve(None)
                    await self._live(self._child)
        except ConnectionFailed as error:
            opened.fail(error)
            if self._again is not None and self._lost is not None:
                self._lost(ConnectionLost(str(error)))
        finally:
            # Here without the ladder only where the event loop is torn down.
            if self._child is not None and not self._child.exited.is_set():
                self._child.kill()
            self._closing = True
            opened.fail(ConnectionFailed(f"the server {self.server.label!r} was not launched"))
            self._fail(f"the connection to the server {self.server.label!r} is closed")
            if self._again is not None:
                self._again.resolve(None)

    async def _launch(self) -> Child:
        server = self.server
        try:
            return await Child.launch([server.command, *server.args], server.environment(), server.cwd)
        except (OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or str(error)
            where = f" in {server.cwd!r}" if server.cwd is not None else ""
            hint = "; give each argument as a string of its own" if " " in server.command else ""
            raise ConnectionFailed(f"cannot launch the server {server.label!r}{where}: {cause}{hint}") from error

    async def _live(self, child: Child) -> None:
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(self._pump_in, child.stdin)
            pumps.start_soon(self._pump_out, child.stdout)
            pumps.start_soon(self._pump_err, child.stderr)
            pumps.start_soon(self._watch, child)
            began = anyio.current_time()
            await self._over.wait()
            if not self._closing:
                await self._report(child, anyio.current_time() - began)
            self._fail(f"the connection to the server {self.server.label!r} is closed")
            ended = await child.end(self.server.grace)
            pumps.cancel_scope.cancel()
        if ended:
            await child.free()
        else:
            logger.warning("the server %r (process %s) could not be killed", self.server.label, child.pid)
        if not self._closing:
            with anyio.move_on_after(min(0.1 * 2 ** (self._deaths - 1), _LONGEST_PAUSE)):
                await self._stop.wait()

    async def _pump_in(self, stdin: anyio.abc.ByteSendStream) -> None:
        try:
            while True:
                while not self._queue:
                    self._wake = anyio.Event()
                    await self._wake.wait()
                self._writing, self._queue = self._queue, []
                await stdin.send(b"".join(line.data for line in self._writing))
                for line in self._writing:
                    line.written.resolve(None)
        except BROKEN:
            # Most likely the process has died: its exit code and stderr say more than a broken pipe.
            with anyio.move_on_after(2 * _DRAIN):
                await self._failed.wait()
            self._fail(f"the server {self.server.label!r} has closed its standard input")

    async def _pump_out(self, stdout: anyio.abc.ByteReceiveStream) -> None:
        lines = LineDecoder(self.server.max_message)
        with contextlib.suppress(*BROKEN):
            async for chunk in stdout:
                for line in lines.feed(chunk):
                    self._take(line)
        for line in lines.eof():  # whole, or cut off by the end of the process
            if isinstance(line, bytes) and not any(isinstance(one, Malformed) for one in read(line, self._version)):
                self._take(line)
        self._out_ended.set()
        self._over.set()

    async def _pump_err(self, stderr: anyio.abc.ByteReceiveStream) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        echo = self.server.stderr == "inherit"
        with contextlib.suppress(*BROKEN):
            async for chunk in stderr:
                self._tail += chunk
                del self._tail[:-STDERR_KEPT]
                echo = echo and _echo(decoder.decode(chunk))
        self._err_ended.set()

    async def _watch(self, child: Child) -> None:
        await child.watch()
        self._over.set()

    def _take(self, line: bytes | Oversized) -> None:
        if self._closing or self._gone is not None or self._receive is None:
            return
        if isinstance(line, Oversized):
            large = too_large(line)
            if large.id is None:
                self.dropped += 1
                logger.warning("the server %r sent %s; it was dropped", self.server.label, large.message)
            else:
                self._receive(large)
            return
        for message in read(line, self._version):
            if is_junk(message, line):
                self._skip(line)
            else:
                self._receive(message)

    def _skip(self, line: bytes) -> None:
        self.dropped += 1
        if self.dropped <= _JUNK_REPORTS:
            last = " (no more of these are reported)" if self.dropped == _JUNK_REPORTS else ""
            text = "the server %r wrote a line to stdout that is no message; it was skipped%s: %r"
            logger.warning(text, self.server.label, last, line[:200].decode("utf-8", "replace"))

    async def _report(self, child: Child, lived: float) -> None:
        """The server ended, or closed its stdout, after so many seconds: say so once what is left in the pipes has been
        read."""
        with anyio.move_on_after(_DRAIN):
            for ended in (child.exited, self._out_ended, self._err_ended):
                await ended.wait()
        if self._closing or self._lost is None:
            return
        why = f"the server {self.server.label!r} {child.how_it_ended()}"
        if lines := self.stderr.rstrip().splitlines()[-_SHOWN_LINES:]:
            why += "; the end of its stderr:\n" + "\n".join(f"  {one_line(line)}" for line in lines)
        self._fail(why)
        self._deaths = 1 if lived > _STABLE else self._deaths + 1
        if self._deaths <= self.server.restart:
            logger.warning("%s; it is started again", why)
            self._again = Waiter()
            self._lost(SessionGone(why))
        else:
            self._closing = True
            self._lost(ConnectionLost(why))

    def _fail(self, why: str) -> None:
        """Nothing can be sent any more; the first reason stays."""
        self._gone = self._gone or why
        self._failed.set()
        for line in (*self._writing, *self._queue):
            line.written.fail(ConnectionLost(self._gone))
        self._queue = []


def _echo(text: str) -> bool:
    """Write to this process's stderr. Returns whether that works."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # broken, closed, or None as under pythonw
        return False
    return True
