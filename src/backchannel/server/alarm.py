"""Something to be done after a time, which nobody waits for in a task of asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls `ring` after so many seconds on the event loop, unless it is stopped before by whoever made it."""

    __slots__ = ("stop",)

    def __init__(self, seconds: float, ring: Callable[[], object]):
        try:
            self.stop: Callable[[], object] = asyncio.get_running_loop().call_later(seconds, ring).cancel
        except RuntimeError:
            self.stop = _on_trio(seconds, ring)


def _on_trio(seconds: float, ring: Callable[[], object]) -> Callable[[], object]:
    import trio

    async def wait() -> None:
        with scope:
            await trio.sleep_until(deadline)
            ring()

    scope, deadline = trio.CancelScope(), trio.current_time() + seconds
    trio.lowlevel.spawn_system_task(wait)
    return scope.cancel
