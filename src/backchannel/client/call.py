"""One call of the client's caller, over all its rounds: its two clocks, and its end if the connection ends first.

How it works: a call has one cancel scope. The scope has no deadline of its own, for moving one costs more than most
signs of life are worth: on asyncio there is one timer, which looks when it goes off whether the call is due by now, and
if not is set again. A call that is `lazy` has neither before it waits: what is answered without a wait cannot be cut
off.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..errors import ConnectionFailed, ConnectionLost, OutcomeUnknown, RequestTimeout

if TYPE_CHECKING:
    from .pending import Pending

E = TypeVar("E", bound=ConnectionFailed | ConnectionLost | RequestTimeout)

_current: ContextVar[weakref.ref[Call] | None] = ContextVar("current", default=None)
"""The innermost call that is in flight here. Contexts live on in callbacks, of connections say, which must not hold
it."""


def current() -> Call | None:
    """The innermost call that is in flight here."""
    found = _current.get()
    return found() if found is not None else None


class Call:
    """A context manager around all that a call does, which is cut off when a clock runs out or the connection is lost.

    method: what is called.  idle: seconds without a sign of life; this clock stands still while the server's questions
    are answered, and starts again with each round and on progress.  total: seconds for everything; it never stands
    still.  nested: the call is made by a handler that answers a question.  by_hand: its caller answers what is asked.
    among: the calls in flight, of which it is one until the end of the block.  new_scope: makes its scope.  lazy: what
    waits in the block calls `begin` before that.  `questions` has the scopes of those that are known to be asked by
    this call; they are withdrawn where the block fails.

    `pending` is the call as it stands, for the exceptions that leave it.  `asked`: a reverse call has come while it was
    in flight.  `at_risk`: a request is out that may not run twice.

    Raises: RequestTimeout, ConnectionLost and OutcomeUnknown, at the end of the block.
    """

    def __init__(
        self,
        method: str,
        idle: float | None = None,
        total: float | None = None,
        *,
        nested: bool = False,
        by_hand: bool = False,
        among: set[Call] | None = None,
        new_scope: Callable[[], anyio.CancelScope] = anyio.CancelScope,
        lazy: bool = False,
    ) -> None:
        self.method = method
        self.questions: set[anyio.CancelScope] = set()
        self.nested, self.by_hand = nested, by_hand
        self.pending: Pending[Any] | None = None
        self.asked = self.at_risk = False
        self.idle = idle if idle is not None else math.inf
        self._total = total if total is not None else math.inf
        self._among = among
        self._held = 0
        self._lost: Exception | None = None
        self._new_scope, self._lazy = new_scope, lazy
        self._scope: anyio.CancelScope | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._active = False

    def restart(self) -> None:
        """A sign of life: the idle clock starts again."""
        if self._active:
            self._set(math.inf if self._held else self._now() + self.idle)

    def _set(self, due: float) -> None:
        """The idle clock runs out then."""
        self._due = due = min(self._end, due)
        if self._loop is None:
            assert self._scope is not None
            self._scope.deadline = due
        elif due != math.inf and (self._timer is None or due < self._timer.when()):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._ring)

    def _now(self) -> float:
        return anyio.current_time() if self._loop is None else self._loop.time()

    def _ring(self) -> None:
        self._timer = None
        if self._now() >= self._due:
            assert self._scope is not None
            self._scope.cancel("the call is overdue")
        else:
            self._set(self._due)

    def hold(self) -> None:
        """The server is not waited for, say because a question is asked: the idle clock stands still."""
        self._held += 1
        self.restart()

    def resume(self) -> None:
        """That is over: the idle clock starts again if it was the last."""
        self._held -= 1
        self.restart()

    @contextmanager
    def held(self) -> Iterator[None]:
        """For the time of the block, the idle clock stands still."""
        self.begin()
        self.hold()
        try:
            yield
        finally:
            self.resume()

    def lose(self, error: Exception) -> None:
        """The connection has ended: so does the call, wherever it is."""
        self._lost = error
        if self._scope is not None:
            self._scope.cancel()

    def withdraw(self) -> None:
        """The call is given up: so are the questions that it asks."""
        for scope in self.questions:
            scope.cancel()

    def begin(self) -> None:
        """From now on it may wait: it is in flight, and can be cut off. Only what the block awaits itself calls it."""
        if self._active:
            return
        self._loop: asyncio.AbstractEventLoop | None
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:  # of trio, whose scopes have deadlines that cost little
            self._loop = None
        now = self._loop.time() if self._loop is not None else anyio.current_time()
        self._active, self._end = True, now + self._total
        self._scope = self._new_scope()
        self._set(now + self.idle)
        self._scope.__enter__()
        self._outer = _current.get()
        _current.set(weakref.ref(self))
        if self._among is not None:
            self._among.add(self)

    def __enter__(self) -> Call:
        if not self._lazy:
            self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._active = None, False
            assert self._scope is not None
            self._scope.__exit__(kind, error, trace)
            _current.set(self._outer)
            if self._among is not None:
                self._among.discard(self)
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """The block has failed: with `error`, or because it was cut off."""
        self.withdraw()
        if isinstance(error, ConnectionFailed | ConnectionLost):
            self._carry(error)
        if self._scope is None or not self._scope.cancelled_caught:
            return
        if self._lost is not None:
            lost = self.unknown(self._lost) if self.at_risk else ConnectionLost(str(self._lost))
            raise self._carry(lost) from self._lost
        clock, limit = ("total", self._total) if self._due >= self._end else ("idle", self.idle)
        text = f"no response to {self.method} in time ({clock} limit of {limit:g} s)"
        raise self._carry(RequestTimeout(text, clock)) from None

    def _carry(self, error: E) -> E:
        """The exception, with the call as it stands; what a call that a handler has made says of itself stays."""
        if error.pending is None:
            error.pending = self.pending
        return error

    def unknown(self, cause: Exception) -> OutcomeUnknown:
        """The error for the loss of a request that may not run twice."""
        again = "`client.resume(error.pending)` sends it again, with the answers that were given"
        return OutcomeUnknown(f"whether {self.method} ran is not known; {again}: {cause}")
