"""The explicit style: a handler returns its questions instead of waiting for them, and reads the answers in its next
round (basic/patterns/mrtr, InputRequiredResult)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from ..errors import INVALID_PARAMS, JournalMismatch, LocalProtocolError
from ..protocol.journal import Journal
from ..protocol.types.elicitation import ElicitResult
from .asks import Ask, Roots, Sample
from .outcomes import Outcome, outcome
from .results import json_of

T = TypeVar("T")


class InputRequired:
    """What a handler returns to ask: questions by key, and what it wants to know again in its next round.

    The keys are on the wire as they are. state: anything with a JSON form; it comes back as plain dicts and lists in
    `ctx.state`. On the stateless protocol it travels sealed with the client. With a session the server asks by reverse
    calls, and enters the handler again.

    Raises: ValueError with neither question nor state, or for a state that JSON cannot carry; TypeError for what is no
    question.
    """

    __slots__ = ("questions", "state")

    def __init__(self, questions: Mapping[str, Ask[Any]] | None = None, *, state: Any = None):
        if questions is not None and not isinstance(questions, Mapping):
            raise TypeError(f'InputRequired takes questions by key, such as {{"size": Elicit(...)}}, not {questions!r}')
        self.questions = dict(questions or {})
        self.state = msgspec.Raw(json_of(state).encode())
        if not self.questions and state is None:
            raise ValueError("InputRequired takes questions, a state, or both: with neither the call cannot go on")
        for key, ask in self.questions.items():
            if not isinstance(ask, Ask):
                raise TypeError(f"InputRequired takes Elicit, Sample, Roots under the key {key!r}, not {ask!r}")
            if not isinstance(key, str):
                raise TypeError(f"a key is a text, not {key!r}")


class Answers(Mapping[str, Any]):
    """The answers to the questions that a handler returned, by key, from all rounds. A client may answer again, and the
    latest answer counts.

    `read` checks an answer against its question. `answers[key]` is what the client sent: Accepted with its content as
    it is on the wire, Declined or Cancelled; a sampled message; or roots.

    loose: answers that came without a requestState of this server. They are what the client says, as arguments are.
    reads: reads an answer to a question.
    """

    def __init__(
        self,
        journal: Journal,
        loose: Mapping[str, msgspec.Raw],
        reads: Callable[[Ask[Any], msgspec.Raw], Any] = lambda ask, raw: ask.read(raw),
    ):
        self._journal = journal
        self._loose = loose
        self._reads = reads

    def read(self, key: str, ask: Ask[T]) -> T | None:
        """The answer to `ask`, or None if there is none.

        Raises: InvalidAnswer if it breaks the schema that was asked for; JournalMismatch if something else was asked
        under this key.
        """
        entry = self._journal.answers.get(key)
        if entry is not None and entry.digest and (entry.kind, entry.digest) != (ask.method, ask.digest):
            before, now = f"{entry.kind} {entry.text!r}", f"{ask.method} {ask.text!r}"
            raise JournalMismatch(f"under the key {key!r} was asked {before}, and {now} is read", before, now)
        if key not in self:
            return None
        try:
            answer: T = self._reads(ask, self._raw(key))
        except (msgspec.DecodeError, RecursionError) as error:
            raise no_answer(key, ask.method, error) from error
        return self._kept(key, ask.method, answer)

    def __getitem__(self, key: str) -> Any:
        raw = self._raw(key)
        for ask in _KINDS:
            try:
                return self._kept(key, ask.method, self._reads(ask, raw))
            except (msgspec.DecodeError, RecursionError):  # it is an answer of another kind
                continue
        raise no_answer(key, "any question", "it has no action, no role and no roots")

    def _raw(self, key: str) -> msgspec.Raw:
        entry = self._journal.answers.get(key)
        return self._loose[key] if entry is None else entry.value

    def _kept(self, key: str, method: str, answer: T) -> T:
        """What was read is there in later rounds too."""
        if key in self._loose:
            self._journal.adopt(key, method, self._loose[key])
        return answer

    def __iter__(self) -> Iterator[str]:
        return iter({**self._loose, **self._journal.answers})

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Plain(Ask[Outcome[dict[str, Any]]]):
    """Reads an answer to any form or page."""

    method = "elicitation/create"

    def read(self, raw: Any) -> Outcome[dict[str, Any]]:
        result = msgspec.json.decode(raw, type=ElicitResult)
        return outcome(result.action, result.content or {})


_KINDS: tuple[Ask[Any], ...] = (_Plain(), Sample(""), Roots())


def no_answer(key: str, kind: str, why: object) -> LocalProtocolError:
    """An answer has not the shape of an answer to this kind of question."""
    return LocalProtocolError(INVALID_PARAMS, f"Invalid params: inputResponses[{key!r}] is no answer to {kind}: {why}")
