"""Answers, as a script for a person or a model has them: `accept({"size": "M"}, after=5)`, `decline()`, `say("Hello")`.

Each is also a handler by itself, which always answers so: `Client(server, elicit=accept({"size": "M"}))`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from ..errors import INTERNAL_ERROR, ConfigurationError, ProtocolError
from ..protocol.types.sampling import CreateMessageResult

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
ANY = frozenset({ELICIT, SAMPLE, ROOTS})


@dataclass(frozen=True)
class Answer:
    """One answer.

    shown: how messages show it.  methods: what it can answer.  give: takes the question, gives what a handler of a
    Client gives.  after: seconds until it comes.  raw: `give` gives the result itself, which the client does not check.
    """

    shown: str
    methods: frozenset[str]
    give: Callable[[Any], Any]
    after: float = 0.0
    raw: bool = False

    def __post_init__(self) -> None:
        if self.after < 0:
            raise ConfigurationError("after is a number of seconds, at least 0")

    async def __call__(self, question: Any = None) -> Any:
        """Answer as a handler of a Client does. Raises: ConfigurationError for `garbage`, which no handler can send."""
        if self.raw:
            raise ConfigurationError("garbage() gets past the client's own checks in people=[...] alone")
        return await self.answer(question)

    async def answer(self, question: Any = None) -> Any:
        """What is given, in its time."""
        if self.after:
            await anyio.sleep(self.after)
        value = self.give(question)
        return await value if inspect.isawaitable(value) else value

    def __repr__(self) -> str:
        late = f", after={self.after:g}" if self.after else ""
        return self.shown.removesuffix(")") + late.removeprefix(", " if self.shown.endswith("()") else "") + ")"


def accept(content: Any = None, *, after: float = 0.0) -> Answer:
    """Accept a form with this content, or a page to open.

    content: a dict by field; or the value of a form for one value, whose field is "value". Without it, and for True, a
    plain yes: true where the form wants one boolean, and the form's defaults.  after: seconds that the person takes.
    """
    plain = content is None or content is True
    filled = content if isinstance(content, dict) else {"value": content}
    shown = "accept()" if plain else f"accept({content!r})"
    return Answer(shown, frozenset({ELICIT}), lambda _: True if plain else filled, after)


def decline(*, after: float = 0.0) -> Answer:
    """Say no to what is asked. after: seconds that the person takes."""
    return Answer("decline()", frozenset({ELICIT}), lambda _: False, after)


def cancel(*, after: float = 0.0) -> Answer:
    """Close the question without a choice. after: seconds that the person takes."""
    return Answer("cancel()", frozenset({ELICIT}), lambda _: None, after)


def say(message: str | CreateMessageResult | None, *, after: float = 0.0) -> Answer:
    """Complete a conversation, as the client's model does; None refuses. after: seconds that the model takes."""
    return Answer(f"say({message!r})", frozenset({SAMPLE}), lambda _: message, after)


def never() -> Answer:
    """Never answer. It is over when the question is withdrawn, or the connection closed."""
    return Answer("never()", ANY, lambda _: anyio.sleep_forever())


def garbage(result: Any = None, *, after: float = 0.0) -> Answer:
    """Send what the client's own checks would not let pass.

    result: the answer as it goes on the wire, such as `{"action": "accept", "content": {"size": "XXL"}}`; without it,
    something that is no answer at all.  after: seconds until it comes.
    """
    sent = {"garbage": True} if result is None else result
    return Answer("garbage()" if result is None else f"garbage({result!r})", ANY, lambda _: sent, after, raw=True)


def error(
    code: int = INTERNAL_ERROR, message: str = "a scripted error", data: Any = None, *, after: float = 0.0
) -> Answer:
    """Answer with a JSON-RPC error. On the stateless protocol, whose answers are results, it ends the call at the
    client. after: seconds until it comes."""

    def fail(_: Any) -> Any:
        raise ProtocolError(code, message, data)

    return Answer(f"error({code})", ANY, fail, after)


def as_answer(value: Any) -> Answer:
    """The answer that a value in a script stands for: a dict, True, False and None are those of a form, a text or a
    CreateMessageResult is said, a list has roots, and a function is called with the question.

    Raises: ConfigurationError.
    """
    if isinstance(value, Answer):
        return value
    if value is False or value is None:
        return decline() if value is False else cancel()
    if value is True or isinstance(value, dict):
        return accept(value)
    if isinstance(value, str | CreateMessageResult):
        return say(value)
    if isinstance(value, list | tuple):
        return Answer(f"roots({list(value)!r})", frozenset({ROOTS}), lambda _: value)
    if callable(value):
        return Answer(f"{getattr(value, '__name__', 'function')}()", ANY, value)
    raise ConfigurationError(f"{value!r} is no answer: give accept(...), decline(), a text, or the like")
