"""Worker threads for the author's synchronous functions.

How it works: a function has a seat while it runs, and there are so many seats. While it waits for an answer it lends
its seat, so that people who take their time keep nobody else from running; then it takes one again. The thread knows
its seat, and not a context variable, which what it starts would inherit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")
MOST_WAITING = 1000
"""Threads that wait for answers without a seat. Those above keep theirs, so that threads have an end."""
_here = threading.local()


class Threads:
    """Runs functions in worker threads. most: how many run at once.

    waiting: how many of them wait for an answer, and have lent their seat.
    """

    def __init__(self, most: int):
        self.seats = anyio.CapacityLimiter(most)
        self.waiting = 0
        self._any = anyio.CapacityLimiter(math.inf)

    async def run(self, function: Callable[[], T]) -> T:
        """What `function` returns, or raises. If the caller is cancelled, the thread is left to end by itself."""
        seat = _Seat(self)
        await seat.take()
        try:
            return await anyio.to_thread.run_sync(seat.work, function, abandon_on_cancel=True, limiter=self._any)
        finally:
            seat.leave()


class _Seat:
    """That one function may run."""

    def __init__(self, threads: Threads):
        self._threads = threads
        self._held = False
        self._left = False

    async def take(self) -> None:
        """Wait for a seat."""
        await self._threads.seats.acquire_on_behalf_of(self)
        self._held = True
        if self._left:  # in the meantime
            self._give()

    def leave(self) -> None:
        """Nobody waits for the function any more."""
        self._left = True
        self._give()

    def work(self, function: Callable[[], T]) -> T:
        """Call the function, in the worker thread."""
        _here.seat = self
        try:
            return function()
        finally:
            _here.seat = None

    async def lend(self, answer: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for an answer, in the event loop, while others may have the seat."""
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
