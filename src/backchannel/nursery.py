"""A task group that lives in a task of its own, so that what owns it may be opened in one task and closed in another.

How it works: the group is entered and left by a task that belongs to the event loop itself. It is started when the
first task is put into it, so an owner that never needs a task has none. A group takes tasks from tasks alone; what a
callback of the event loop starts, such as a timer, waits for a moment until that task puts it into the group. `close`
cancels what still runs, waits for it, and may be called from anywhere, any number of times.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any

import anyio
import anyio.abc

logger = logging.getLogger("backchannel")


def current_task() -> object:
    """The identity of the task that runs, on asyncio and trio alike."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_task()


def on_asyncio() -> bool:
    """Whether asyncio runs here, and not trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def from_threads() -> Callable[..., object]:
    """What a thread calls, with a function and its arguments, to have it run soon in the event loop that runs here.
    That call raises RuntimeError once the loop has ended."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon


def being_cancelled() -> bool:
    """Whether a scope around this task is cancelled. If not, a cancellation that arrives concerns this task alone: its
    own code made it, or somebody cancelled just this task."""
    return anyio.current_effective_deadline() == -math.inf


def _spawn(run: Callable[[], Any]) -> object:
    """Start a task that belongs to the event loop, with an empty set of context variables. Returns its owner's hold."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.spawn_system_task(run, context=Context())
    return loop.create_task(run(), context=Context())


class Nursery:
    """Owns tasks. A task that fails is logged and does not disturb the others."""

    def __init__(self) -> None:
        self._group: anyio.abc.TaskGroup | None = None
        self._waiting: list[tuple[Callable[..., Awaitable[Any]], tuple[Any, ...], Context]] = []
        self._host: object = None
        self._stops = False
        self._news = anyio.Event()
        self._ended = anyio.Event()
        self._count = 0
        self._functions: Counter[Callable[..., Awaitable[Any]]] = Counter()
        self._one_ended: anyio.Event | None = None
        self.closed = False

    @property
    def running(self) -> int:
        """How many tasks run."""
        return self._count

    def count(self, function: Callable[..., Awaitable[Any]]) -> int:
        """How many of them run this function."""
        return self._functions[function]

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Run `function(*args)` in a task, with the caller's context variables. May be called from a callback of the
        event loop too.

        Raises: RuntimeError after `close`.
        """
        if self.closed:
            raise RuntimeError("the owner of this task has been closed")
        self._count += 1
        self._functions[function] += 1
        if self._group is not None and current_task() is not None:
            self._group.start_soon(self._guard, function, args)
            return
        self._waiting.append((function, args, copy_context()))
        if self._host is None:
            self._host = _spawn(self._run)
        self._news.set()

    async def settle(self, grace: float) -> None:
        """Wait until no task runs, at most `grace` seconds."""
        with anyio.move_on_after(grace):
            while self._count:
                self._one_ended = anyio.Event()
                await self._one_ended.wait()

    def retire(self) -> None:
        """Take no more tasks, and end by itself once those that run have ended, should nobody get to `close`."""
        self.closed = True
        if not self._count:
            self._end()

    async def close(self, grace: float | None = None) -> None:
        """Cancel all tasks and wait until they have ended. grace: the most seconds to wait, for tasks that may not end
        by themselves, or of which the caller is one."""
        self.closed = True
        self._end()
        if self._host is not None:
            with anyio.move_on_after(grace, shield=True):
                await self._ended.wait()

    def _end(self) -> None:
        self._stops = True
        self._news.set()

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                while True:
                    self._news = anyio.Event()
                    waiting, self._waiting = self._waiting, []
                    for function, args, context in waiting:
                        context.run(group.start_soon, self._guard, function, args)
                    if self._stops:
                        break
                    await self._news.wait()
                group.cancel_scope.cancel()
        finally:
            self._ended.set()

    async def _guard(self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        try:
            await function(*args)
        except Exception:
            logger.exception("a background task failed: %r", function)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # which would end the group, and with it the others
            if being_cancelled():
                raise
            logger.warning("a background task was ended by %s: %r", type(error).__name__, function)
        finally:
            self._count -= 1
            self._functions[function] -= 1
            if not self._functions[function]:
                del self._functions[function]
            if self._one_ended is not None:
                self._one_ended.set()
            if self.closed and not self._count:
                self._end()
