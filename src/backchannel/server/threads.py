"""Worker threads for the author's synchronous functions.

How it works: a function has a seat while it runs, and there are so many seats. While it waits for an answer it lends
its seat, so that people who take their time keep nobody else from running; then it takes one again. The thread knows
its seat, and not a context variable, which what it starts would inherit.

A thread is hired from anyio once, so that `anyio.from_thread` works in it, and runs one function after the other: that
costs a quarter of what hiring it for each of them does. One that has had nothing to do for a while is let go.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from ..errors import CallFinished
from ..nursery import Nursery, being_cancelled, from_threads
from ..waiter import Waiter

try:
    from sniffio import current_async_library_cvar as _library
except ImportError:  # anyio does without it
    _library = None  # type: ignore[assignment]

T = TypeVar("T")
MOST_WAITING = 1000
"""Threads that wait for answers without a seat. Those above keep theirs, so that threads have an end."""
IDLE = 5.0
"""Seconds for which a thread with nothing to do is kept."""
_here = threading.local()


class Threads:
    """Runs functions in worker threads. most: how many run at once.

    waiting: how many of them wait for an answer, and have lent their seat.
    """

    def __init__(self, most: int):
        self.seats = anyio.CapacityLimiter(most)
        self.waiting = 0
        self._any = anyio.CapacityLimiter(math.inf)
        self._nursery = Nursery()
        self._idle: list[_Worker] = []
        self._soon = from_threads()

    async def run(self, function: Callable[[], T]) -> T:
        """What `function` returns, or raises. If the caller is cancelled, the thread is left to end by itself."""
        seat = _Seat(self, function)
        await seat.take()
        try:
            (self._idle.pop() if self._idle else self._hired()).orders.put(seat)
            result: T = await seat.done.wait()
            return result
        finally:
            seat.leave()

    async def close(self) -> None:
        """Let the threads go: those that run something, as soon as they have ended."""
        await self._nursery.close()

    def _hired(self) -> _Worker:
        worker = _Worker(self._soon, self._returned, self._unused)
        Context().run(self._nursery.start, self._hire, worker)  # it keeps the context, and serves other calls too
        return worker

    async def _hire(self, worker: _Worker) -> None:
        try:
            await anyio.to_thread.run_sync(worker.work, abandon_on_cancel=True, limiter=self._any)
        except RuntimeError as error:  # there can be no more threads
            seat = worker.orders.get_nowait()
            if seat is not None:
                seat.done.fail(error)
        except anyio.get_cancelled_exc_class():
            if being_cancelled():  # else the event loop ends, and with it all its tasks
                raise
        finally:
            worker.orders.put(None)

    def _returned(self, worker: _Worker, seat: _Seat) -> None:
        """A thread has done what it was given."""
        if len(self._idle) < self.seats.total_tokens:
            self._idle.append(worker)
        else:
            worker.orders.put(None)
        seat.tell()

    def _unused(self, worker: _Worker) -> None:
        """A thread had nothing to do, unless it has been given something just now."""
        if worker in self._idle:
            self._idle.remove(worker)
            worker.orders.put(None)


class _Worker:
    """A thread, and what it is to do next: None to end."""

    def __init__(
        self,
        soon: Callable[..., object],
        returned: Callable[[_Worker, _Seat], None],
        unused: Callable[[_Worker], None],
    ):
        self.orders: SimpleQueue[_Seat | None] = SimpleQueue()
        self._soon = soon
        self._returned = returned
        self._unused = unused

    def work(self) -> None:
        """Run one function after the other."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended, and nobody waits
            while (seat := self._next()) is not None:
                seat.work()
                self._soon(self._returned, self, seat)
                del seat

    def _next(self) -> _Seat | None:
        try:
            return self.orders.get(timeout=IDLE)
        except Empty:
            self._soon(self._unused, self)
            return self.orders.get()


class _Seat:
    """That one function may run.

    done: waits for what the function returns or raises.
    """

    __slots__ = ("_asking", "_context", "_error", "_function", "_held", "_left", "_threads", "_value", "done")

    def __init__(self, threads: Threads, function: Callable[[], Any]):
        self.done = Waiter()
        self._threads = threads
        self._function = function
        self._context = copy_context()
        self._held = False
        self._left = False
        self._asking: anyio.CancelScope | None = None
        self._value: Any = None
        self._error: BaseException | None = None

    async def take(self) -> None:
        """Wait for a seat."""
        seats = self._threads.seats
        try:
            seats.acquire_on_behalf_of_nowait(self)
        except anyio.WouldBlock:
            await seats.acquire_on_behalf_of(self)
        self._held = True
        if self._left:  # in the meantime
            self._give()

    def leave(self) -> None:
        """Nobody waits for the function any more."""
        self._left = True
        self._give()
        if self._asking is not None:
            self._asking.cancel()

    def work(self) -> None:
        """Call the function, in the worker thread."""
        _here.seat = self
        try:
            self._value = self._context.run(self._call)
        except BaseException as error:
            self._error = error
        finally:
            _here.seat = None

    def _call(self) -> Any:
        if _library is not None:
            _library.set(None)  # no event loop runs in this thread
        return self._function()

    def tell(self) -> None:
        """Hand on what came out."""
        if self._error is not None:
            self.done.fail(self._error)
        else:
            self.done.resolve(self._value)

    async def lend(self, answer: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for an answer, in the event loop, while others may have the seat."""
        with anyio.CancelScope() as self._asking:
            if self._left:
                self._asking.cancel()
            return await self._lend(answer)
        raise CallFinished("nobody waits for this call any more")

    async def _lend(self, answer: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._left or self._threads.waiting >= MOST_WAITING:
            return await answer()
        self._threads.waiting += 1
        self._give()
        try:
            return await answer()
        finally:
            self._threads.waiting -= 1
            if not self._left:
                await self.take()

    def _give(self) -> None:
        if self._held:
            self._held = False
            self._threads.seats.release_on_behalf_of(self)


def seat_here() -> _Seat | None:
    """The seat of the function that runs in this thread, if it has one."""
    return getattr(_here, "seat", None)
