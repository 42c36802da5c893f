"""Waiting for what can be read from a descriptor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import anyio


class Input:
    """A descriptor that is read where there is something to read.

    How it works: on asyncio the descriptor stays registered with the event loop, whose callback reads at once, so that
    a wait costs no system call of its own. Where something comes while nobody waits, it is registered no more until
    somebody does.

    read: reads once, and returns whether there is enough to go on with.
    """

    def __init__(self, descriptor: int, read: Callable[[], bool]):
        self._descriptor = descriptor
        self._read = read
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Future[None] | None = None

    def more(self) -> Awaitable[None]:
        """To be awaited until there is enough, and it was read."""
        loop = self._loop or _loop()
        if loop is None:
            return self._once()
        if self._loop is None:
            loop.add_reader(self._descriptor, self._ready)
            self._loop = loop
        self._waiting = loop.create_future()
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
            self._waiting.set_result(None)


def _loop() -> asyncio.AbstractEventLoop | None:
    """The event loop, if it can keep a descriptor registered."""
    try:
        return asyncio.get_running_loop() if sys.platform != "win32" else None
    except RuntimeError:  # of trio
        return None
