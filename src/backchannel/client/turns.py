"""Who is next: at most so many of the server's questions are answered at once, in the order in which they came.

How it works: a place is taken when the question comes, without waiting, because tasks that are started together run in
any order. A turn is called when there is room and the one before it has begun, so questions also begin in order.
"""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType

import anyio
import anyio.lowlevel

from ..waiter import Waiter


class Turns:
    """Places for `limit` at once."""

    def __init__(self, limit: int):
        self._free = limit
        self._queue: OrderedDict[Turn, None] = OrderedDict()
        self._called: Turn | None = None

    def take(self, *, counted: bool = True) -> Turn:
        """The last place in the queue. Who takes it has to enter it. counted: False for what must not wait."""
        turn = Turn(self if counted else None)
        if counted:
            self._queue[turn] = None
            self._call()
        return turn

    def begun(self, turn: Turn) -> None:
        """This turn, which was called, has begun."""
        self._called = None
        self._call()

    def ended(self, turn: Turn) -> None:
        """This turn is over, or is not wanted any more."""
        if turn in self._queue:
            del self._queue[turn]
            return
        if turn is self._called:
            self._called = None
        self._free += 1
        self._call()

    def _call(self) -> None:
        if self._queue and self._free > 0 and self._called is None:
            self._free -= 1
            self._called, _ = self._queue.popitem(last=False)
            self._called.ready.resolve(None)


class Turn:
    """One place: `async with` it, once, around what has to wait for its turn."""

    __slots__ = ("_turns", "ready")

    def __init__(self, turns: Turns | None):
        self._turns = turns
        self.ready = Waiter()
        if turns is None:
            self.ready.resolve(None)

    async def __aenter__(self) -> None:
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
            await self.ready.wait()
        except anyio.get_cancelled_exc_class():
            self._end()
            raise
        if self._turns is not None:
            self._turns.begun(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._turns is not None:
            self._turns.ended(self)
