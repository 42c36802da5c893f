"""The recorded answers and steps of one call, in order: what makes a handler that runs from the top on each round see
the same again.

How it works: each ask and each step takes a place when it is called. Without a key the place is its ordinal among
those without a key; with one, the key is the place. On a later round the entry that was recorded at that place is
compared with what is asked now. What was answered or finished must match; what is still open is replaced by what is
asked now, under a new key, so that a late answer to the old question is not taken for one to the new.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import msgspec

from ..errors import JournalMismatch

STEP = "step"
"""The kind of a step. Questions have the name of their method as kind."""


class Status(enum.IntEnum):
    """What is known of an entry."""

    OPEN = 0
    DONE = 1
    FAILED = 2


class Entry(msgspec.Struct, array_like=True, omit_defaults=True):
    """One place.

    kind: STEP or the method of a question.  text: the question's text or the step's name.  digest: of the schema.
    value: the answer, the step's value, or for a failed step its type name and message.  deadline: seconds since the
    epoch, after which an answer comes too late.
    """

    key: str
    kind: str
    text: str
    digest: str
    named: bool = False
    status: Status = Status.OPEN
    value: msgspec.Raw = msgspec.Raw(b"null")
    deadline: float | None = None


class _Sealed(msgspec.Struct, array_like=True):
    entries: list[Entry]


_decoder = msgspec.json.Decoder(_Sealed)
_PREFIX = {"elicitation/create": "elicit", "sampling/createMessage": "sample", "roots/list": "roots", STEP: STEP}


class Journal:
    """The entries of one call. Empty in the first round."""

    def __init__(self, entries: Iterable[Entry] = ()):
        self.entries = {entry.key: entry for entry in entries}
        self._places = [entry.key for entry in self.entries.values() if not entry.named]
        self._taken: dict[str, Entry] = {}
        self._cursor = 0

    @classmethod
    def load(cls, data: bytes) -> Journal:
        """The journal of the round before. Raises: msgspec.DecodeError."""
        return cls(_decoder.decode(data).entries)

    def dump(self) -> bytes:
        """The journal as JSON, to be sealed: what has a place by its ordinal, in order, then what has a key. Entries
        that this round did not come to are kept: it may have been cut short, and what was answered stays answered."""
        placed = {key: self.entries[key] for key in self._places}
        others = [entry for key, entry in self.entries.items() if key not in placed]
        return msgspec.json.encode(_Sealed([*placed.values(), *others]))

    def place(self, kind: str, text: str, digest: str = "", key: str | None = None) -> Entry:
        """Take the next place, or the place `key`, and return the entry there.

        Raises: JournalMismatch if another question or step is recorded there with an answer or a value.
        ValueError if `key` was taken before in this round, or is one that was given to a question without a key.
        """
        if key is None:
            entry = self._next(kind, text, digest)
        else:
            entry = self._named(key, kind, text, digest)
        self.entries[entry.key] = self._taken[entry.key] = entry
        return entry

    def _next(self, kind: str, text: str, digest: str) -> Entry:
        ordinal = self._cursor
        recorded = self.entries[self._places[ordinal]] if ordinal < len(self._places) else None
        if recorded is not None and self._stays(recorded, kind, text, digest):
            self._cursor += 1
            return recorded
        key = f"{_PREFIX.get(kind, kind)}-{ordinal + 1}"
        if recorded is not None:
            del self.entries[recorded.key]
            key += "_" * (len(recorded.key) - len(recorded.key.rstrip("_")) + 1)
        while key in self.entries:
            key += "_"
        self._places[ordinal : ordinal + 1] = [key]
        self._cursor += 1
        return Entry(key, kind, text, digest)

    def _named(self, key: str, kind: str, text: str, digest: str) -> Entry:
        recorded = self.entries.get(key)
        if key in self._taken or (recorded is not None and not recorded.named):
            raise ValueError(f"the key {key!r} is used twice in one call")
        if recorded is not None and self._stays(recorded, kind, text, digest):
            return recorded
        return Entry(key, kind, text, digest, named=True)

    def _stays(self, recorded: Entry, kind: str, text: str, digest: str) -> bool:
        """Whether `recorded` is what is asked now; if not, and it is still open, it goes. Raises: JournalMismatch."""
        if recorded.kind == kind and recorded.digest == digest and (recorded.named or recorded.text == text):
            return True
        if recorded.status is not Status.OPEN:
            raise _mismatch(recorded, kind, text)
        return False

    @property
    def open_questions(self) -> list[Entry]:
        """The questions of this round that have no answer, in the order in which they were asked."""
        return [entry for entry in self._taken.values() if entry.status is Status.OPEN and entry.kind != STEP]

    def fill(self, responses: dict[str, Any]) -> None:
        """Record answers. Only open questions take one; unknown keys are ignored."""
        for key, value in responses.items():
            entry = self.entries.get(key)
            if entry is not None and entry.status is Status.OPEN and entry.kind != STEP:
                entry.value, entry.status = value, Status.DONE


def _mismatch(recorded: Entry, kind: str, text: str) -> JournalMismatch:
    before, now = _describe(recorded.kind, recorded.text), _describe(kind, text)
    if now == before:
        now += " with another schema"
    return JournalMismatch(
        f"the handler took another way than before: {before} was recorded at this place, and now it is {now}. "
        "Make the code before a question deterministic: record what changes with ctx.step, or give the question a key.",
        before,
        now,
    )


def _describe(kind: str, text: str) -> str:
    short = text if len(text) <= 200 else text[:200] + "…"
    return f"{_PREFIX.get(kind, kind)} {short!r}"
