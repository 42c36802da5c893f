"""The recorded answers and steps of one call, in order: what makes a handler that runs from the top on each round see
the same again.

How it works: each ask and each step takes a place when it is called. Without a key the place is its ordinal among
those without a key; with one, the key is the place. On a later round the entry that was recorded at that place is
compared with what is asked now. What was answered or finished must match; what is still open is replaced by what is
asked now, under a new key, so that a late answer to the old question is not taken for one to the new.

A question that a handler returns is not one that it waits for: its entry is explicit. Nothing is compared with it, its
key is the handler's own choice, and the client may answer it again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import msgspec

from ..errors import JournalMismatch

NULL = msgspec.Raw(b"null")
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
    value: the answer, or the step's value; what failed has its failure: a step the type name and message, a question
    code, message and data of the client's error, or null if nobody answered in time.  deadline: seconds since the
    epoch, after which an answer comes too late.  explicit: returned by the handler, not waited for.
    """

    key: str
    kind: str
    text: str
    digest: str
    named: bool = False
    status: Status = Status.OPEN
    value: msgspec.Raw = NULL
    deadline: float | None = None
    explicit: bool = False


class _Sealed(msgspec.Struct, array_like=True, omit_defaults=True):
    entries: list[Entry]
    state: msgspec.Raw = NULL


_decoder = msgspec.json.Decoder(_Sealed)
_encode = msgspec.json.Encoder().encode
_PREFIX = {"elicitation/create": "elicit", "sampling/createMessage": "sample", "roots/list": "roots", STEP: STEP}


class Journal:
    """The entries of one call. Empty in the first round.

    state: the JSON that the handler keeps for its next rounds.
    """

    def __init__(self, entries: Iterable[Entry] = (), state: msgspec.Raw = NULL):
        self.entries: dict[str, Entry] = {}
        self.state = state
        self._places: list[str] = []
        self._taken: dict[str, Entry] = {}
        self._cursor = 0
        for entry in entries:
            self.entries[entry.key] = entry
            if not entry.named:
                self._places.append(entry.key)

    @classmethod
    def load(cls, data: bytes) -> Journal:
        """The journal of the round before. Raises: msgspec.DecodeError."""
        sealed = _decoder.decode(data)
        return cls(sealed.entries, sealed.state)

    def dump(self) -> bytes:
        """The journal as JSON, to be sealed: what has a place by its ordinal, in order, then what has a key. Entries
        that this round did not come to are kept: it may have been cut short, and what was answered stays answered."""
        entries = list(map(self.entries.__getitem__, self._places))
        if len(entries) < len(self.entries):
            placed = set(self._places)
            entries += [entry for key, entry in self.entries.items() if key not in placed]
        return _encode(_Sealed(entries, self.state))

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

    def require(self, key: str, kind: str, text: str, digest: str) -> Entry:
        """Open the explicit entry `key`: the handler returns this question, also if it had an answer before.

        Raises: ValueError if `key` is taken by a question or a step that the handler waits for.
        """
        recorded = self.entries.get(key)
        if key in self._taken or (recorded is not None and not recorded.explicit):
            raise _twice(key)
        entry = Entry(key, kind, text, digest, named=True, explicit=True)
        self.entries[key] = self._taken[key] = entry
        return entry

    def adopt(self, key: str, kind: str, value: msgspec.Raw) -> None:
        """Keep an answer that nobody asked for, as if it was asked for, unless the key means something else."""
        if key not in self.entries:
            self.entries[key] = Entry(key, kind, "", "", True, Status.DONE, value, explicit=True)

    def _next(self, kind: str, text: str, digest: str) -> Entry:
        ordinal = self._cursor
        key = f"{_PREFIX.get(kind, kind)}-{ordinal + 1}"
        if ordinal < len(self._places):
            recorded = self.entries[self._places[ordinal]]
            if self._stays(recorded, kind, text, digest):
                self._cursor += 1
                return recorded
            del self.entries[recorded.key]
            key += "_" * (len(recorded.key) - len(recorded.key.rstrip("_")) + 1)
        while key in self.entries:
            key += "_"
        self._places[ordinal : ordinal + 1] = [key]
        self._cursor += 1
        return Entry(key, kind, text, digest)

    def _named(self, key: str, kind: str, text: str, digest: str) -> Entry:
        recorded = self.entries.get(key)
        if key in self._taken or (recorded is not None and (not recorded.named or recorded.explicit)):
            raise _twice(key)
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
        """Record answers. Only open and explicit questions take one; unknown keys are ignored."""
        for key, value in responses.items():
            entry = self.entries.get(key)
            if entry is not None and _takes_answer(entry):
                entry.value, entry.status = value, Status.DONE

    @property
    def fillable(self) -> list[Entry]:
        """What an answer counts for."""
        return list(filter(_takes_answer, self.entries.values()))

    @property
    def answers(self) -> dict[str, Entry]:
        """The explicit questions that have an answer."""
        return {key: entry for key, entry in self.entries.items() if entry.explicit and entry.status is Status.DONE}


def _takes_answer(entry: Entry) -> bool:
    return entry.kind != STEP and (entry.status is Status.OPEN or entry.explicit)


def _twice(key: str) -> ValueError:
    return ValueError(f"the key {key!r} is used twice in one call")


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
