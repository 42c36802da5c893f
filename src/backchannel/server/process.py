"""The process of a stdio server: its standard streams, and its end (basic/transports/stdio, Shutdown).

How it works: `claim` moves the protocol to descriptors that nothing else knows, so that what prints, and every child
process, meets stderr in the place of stdout and an empty stdin. An `Ending` sees to it that the process is gone soon
after the client is: each phase of the end says how long it may take, and a thread of its own ends the process by force
if a phase takes longer, because a handler blocks the event loop or its thread cannot be stopped.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import io
import logging
import math
import os
import queue
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import anyio

from ..errors import ConfigurationError
from .exchange import serving
from .limits import Limits

logger = logging.getLogger("backchannel.server")

_SELDOM = 5000  # objects made since, of those that may be in cycles, at which a collection begins
MARGIN = 0.5
"""Seconds for handlers to end that were cancelled after their grace."""
LIFESPAN = 5.0
"""Seconds for the lifespan to end after that."""
THREADS = 0.25
"""Seconds for worker threads to end after that, and for what is buffered to be flushed."""

_claimed: tuple[int, int] | None = None


def claim() -> tuple[int, int]:
    """Take stdin and stdout for the protocol. From then on fd 0 is empty and what is written to fd 1 goes to stderr.

    Call it before anything may print: before the user's module is imported. Calling it again changes nothing.

    Returns: the descriptors to read from and to write to; child processes do not inherit them.
    Raises: ConfigurationError if one of the two is closed.
    """
    global _claimed
    if _claimed is None:
        _claimed = _move()
        if _is_on(sys.stdout, 1):
            # After the move: what was printed before and is still buffered must not get onto the wire either.
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            sys.stdout = _Stdout()
    return _claimed


def release() -> None:
    """Forget what was claimed; whoever claims next gets what is at fd 0 and fd 1 then, which is no client."""
    global _claimed
    _claimed = None
    if isinstance(sys.stdout, _Stdout):
        sys.stdout.reported = True  # there is nothing left to keep clean


def _move() -> tuple[int, int]:
    if sys.__stdin__ is None or sys.__stdout__ is None:  # closed when the interpreter started
        raise ConfigurationError("a stdio server needs stdin and stdout, and one of them is closed")
    null = os.open(os.devnull, os.O_RDWR)  # if stderr is closed this takes its place, and nothing else can
    wire = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    os.dup2(2 if sys.__stderr__ is not None else null, 1)
    if null > 2:
        os.close(null)
    if sys.platform == "win32":
        import msvcrt

        for descriptor in wire:
            msvcrt.setmode(descriptor, os.O_BINARY)
    return wire


def _is_on(stream: Any, descriptor: int) -> bool:
    try:
        return bool(stream.fileno() == descriptor)
    except (AttributeError, OSError, ValueError):  # None, none of a file's, or closed
        return False


class _Stderr(io.FileIO):
    """Takes stray text. If stderr is broken the text is lost, which is no reason for its writer to fail."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            if written := super().write(data):
                return written
        return memoryview(data).nbytes


class _Stdout(io.TextIOWrapper):
    """What `sys.stdout` is after `claim`: the first text written to it is reported, with the tool that did it."""

    def __init__(self) -> None:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        raw = io.BufferedWriter(_Stderr(1, "w", closefd=False))
        super().__init__(raw, encoding, "backslashreplace", line_buffering=True)
        self.reported = False

    def write(self, text: str) -> int:
        if not self.reported:
            self.reported = True
            exchange = serving.get()
            who = f"{exchange.name} {exchange.target!r}" if exchange is not None else "something outside of any request"
            logger.warning(
                "%s printed: stdout carries the protocol, so what is printed goes to stderr (reported once)", who
            )
        return super().write(text)


class Ending:
    """How the process of a server ends. Inside of `with` it is watched over, and SIGINT and SIGTERM end it, unless the
    program has handlers of its own for them; a second signal ends it at once.

    grace: seconds that handlers get to end.  code: the exit code, 128 + n after signal n.
    """

    def __init__(self, grace: float = Limits().grace) -> None:
        self.handlers = grace + MARGIN
        self.code = 0
        self._scope: anyio.CancelScope | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadlines: queue.SimpleQueue[float] = queue.SimpleQueue()  # a signal handler may put into this kind
        self._others: list[threading.Thread] = []
        self._replaced: dict[int, Any] = {}

    def __enter__(self) -> Ending:
        self._others = threading.enumerate()
        threading.Thread(target=self._watch, name="backchannel end", daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if (handler := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler):
                    self._replaced[number] = handler
                    signal.signal(number, self._signalled)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Wait for the threads of this server, and leave if they do not end: the interpreter would wait for them, and
        be an orphan."""
        for number, handler in self._replaced.items():
            signal.signal(number, handler)
        self.within(LIFESPAN)  # this may hang as well, on a stderr that nobody reads
        if error is not None:
            self.code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
        deadline = time.monotonic() + THREADS
        for thread in self._threads():
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._threads():
            if error is not None and not isinstance(error, SystemExit):
                sys.excepthook(type(error), error, error.__traceback__)
            leave(self.code)
        self.within(math.inf)

    def within(self, seconds: float) -> None:
        """Say how long the next phase may take, from now. `math.inf`: the danger is over."""
        self._deadlines.put(time.monotonic() + seconds)

    def cancellable(self, scope: anyio.CancelScope | None) -> None:
        """A signal cancels `scope` from now on, or nothing."""
        self._scope = scope
        if scope is not None and self.code:
            scope.cancel("the process got a signal")

    def attach(self) -> None:
        """The event loop that runs is the one to wake for a signal."""
        self._loop = asyncio.get_running_loop()

    def watch_hangup(self, descriptor: int, reading: Callable[[], int | None]) -> None:
        """End the process if the other end of stdin is closed and nobody reads the end, as the event loop is blocked.

        reading: counts the reads; None once the end was read.
        """
        mode = os.fstat(descriptor).st_mode
        if hasattr(select, "poll") and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            thread = threading.Thread(target=self._hung_up, args=(descriptor, reading), daemon=True)
            thread.name = "backchannel hang-up"
            thread.start()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self.code:
            os._exit(128 + number)
        self.code = 128 + number
        self.within(self.handlers)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(lambda: self.cancellable(self._scope))

    def _watch(self) -> None:
        deadline = math.inf
        while True:
            left = deadline - time.monotonic()
            try:
                deadline = self._deadlines.get(timeout=max(0.0, left) if left < math.inf else None)
            except queue.Empty:
                leave(self.code)

    def _threads(self) -> list[threading.Thread]:
        """Those that this server started, and that the interpreter would wait for."""
        others = (threading.current_thread(), threading.main_thread(), *self._others)
        return [thread for thread in threading.enumerate() if not thread.daemon and thread not in others]

    def _hung_up(self, descriptor: int, reading: Callable[[], int | None]) -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # a hang-up is reported without being asked for
        poll.poll()
        while (count := reading()) is not None:
            time.sleep(self.handlers)
            if reading() == count:
                leave(self.code)


def settle() -> None:
    """Keep what was made for the start, which stays, out of all garbage collections to come, and have these seldom:
    they would look through it each time, and through the requests that are being served, where there is nothing to
    find; that is what a slow call waits for."""
    gc.collect()
    gc.freeze()
    often, *others = gc.get_threshold()
    if 0 < often < _SELDOM:
        gc.set_threshold(_SELDOM, *others)


def leave(code: int) -> NoReturn:
    """End the process now, whatever still runs. Exit functions and log handlers get a moment."""
    with contextlib.suppress(RuntimeError):  # the interpreter is shutting down
        closing = threading.Thread(target=_close_down, daemon=True)
        closing.start()
        closing.join(THREADS)
    os._exit(code)


def _close_down() -> None:
    logger.warning("a handler did not stop in time (a thread, or code that blocks the event loop); the process ends")
    atexit._run_exitfuncs()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
