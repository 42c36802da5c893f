"""What a Context can ask, in words: each method is `ask` with one of the questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

from ..errors import MissingCapability, NoBackChannel
from ..protocol.types.sampling import CreateMessageResult
from .asks import Ask, Confirm, Elicit, ElicitUrl, Roots, Sample, SampleOptions
from .conversation import Turn
from .forms import Choices
from .outcomes import Outcome
from .question import Question, close_all, gather
from .roots import RootList

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Asking:
    """The questions. Its subclass has `ask`."""

    __slots__ = ()

    def ask(
        self, ask: Ask[T], *, key: str | None = None, timeout: float | None = None, retries: int = 0
    ) -> Question[T]:
        """Ask the client."""
        raise NotImplementedError

    @overload
    def elicit(
        self, message: str, kind: type[T], *, key: str | None = ..., timeout: float | None = ..., retries: int = ...
    ) -> Question[Outcome[T]]: ...

    @overload
    def elicit(
        self, message: str, kind: Choices, *, key: str | None = ..., timeout: float | None = ..., retries: int = ...
    ) -> Question[Outcome[str]]: ...

    @overload
    def elicit(
        self, message: str, kind: Any = ..., *, key: str | None = ..., timeout: float | None = ..., retries: int = ...
    ) -> Question[Outcome[Any]]: ...

    def elicit(
        self,
        message: str,
        kind: Any = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
    ) -> Question[Outcome[Any]]:
        """Ask the person at the client with a form (client/elicitation, Form Mode). Never for secrets: use elicit_url.

        message: the question.  kind: what is wanted (see Elicit).  key, timeout, retries: see `ask`.
        """
        return self.ask(Elicit(message, kind), key=key, timeout=timeout, retries=retries)

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        until: Callable[[], Any] | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Question[Outcome[None]]:
        """Have the person open a page, for anything secret (client/elicitation, URL Mode).

        until: called until it gives true; without it, Accepted means consent to open the page and no more.
        """
        return self.ask(ElicitUrl(message, url, until), key=key, timeout=timeout)

    def confirm(
        self,
        message: str,
        *,
        if_unable: Literal["raise", "proceed"] = "raise",
        key: str | None = None,
        timeout: float | None = None,
    ) -> Question[bool]:
        """Ask for a yes. Declining, cancelling and no are False.

        if_unable: "proceed" takes a client that cannot be asked for a yes. Nobody answering, or answering garbage,
        always raises.
        """
        try:
            return self.ask(Confirm(message), key=key, timeout=timeout)
        except (MissingCapability, NoBackChannel):
            if if_unable != "proceed":
                raise
            return Question(_yes)

    def sample(
        self,
        messages: Turn | Sequence[Turn],
        *,
        max_tokens: int = 1024,
        key: str | None = None,
        timeout: float | None = None,
        **options: Unpack[SampleOptions],
    ) -> Question[CreateMessageResult]:
        """Have the client's model complete a conversation (client/sampling), or where it cannot be asked the server's
        own, if `Server(sampler=)` gives one: `message.source` says which.

        Deprecated since 2026-07-28: call a provider's API instead.

        messages: a text or a conversation.  max_tokens: the most that the model may produce.  options: `system`,
        `tools`, `tool_choice`, `model_preferences`, `temperature`, `stop_sequences` and more (see Sample).
        """
        return self.ask(Sample(messages, max_tokens=max_tokens, **options), key=key, timeout=timeout)

    def roots(self, *, key: str | None = None, timeout: float | None = None) -> Question[RootList]:
        """The client's root directories (client/roots). Deprecated since 2026-07-28: pass paths as arguments."""
        return self.ask(Roots(), key=key, timeout=timeout)

    @overload
    def gather(self, a: Question[A], b: Question[B], /) -> Question[tuple[A, B]]: ...

    @overload
    def gather(self, a: Question[A], b: Question[B], c: Question[C], /) -> Question[tuple[A, B, C]]: ...

    @overload
    def gather(self, *questions: Question[Any]) -> Question[tuple[Any, ...]]: ...

    def gather(self, *questions: Question[Any]) -> Question[Any]:
        """Wait for several questions and steps at once; on the stateless protocol they go out in one round.

        If one fails, the others are withdrawn and its error is raised.
        """
        for question in questions:
            if not isinstance(question, Question):
                raise TypeError(f"ctx.gather takes what ctx.elicit, ctx.step and so on return, not {question!r}")
        return Question(partial(gather, questions), partial(close_all, questions))


async def _yes() -> bool:
    return True
