"""JournaledInputs: questions as multi round-trip requests (basic/patterns/mrtr).

How it works: the journal holds the answers so far. An ask whose entry is answered gives that answer. An ask whose entry
is open ends the round: the inputs are suspended from then on, whatever the handler does, and dispatch sends the open
questions and the sealed journal to the client. The client calls again, and the handler runs from the top.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import anyio
import msgspec

from ..errors import INVALID_PARAMS, AskTimeout, JournalMismatch, RemoteProtocolError
from ..nursery import Nursery
from ..protocol.journal import END, STEP, Entry, Journal, Status
from ..protocol.methods import METHODS
from ..protocol.types.mrtr import InputRequest
from .asks import Ask
from .exchange import Exchange
from .inputs import Inputs
from .question import Question, Suspend, Where

T = TypeVar("T")


class JournaledInputs(Inputs):
    """One round of one call.

    journal: what earlier rounds recorded.  round: from 1.  suspended: the round ends with questions.
    """

    def __init__(
        self,
        exchange: Exchange,
        nursery: Nursery,
        call_id: str,
        threaded: bool = False,
        journal: Journal | None = None,
        round: int = 1,
        clock: Callable[[], float] = time.time,
    ):
        super().__init__(exchange, nursery, call_id, threaded)
        self.journal = journal if journal is not None else Journal()
        self.round = round
        self.started = clock()
        self.failure: JournalMismatch | None = None
        self._clock = clock
        self._requests: dict[str, InputRequest] = {}
        self._frontier = self.journal.frontier

    @property
    def replaying(self) -> bool:  # type: ignore[override]
        """True until the question is answered that the last round stopped at: the handler repeats itself so far."""
        return self._frontier is not None

    @property
    def stopped_at(self) -> Where:
        """The author's line that asks what the round stopped at."""
        return self._at.get(self.journal.frontier or "", ("?", 0))

    @property
    def requests(self) -> dict[str, InputRequest]:
        """The questions to send, in the order in which they were asked."""
        return {entry.key: self._requests[entry.key] for entry in self.journal.open_questions}

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Record what the client sent. Unknown keys are ignored.

        Raises: RemoteProtocolError (-32602) for an answer that has not the shape of an answer to its question.
        """
        for key, raw in responses.items():
            entry = self.journal.entries.get(key)
            if entry is None or entry.status is not Status.OPEN or entry.kind == STEP:
                continue
            try:
                msgspec.json.decode(raw, type=METHODS[entry.kind].result)
            except (msgspec.DecodeError, RecursionError) as error:
                raise RemoteProtocolError(
                    INVALID_PARAMS, f"inputResponses[{key!r}] is no answer to {entry.kind}: {error}"
                ) from error
            late = entry.deadline is not None and self._clock() > entry.deadline
            self.journal.fill({key: raw})
            if late:
                entry.status = Status.FAILED

    def check(self, key: str | None = None) -> None:
        if self.failure is not None:
            raise self.failure
        if self.suspended:
            raise Suspend
        super().check(key)

    def _put(self, ask: Ask[Any], key: str | None, timeout: float | None) -> Entry:
        entry = self._place(ask.method, ask.text, ask.digest, key)
        if entry.status is Status.OPEN:
            params = ask.params(self.exchange.version, f"{self.call_id}-{entry.key}")
            self._requests[entry.key] = InputRequest(ask.method, params)
            if timeout is not None and entry.deadline is None:
                entry.deadline = self._clock() + timeout
        return entry

    def _place(self, kind: str, text: str, digest: str, key: str | None) -> Entry:
        try:
            entry = self.journal.place(kind, text, digest, key)
        except JournalMismatch as mismatch:
            self.failure = mismatch
            raise
        if self._frontier is not None and self.journal.frontier is None:
            self._frontier = None  # what the last round stopped at is asked no more
        return entry

    def _entry(self, name: str, key: str | None) -> Entry:
        return self._place(STEP, name, "", key)

    def _key(self, ticket: Entry) -> str:
        return ticket.key

    async def _fetch(self, ask: Ask[Any], ticket: Entry) -> Any:
        if ticket.status is Status.OPEN:
            if ticket.named:
                await anyio.lowlevel.checkpoint()  # sibling tasks may have questions for the same round
            self._suspend(ticket.key)
        if ticket.key == self._frontier:
            self._frontier = None
        if ticket.status is Status.FAILED:
            raise AskTimeout(f"the answer to {ask.method} came too late")
        return ticket.value

    def _suspend(self, frontier: str) -> NoReturn:
        if not self.suspended:
            self.suspended = True
            self.journal.frontier = frontier
        raise Suspend

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        """Asked again in an earlier round means that the answer was not final then; else look now."""
        return next_key not in self.journal.entries and await ask.settled(answer)

    async def _settle(self, question: Question[Any]) -> None:
        """Nothing to wait for: the round ends with it."""

    async def settle(self) -> None:
        await super().settle()
        if self.journal.open_questions and not self.suspended:
            self.suspended = True
            self.journal.frontier = END

    def _broken(self, error: Exception) -> Exception:
        return RemoteProtocolError(INVALID_PARAMS, f"the client's answer is malformed: {error}")
