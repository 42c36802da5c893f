"""A call that is not finished: what its next request is made of (basic/patterns/mrtr)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ..errors import INVALID_PARAMS, LocalProtocolError, RemoteProtocolError
from ..protocol.jsonrpc import encode
from ..protocol.types.base import Wire
from .asked import Asked

T = TypeVar("T")
_FORMAT = 1
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Question(Wire):
    method: str
    params: msgspec.Raw


class _Saved(Wire, kw_only=True):
    format: int
    method: str
    params: dict[str, msgspec.Raw]
    questions: dict[str, _Question] = {}
    earlier: dict[str, _Question] = {}
    state: str | None = None
    answers: dict[str, msgspec.Raw] | None = None


class Pending(Generic[T]):
    """A call that the server has not completed, between two of its rounds. It does not change. T: what the call gives.

    method: what is called.  questions: key -> what the server asks; `client.resume(pending, {key: answer})` goes on. An
    empty one means that nothing is asked, and `client.resume(pending)` sends the call again.

    What the server keeps in it (the `requestState`) and the answers are not shown; only `to_json` has them.
    """

    __slots__ = ("_answers", "_earlier", "_frozen", "_state", "method", "questions")

    def __init__(
        self,
        method: str,
        frozen: dict[str, Any],
        questions: Mapping[str, Asked] | None = None,
        state: str | None = None,
        *,
        earlier: Mapping[str, Asked] | None = None,
        answers: dict[str, msgspec.Raw] | None = None,
    ):
        self.method = method
        self.questions: Mapping[str, Asked] = questions or {}
        self._frozen = frozen
        self._state = state
        self._earlier = earlier or {}
        self._answers = answers

    @classmethod
    def start(cls, method: str, params: Mapping[str, Any]) -> Pending[Any]:
        """A call that was not sent. The params are kept as they are now: all rounds send the same, whatever the caller
        does with the object meanwhile. Raises: LocalProtocolError for what JSON cannot carry."""
        try:
            return cls(method, _with_meta(_members.decode(encode(dict(params)))))
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise LocalProtocolError(INVALID_PARAMS, f"{method} cannot be sent as JSON: {error}") from error

    @property
    def params(self) -> dict[str, Any]:
        """The params of the call, as the caller gave them."""
        return _thawed(self._frozen, *self._frozen)

    @property
    def begun(self) -> bool:
        """Whether the server has begun it: what it is sent holds more than the caller's params."""
        return self._state is not None or bool(self.questions) or bool(self._earlier)

    def with_meta(self, **members: Any) -> Pending[T]:
        """The same call with members added to the `_meta` of its requests; what the caller has put there stays."""
        given = self._frozen.get("_meta")
        frozen = {**self._frozen, "_meta": {**members, **(given or {})}}
        return Pending(self.method, frozen, self.questions, self._state, earlier=self._earlier, answers=self._answers)

    def request(self) -> dict[str, Any]:
        """The params of the next request: the caller's, and what this round adds. Nothing of an earlier round stays:
        "They MUST NOT be used for any other request"."""
        if self._answers is None and self._state is None:
            return self._frozen
        added: dict[str, Any] = {}
        if self._answers is not None:
            added["inputResponses"] = self._answers
        # "If the `InputRequiredResult` does not contain a `requestState` field, the client MUST NOT include one"
        if self._state is not None:
            added["requestState"] = self._state
        return {**self._frozen, **added}

    def next(self, questions: Mapping[str, Asked], state: str | None) -> Pending[T]:
        """The call after a round in which the server asked."""
        return Pending(self.method, self._frozen, questions, state, earlier={**self._earlier, **self.questions})

    def answered(self, answers: Mapping[str, Any]) -> Pending[T]:
        """The call with answers as the host gives them, by key, besides those that it has. A key of an earlier round
        corrects what was answered then, where the server allows it.

        Raises: LocalProtocolError for a key that was not asked, and what is no answer to its question.
        """
        known = {**self._earlier, **self.questions}
        results = {}
        for key, value in answers.items():
            if key not in known:
                names = ", ".join(map(repr, self.questions)) or "nothing"
                raise LocalProtocolError(INVALID_PARAMS, f"there is no question {key!r}; {names} is asked")
            results[key] = known[key].result(value)
        return self.with_results(results)

    def with_results(self, results: Mapping[str, Any]) -> Pending[T]:
        """The call with results by key, besides those that it has. Raises: LocalProtocolError for what is no JSON."""
        try:
            encoded = {key: msgspec.Raw(encode(result)) for key, result in results.items()}
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise LocalProtocolError(INVALID_PARAMS, f"an answer has no form in JSON: {error}") from error
        answers = {**(self._answers or {}), **encoded} if encoded or self._answers else None
        return Pending(self.method, self._frozen, self.questions, self._state, earlier=self._earlier, answers=answers)

    def to_json(self) -> str:
        """All of it as text, to go on with later, in any process and with any Client of the same server.

        The text is as good as the call: who has it can read the answers, and go on with the call in the caller's name.
        Keep it as you would keep a password.
        """
        saved = _Saved(
            format=_FORMAT,
            method=self.method,
            params={name: msgspec.Raw(encode(value)) for name, value in self._frozen.items()},
            questions=_packed(self.questions),
            earlier=_packed(self._earlier),
            state=self._state,
            answers=self._answers,
        )
        return encode(saved).decode()

    @classmethod
    def from_json(cls, text: str) -> Pending[Any]:
        """What `to_json` gave. Raises: LocalProtocolError."""
        try:
            saved = msgspec.json.decode(text, type=_Saved)
            if saved.format != _FORMAT:
                raise LocalProtocolError(INVALID_PARAMS, f"a pending call of the unknown format {saved.format}")
            return cls(
                saved.method,
                _with_meta(saved.params),
                _unpacked(saved.questions),
                saved.state,
                earlier=_unpacked(saved.earlier),
                answers=saved.answers,
            )
        except (TypeError, msgspec.DecodeError, UnicodeError, RecursionError, RemoteProtocolError) as error:
            raise LocalProtocolError(INVALID_PARAMS, f"this is no pending call: {error}") from error

    def __repr__(self) -> str:
        return f"<Pending {self.method}: {', '.join(map(repr, self.questions)) or 'nothing asked'}>"


def _thawed(frozen: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Params whose members of these names are values; the others stay raw."""
    return {
        name: msgspec.json.decode(value) if name in names and isinstance(value, msgspec.Raw) else value
        for name, value in frozen.items()
    }


def _with_meta(frozen: dict[str, Any]) -> dict[str, Any]:
    """Params whose `_meta` is an object, or null. Raises: TypeError where it is something else."""
    if "_meta" not in frozen:
        return frozen
    thawed = _thawed(frozen, "_meta")
    if not isinstance(thawed["_meta"], dict | None):
        raise TypeError("its _meta is no object")
    return thawed


def _packed(questions: Mapping[str, Asked]) -> dict[str, _Question]:
    return {key: _Question(asked.method, msgspec.Raw(bytes(asked.raw))) for key, asked in questions.items()}


def _unpacked(questions: Mapping[str, _Question]) -> dict[str, Asked]:
    return {key: Asked.read(question.method, question.params) for key, question in questions.items()}
