"""What a call has told its client: so that a handler that runs again tells nothing twice.

How it works: progress is new if it is higher than before, a log message if the line that sends it has sent more of them
than before. Where tasks of a handler share a line, they are told apart by the last question with a key that each of
them has the answer to. So it does not matter in which order they run in another round, nor which questions were
answered first.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from contextvars import ContextVar

import msgspec

from ..protocol.journal import Entry, Journal, Status
from .exchange import Exchange
from .question import Where

_KEY = "\ntold"
"""The key of the journal's entry. No key of a question is like it."""
_lane: ContextVar[tuple[object, str]] = ContextVar("lane", default=(None, ""))
"""The key of the last question with a key that was answered, and in which round."""


def was_told(journal: Journal) -> bool:
    """Whether a call has told something in earlier rounds."""
    return _KEY in journal.entries


class _Recorded(msgspec.Struct, array_like=True):
    progress: float | None
    lines: dict[str, int]


class Told:
    """Progress up to a value, and log messages by the line that sent them, of all rounds of a call."""

    def __init__(self, exchange: Exchange, journal: Journal):
        self._exchange, self._journal = exchange, journal
        self._lines: Counter[str] = Counter()
        self._round = object()
        recorded = journal.entries.get(_KEY)
        before = msgspec.json.decode(recorded.value, type=_Recorded) if recorded is not None else _Recorded(None, {})
        self._before = before.lines
        if before.progress is not None:
            exchange.progress = before.progress

    def has_answer(self, key: str) -> None:
        """The task that runs goes on with the answer to the question of this key."""
        _lane.set((self._round, key))

    def is_new(self, where: Where) -> bool:
        """Whether the message that the line `where` sends now was not sent in an earlier round."""
        round, key = _lane.get()
        line = f"{os.path.basename(where[0])}:{where[1]} {key if round is self._round else ''}"
        self._lines[line] += 1
        return self._lines[line] > self._before.get(line, 0)

    def record(self) -> None:
        """Put it into the journal."""
        progress, lines = self._exchange.progress, Counter(self._before) | self._lines
        if lines or progress > -math.inf:
            told = _Recorded(progress if progress > -math.inf else None, lines)
            value = msgspec.Raw(msgspec.json.encode(told))
            self._journal.entries[_KEY] = Entry(_KEY, "told", "", "", True, Status.DONE, value)
