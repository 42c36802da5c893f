"""JournaledInputs: questions as multi round-trip requests (basic/patterns/mrtr).

How it works: the journal holds the answers so far. An ask whose entry is answered gives that answer. An ask whose entry
is open ends the round: the inputs are suspended from then on, whatever the handler does, and dispatch sends the open
questions and the sealed journal to the client. The client calls again, and the handler runs from the top.

It repeats itself then, but the client hears nothing twice: the journal also has what was told. Progress is new if it is
higher than before, a log message if the line that sends it has sent more of them than before. Where tasks of a handler
share a line, they are told apart by the last question with a key that each of them has the answer to. So it does not
matter in which order they run in another round, nor which questions were answered first.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import anyio.lowlevel
import msgspec

from ..errors import INVALID_PARAMS, AskTimeout, JournalMismatch, LocalProtocolError
from ..nursery import Nursery
from ..protocol.journal import STEP, Entry, Journal, Status
from ..protocol.methods import METHODS
from ..protocol.types.mrtr import InputRequest
from .asks import Ask
from .exchange import Exchange
from .inputs import Inputs
from .question import Question, Suspend, Where

T = TypeVar("T")
_TOLD = "\ntold"
"""The key of the entry for what was told. No key of a question is like it."""
_lane: ContextVar[str] = ContextVar("lane", default="")  # the key of the last question with a key that was answered
_BRIEF = 180  # characters of a question's text that the journal keeps


class _Told(msgspec.Struct, array_like=True):
    """What the client was told: progress up to a value, log messages by the line that sent them."""

    progress: float | None
    lines: dict[str, int]


class JournaledInputs(Inputs):
    """One round of one call.

    journal: what earlier rounds recorded.  round: from 1.  stopped_at: the author's line that the round ended at.
    """

    def __init__(
        self,
        exchange: Exchange,
        nursery: Nursery,
        threaded: bool = False,
        call_id: str = "",
        journal: Journal | None = None,
        round: int = 1,
        clock: Callable[[], float] = time.time,
    ):
        super().__init__(exchange, nursery, threaded, call_id)
        self.journal = journal if journal is not None else self.journal
        self.round = round
        self.started = clock()
        self.stopped_at: Where = ("?", 0)
        self._clock = clock
        self._requests: dict[str, tuple[InputRequest, Where, Ask[Any]]] = {}
        self._lines: Counter[str] = Counter()
        _lane.set("")
        told = self.journal.entries.get(_TOLD)
        self._told = msgspec.json.decode(told.value, type=_Told) if told is not None else _Told(None, {})
        if self._told.progress is not None:
            exchange.progress = self._told.progress

    @property
    def requests(self) -> dict[str, InputRequest]:
        """The questions to send, in the order in which they were first asked."""
        return {key: self._requests[key][0] for key in self._asked()}

    @property
    def asks(self) -> dict[str, Ask[Any]]:
        """The same, as they were asked."""
        return {key: self._requests[key][2] for key in self._asked()}

    def _asked(self) -> list[str]:
        return [entry.key for entry in self.journal.open_questions if entry.key in self._requests]

    def answer(self, responses: dict[str, Any]) -> None:
        """Record what the client sent. Unknown keys are ignored, and what is missing stays open until its deadline.

        Raises: LocalProtocolError (-32602) for an answer that has not the shape of an answer to its question.
        """
        entries = self.journal.entries
        waiting = [entry for entry in entries.values() if entry.status is Status.OPEN and entry.kind != STEP]
        for entry in waiting:
            if entry.key in responses:
                _check_shape(entry, responses[entry.key])
        self.journal.fill(responses)
        for entry in waiting:
            if entry.deadline is not None and self._clock() > entry.deadline:
                entry.status = Status.FAILED

    def dump(self) -> bytes:
        """The journal as JSON, to be sealed."""
        progress, lines = self.exchange.progress, Counter(self._told.lines) | self._lines
        if lines or progress > -math.inf:
            told = _Told(progress if progress > -math.inf else None, lines)
            value = msgspec.Raw(msgspec.json.encode(told))
            self.journal.entries[_TOLD] = Entry(_TOLD, "told", "", "", True, Status.DONE, value)
        return self.journal.dump()

    def is_new(self, where: Where) -> bool:
        line = f"{os.path.basename(where[0])}:{where[1]} {_lane.get()}"
        self._lines[line] += 1
        return self._lines[line] > self._told.lines.get(line, 0)

    def _put(self, ask: Ask[Any], key: str | None, timeout: float | None, where: Where) -> Entry:
        entry = self._place(ask.method, _brief(ask.text), ask.digest, key)
        if entry.status is Status.OPEN:
            params = ask.params(self.exchange.version, f"{self.call_id}-{entry.key}")
            self._requests[entry.key] = InputRequest(ask.method, params), where, ask
            if timeout is not None and entry.deadline is None:
                entry.deadline = self._clock() + timeout
        return entry

    def _place(self, kind: str, text: str, digest: str, key: str | None) -> Entry:
        try:
            return super()._place(kind, text, digest, key)
        except JournalMismatch as mismatch:
            self.failure = mismatch
            raise

    async def _fetch(self, ask: Ask[Any], ticket: Entry) -> Any:
        if ticket.status is Status.OPEN:
            for _ in range(2):  # other tasks may have questions for the same round; twice, for trio shuffles
                await anyio.lowlevel.checkpoint()
            if not self.suspended:
                self.suspended = True
                self.stopped_at = self._requests[ticket.key][1]
            raise Suspend
        if ticket.named:
            _lane.set(ticket.key)
        if ticket.status is Status.FAILED:
            raise AskTimeout(f"the client did not answer {ask.method} in time")
        return ticket.value

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        """What an earlier round found is recorded: the question asked again, or a finished step that says so."""
        recorded = self.journal.entries.get(next_key)
        if recorded is None and await ask.settled(answer):
            recorded = Entry(next_key, STEP, "settled", "", True, Status.DONE)
            self.journal.entries[next_key] = recorded
        return recorded is not None and recorded.kind == STEP

    def _withdraw(self, ticket: Entry) -> None:
        if not self.suspended:
            self._requests.pop(ticket.key, None)

    async def _settle(self, question: Question[Any]) -> None:
        """Nothing to wait for: the round ends with it."""

    async def settle(self) -> None:
        await super().settle()
        self.suspended = self.suspended or bool(self.requests)


def _check_shape(entry: Entry, raw: Any) -> None:
    try:
        msgspec.json.decode(raw, type=METHODS[entry.kind].result)
    except (msgspec.DecodeError, RecursionError) as error:
        text = f"Invalid params: inputResponses[{entry.key!r}] is no answer to {entry.kind}: {error}"
        raise LocalProtocolError(INVALID_PARAMS, text) from error


def _brief(text: str) -> str:
    """What the journal keeps of a question's text to compare it by: of a long one the beginning, and a digest."""
    if len(text) <= _BRIEF:
        return text
    return f"{text[:_BRIEF]} {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
