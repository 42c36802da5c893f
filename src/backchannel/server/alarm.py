"""Something to be done after a time, which nobody waits for in a task of asyncio's.

How it works: most alarms are stopped soon after they are set, and a timer of the event loop costs more than all else
about them. So one timer, a moment later, sets those that are still wanted by then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

_MOMENT = 0.02  # seconds
_here = threading.local()


class Alarm:
    """Calls `ring` after so many seconds on the event loop, unless it is stopped before by whoever made it."""

    __slots__ = ("_due", "_ring", "_timer")

    def __init__(self, seconds: float, ring: Callable[[], object]):
        self._ring: Callable[[], object] | None = ring
        self._timer: Any = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._timer = _on_trio(seconds, ring)
            return
        self._due = loop.time() + seconds
        if seconds > _MOMENT:
            _unset(loop).append(self)
        else:
            self._timer = loop.call_at(self._due, ring)

    def stop(self) -> None:
        """It shall not ring."""
        self._ring = None
        if self._timer is not None:
            self._timer.cancel()


def _unset(loop: asyncio.AbstractEventLoop) -> list[Alarm]:
    """Those of this event loop that are set a moment later."""
    there: tuple[asyncio.AbstractEventLoop, list[Alarm]] | None = getattr(_here, "unset", None)
    if there is None or there[0] is not loop:
        there = _here.unset = loop, []
        loop.call_later(_MOMENT, _set_all, *there)
    return there[1]


def _set_all(loop: asyncio.AbstractEventLoop, alarms: list[Alarm]) -> None:
    _here.unset = None
    for alarm in alarms:
        if alarm._ring is not None:
            alarm._timer = loop.call_at(alarm._due, alarm._ring)


def _on_trio(seconds: float, ring: Callable[[], object]) -> Any:
    import trio

    async def wait() -> None:
        with scope:
            await trio.sleep_until(deadline)
            ring()

    scope, deadline = trio.CancelScope(), trio.current_time() + seconds
    trio.lowlevel.spawn_system_task(wait)
    return scope
