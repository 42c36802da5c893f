"""Cancelling at each point: a coroutine is stepped, and at the n-th time that it waits something happens to it.

How it works: `Stepped` stands between a coroutine and its event loop and sees each of its suspensions, on asyncio and
trio alike. A Plan counts them, over all coroutines that share it, and strikes at one. A test goes through the points
until a run ends before its point has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio
import anyio.lowlevel

MOST = 1000
"""Points of one scenario, at which a test has gone astray."""


class Plan:
    """point: the suspension at which `strike` is called, from 1."""

    def __init__(self, point: int, strike: Callable[[], object]):
        self.point, self.strike = point, strike
        self.seen = 0
        self.over = False

    @property
    def struck(self) -> bool:
        return self.seen >= self.point

    def step(self) -> None:
        """Something waits."""
        if not self.over:
            self.seen += 1
            if self.seen == self.point:
                self.strike()


class Stepped:
    """Awaits a coroutine, and tells a plan each time that it waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], plan: Plan | None):
        self._coroutine, self._plan = coroutine, plan

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._plan is None:
            return (yield from self._coroutine.__await__())
        send: Callable[[], Any] = lambda: self._coroutine.send(None)  # noqa: E731
        while True:
            try:
                waits_for = send()
            except StopIteration as end:
                return end.value
            self._plan.step()
            try:
                value = yield waits_for
            except BaseException as error:
                send = _thrower(self._coroutine, error)
            else:
                send = _sender(self._coroutine, value)


def _thrower(coroutine: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: coroutine.throw(error)


def _sender(coroutine: Coroutine[Any, Any, Any], value: Any) -> Callable[[], Any]:
    return lambda: coroutine.send(value)


def _nothing() -> None:
    pass


async def by_scope(
    operation: Callable[[], Coroutine[Any, Any, Any]], point: int, then: Callable[[], None] = _nothing
) -> bool:
    """Run it, and cancel the scope around it at its n-th suspension; call `then`. Whether there was one."""
    with anyio.CancelScope() as scope:
        plan = Plan(point, lambda: (scope.cancel(), then()))
        await Stepped(operation(), plan)
    plan.over = True
    return plan.struck


async def by_task(
    operation: Callable[[], Coroutine[Any, Any, Any]], point: int, then: Callable[[], None] = _nothing
) -> bool:
    """The same, by the cancellation of asyncio: `task.cancel()`."""
    plan = Plan(point, lambda: (task.cancel(), then()))

    async def run() -> None:
        await Stepped(operation(), plan)

    task = asyncio.ensure_future(run())
    await asyncio.wait([task])
    plan.over = True
    if not task.cancelled():
        task.result()
    return plan.struck


async def by_turns(
    operation: Callable[[], Coroutine[Any, Any, Any]], point: int, then: Callable[[], None] = _nothing
) -> bool:
    """The same, after so many turns of the event loop, whoever waits then."""
    struck = False

    async def strike() -> None:
        nonlocal struck
        for _ in range(point - 1):
            await anyio.lowlevel.checkpoint()
        struck = True
        scope.cancel()
        then()

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(strike)
            await operation()
        group.cancel_scope.cancel()
    return struck
