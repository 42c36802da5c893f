"""StandingInputs: questions of work that outlives its call, on the session's standing channel (2025-11-25
basic/transports, Listening for Messages from the Server)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..errors import SessionClosed
from ..nursery import Nursery
from ..protocol.journal import STEP, Entry
from ..protocol.lifecycle import State
from .direct import DirectInputs
from .exchange import Exchange
from .question import Question, Where
from .steps import StepRun


class StandingInputs(DirectInputs):
    """Asks for as long as the session lasts, from any task. Nothing is recorded: no round comes after it."""

    def __init__(self, exchange: Exchange, nursery: Nursery, timeout: float | None, call_id: str):
        super().__init__(exchange, nursery, True, timeout, call_id=call_id)
        self._numbers = itertools.count(1)

    def detach(self) -> StandingInputs:
        return self

    def live(self) -> None:
        """Raises: SessionClosed once the session has ended."""
        if self._session.state is State.CLOSED:
            raise SessionClosed("the session of this context has ended; nobody can be asked or told any more")

    def _place(self, kind: str, text: str, digest: str, key: str | None) -> Entry:
        return Entry(f"{key or kind}-{next(self._numbers)}", kind, text, digest)

    def _run(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str | None,
        digest: str = "",
    ) -> StepRun:
        run = StepRun(Entry(name, STEP, name, digest), function, args, kwargs)
        self._nursery.start(run.run)
        return run

    def _made(self, answer: Callable[[], Any], withdraw: Callable[[], None], where: Where) -> Question[Any]:
        return Question(answer, withdraw, where)
