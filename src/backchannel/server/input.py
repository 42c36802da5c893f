"""Waiting for what can be read from a descriptor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import anyio


class Input:
    """A descriptor that is read where there is something to read.

    How it works: on asyncio the descriptor stays registered with the event loop, whose callback reads at once, so that
    a wait costs no system call of its own, and goes on with the task that waits, in the same turn. Where something
    comes while nobody waits, it is registered no more until somebody does.

    read: reads once, and returns whether there is enough to go on with.
    """

    def __init__(self, descriptor: int, read: Callable[[], bool]):
        self._descriptor = descriptor
        self._read = read
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: _Wait | None = None

    def more(self) -> Awaitable[None]:
        """To be awaited until there is enough, and it was read."""
        loop = self._loop or _loop()
        if loop is None:
            return self._once()
        if self._loop is None:
            loop.add_reader(self._descriptor, self._ready)
            self._loop = loop
        self._waiting = _Wait(loop=loop)
        return self._waiting

    async def _once(self) -> None:
        await anyio.wait_readable(self._descriptor)
        self._read()

    def close(self) -> None:
        """Read no more."""
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            self._loop = None

    def _ready(self) -> None:
        if self._waiting is None or self._waiting.done():
            self.close()
        elif self._read():
            self._waiting.end()


class _Wait(asyncio.Future[None]):
    """What a task waits for, which goes on within `end`: the event loop calls that, so no task runs there. If it is
    cancelled, the task goes on as after any other future."""

    _go_on: Callable[[Any], object] | None = None
    _context: Context | None = None

    def add_done_callback(self, go_on: Callable[[Any], object], *, context: Context | None = None) -> None:
        if context is not None:  # a task's step
            self._go_on, self._context = go_on, context
        super().add_done_callback(go_on, context=context)

    def end(self) -> None:
        """The wait is over."""
        go_on, self._go_on = self._go_on, None
        if go_on is not None:
            self.remove_done_callback(go_on)
        self.set_result(None)
        if go_on is not None and self._context is not None:
            self._context.run(go_on, self)


def _loop() -> asyncio.AbstractEventLoop | None:
    """The event loop, if it can keep a descriptor registered."""
    try:
        return asyncio.get_running_loop() if sys.platform != "win32" else None
    except RuntimeError:  # of trio
        return None
