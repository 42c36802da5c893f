"""What a person's answer comes to: accepted with a value, declined, or cancelled (client/elicitation, Response
Actions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, NoReturn, TypeVar

from ..errors import Refused

T = TypeVar("T", covariant=True)
V = TypeVar("V")


class _Decision:
    """What all outcomes have in common."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        """Raises: TypeError. A refusal is an object too, and `if await ctx.elicit(...)` must not take it for a yes."""
        raise TypeError(
            "an outcome is no yes or no: match it, .unwrap() it, or use ctx.confirm; whether there is an answer at all "
            "says `is not None`"
        )


@dataclass(frozen=True, slots=True)
class Accepted(_Decision, Generic[T]):
    """The person agreed. `value` is what they gave, in the type that was asked for."""

    value: T

    def unwrap(self) -> T:
        """The value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Declined(_Decision):
    """The person said no."""

    question: str = ""

    def unwrap(self) -> NoReturn:
        """Raises: Refused, which becomes a result with `isError` that says so."""
        raise Refused("decline", self.question)


@dataclass(frozen=True, slots=True)
class Cancelled(_Decision):
    """The person closed the question without a choice."""

    question: str = ""

    def unwrap(self) -> NoReturn:
        """Raises: Refused, which becomes a result with `isError` that says so."""
        raise Refused("cancel", self.question)


Outcome = Accepted[T] | Declined | Cancelled


def outcome(action: Literal["accept", "decline", "cancel"], value: V, question: str = "") -> Outcome[V]:
    """What an action on the wire comes to."""
    if action == "accept":
        return Accepted(value)
    return Declined(question) if action == "decline" else Cancelled(question)
