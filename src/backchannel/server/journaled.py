"""JournaledInputs: questions as multi round-trip requests (basic/patterns/mrtr).

How it works: the journal holds the answers so far. An ask whose entry is answered gives that answer. An ask whose entry
is open ends the round: the inputs are suspended from then on, whatever the handler does, and dispatch sends the open
questions and the sealed journal to the client. The client calls again, and the handler runs from the top. It repeats
itself then, but the client hears nothing twice: the journal also has what was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import msgspec

from ..protocol.journal import NULL, STEP, Entry, Status
from ..protocol.methods import METHODS
from .asks import Ask
from .explicit import no_answer
from .inputs import Inputs
from .lookout import ROUND, completed, settled
from .question import Question, Where, suspend

T = TypeVar("T")


class JournaledInputs(Inputs):
    """One round of one call.

    asking: where the server itself asks what the round ends with, says whether it can.

    stopped_at: the author's line that the round ended at.
    """

    asking: Callable[[], None] | None = None
    stopped_at: Where = ("?", 0)

    def answer(self, responses: dict[str, Any]) -> None:
        """Record what the client sent. Unknown keys are ignored, and what is missing stays open until its deadline.

        Raises: LocalProtocolError (-32602) for an answer that has not the shape of an answer to its question.
        """
        waiting = self.journal.fillable
        for entry in waiting:
            if entry.key in responses:
                self._check_shape(entry, responses[entry.key])
        self.journal.fill(responses)
        for entry in waiting:
            if entry.deadline is not None and self._clock() > entry.deadline:
                entry.status, entry.value = Status.FAILED, NULL

    def _check_shape(self, entry: Entry, raw: Any) -> None:
        try:
            msgspec.json.decode(raw, type=METHODS[entry.kind].result)
        except (msgspec.DecodeError, RecursionError) as error:
            self.exchange.unused = True
            raise no_answer(entry.key, entry.kind, error) from error

    def _open(self, ask: Ask[Any], entry: Entry, timeout: float | None, where: Where) -> None:
        if self.asking is not None:
            self.asking()
        self._keep(ask, entry, where)
        if timeout is not None and entry.deadline is None:
            entry.deadline = self._clock() + timeout

    async def _wait(self, ask: Ask[Any], entry: Entry) -> None:
        try:  # other tasks may have questions for the same round; twice, for what cancels this one, and trio shuffles
            if isinstance(self._task, asyncio.Task):
                await _TURNS
            else:
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            self._withdraw(entry)
            raise
        if not self.suspended:
            self.suspended = True
            self.stopped_at = self._requests[entry.key][1]
        suspend(self._task)

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        """What an earlier round found is recorded: the question asked again, or a finished step that says so. A client
        that waits for the call anyway is not asked again."""
        recorded = self.journal.entries.get(next_key)
        if recorded is not None:
            return recorded.kind == STEP
        if not self.exchange.version.is_modern:
            await completed(self.exchange, ask, answer, f"{self.call_id}-{next_key.rpartition('~')[0]}")
        elif not await settled(self.exchange, ask, answer, ROUND):
            self.suspended = True
            suspend(self._task)
        self.journal.entries[next_key] = Entry(next_key, STEP, "settled", "", True, Status.DONE)
        return True

    def _withdraw(self, entry: Entry) -> None:
        if not self.suspended:
            self._requests.pop(entry.key, None)

    async def _settle(self, question: Question[Any]) -> None:
        """Nothing to wait for: the round ends with it."""


class _Turns:
    """Two turns of asyncio's event loop. That is what two of anyio's checkpoints come to there."""

    def __await__(self) -> Iterator[None]:
        return iter((None, None))


_TURNS: Any = _Turns()
