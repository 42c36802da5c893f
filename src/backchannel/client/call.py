"""One call of the client's caller, over all its rounds: its two clocks, and its end if the connection ends first."""

from __future__ import annotations

import math
from types import TracebackType

import anyio

from ..errors import ConnectionLost, RequestTimeout


class Call:
    """A context manager around all that a call does, which is cut off when a clock runs out or the connection is lost.

    method: what is called.  idle: seconds without a sign of life; this clock stands still while the server's questions
    are answered, and starts again with each round and on progress.  total: seconds for everything; it never stands
    still.  nested: the call is made by a handler that answers a question.  `questions` has the scopes of those that are
    known to be asked by this call.

    Raises: RequestTimeout and ConnectionLost, at the end of the block.
    """

    def __init__(
        self, method: str, idle: float | None = None, total: float | None = None, *, nested: bool = False
    ) -> None:
        self.method = method
        self.questions: set[anyio.CancelScope] = set()
        self.nested = nested
        self._idle = idle if idle is not None else math.inf
        self._total = total if total is not None else math.inf
        self._held = 0
        self._lost: Exception | None = None
        self._scope = anyio.CancelScope()

    def restart(self) -> None:
        """A sign of life: the idle clock starts again."""
        idle = math.inf if self._held else anyio.current_time() + self._idle
        self._scope.deadline = min(self._end, idle)

    def hold(self) -> None:
        """A question is asked: the idle clock stands still."""
        self._held += 1
        self.restart()

    def resume(self) -> None:
        """It was answered: the idle clock starts again if it was the last."""
        self._held -= 1
        self.restart()

    def lose(self, error: Exception) -> None:
        """The connection has ended: so does the call, wherever it is."""
        self._lost = error
        self._scope.cancel()

    def withdraw(self) -> None:
        """The call is given up: so are the questions that it asks."""
        for scope in self.questions:
            scope.cancel()

    def __enter__(self) -> Call:
        self._end = anyio.current_time() + self._total
        self.restart()
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__exit__(kind, error, trace)
        if not self._scope.cancelled_caught:
            return
        if self._lost is not None:
            raise ConnectionLost(str(self._lost)) from self._lost
        clock, limit = ("total", self._total) if self._scope.deadline >= self._end else ("idle", self._idle)
        raise RequestTimeout(f"no response to {self.method} in time ({clock} limit of {limit:g} s)", clock) from None
