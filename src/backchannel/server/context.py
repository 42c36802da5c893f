"""The Context: what a handler knows of its call, and how it reaches the client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, overload

import anyio.from_thread

from ..errors import CallFinished, CannotAskHere, MissingCapability, NoBackChannel
from ..protocol.capabilities import elicitation_modes, require_roots, require_sampling
from ..protocol.types.requests import LEVELS, LogParams, ProgressParams
from ..protocol.types.sampling import CreateMessageResult, SamplingMessage
from ..protocol.versions import Version
from .asks import Ask, Confirm, Elicit, ElicitUrl, Roots, Sample
from .exchange import ClientInfo, Exchange, Principal
from .inputs import Inputs
from .outcomes import Outcome
from .question import Question, caller
from .roots import RootList

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
logger = logging.getLogger("backchannel.server")


class Context:
    """One call, from the handler's side.

    A Context without a call, `Context()`, serves to call a handler directly in a test: it knows nothing and asks
    nobody.
    """

    __slots__ = ("_exchange", "_last_progress", "_threaded", "lifespan")

    def __init__(self, exchange: Exchange | None = None, lifespan: Any = None, threaded: bool = False):
        self._exchange = exchange
        self._threaded = threaded
        self._last_progress = float("-inf")
        self.lifespan = lifespan

    # Asking.

    def ask(
        self, ask: Ask[T], *, key: str | None = None, timeout: float | None = None, retries: int = 0
    ) -> Question[T]:
        """Ask the client.

        ask: an Elicit, Sample, Roots, …  key: matches the question over the rounds of a call by name instead of by
        place, and lets any task of the call make it.  timeout: seconds for the answer.  retries: how often an invalid
        answer is asked again, with the reason.

        Raises: MissingCapability, NoBackChannel, CannotAskHere, CallFinished; when awaited AskTimeout, InvalidAnswer.
        """
        inputs, where = self._inputs(ask.text, key), caller()
        return self._do(partial(inputs.ask, ask, where, key=key, timeout=timeout, retries=retries))

    @overload
    def elicit(
        self, message: str, kind: type[T], *, key: str | None = ..., timeout: float | None = ..., retries: int = ...
    ) -> Question[Outcome[T]]: ...

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
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int = 1024,
        key: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Question[CreateMessageResult]:
        """Have the client's model complete a conversation (client/sampling).

        Deprecated since 2026-07-28: call a provider's API instead.

        messages: a text or messages.  max_tokens: the most that the model may produce.  options: `system`, `tools`,
        `tool_choice`, `model_preferences`, `temperature`, `stop_sequences`, `include_context`, `metadata` (see Sample).
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
            question.awaited = True
        return Question(partial(_gather, questions))

    def step(
        self, name: str, function: Callable[..., Any], *args: Any, key: str | None = None, **kwargs: Any
    ) -> Question[Any]:
        """Do work once: later rounds of the call return the recorded value and do not run `function` again.

        name: what is compared on replay.  function: async, or sync (then it runs in a worker thread).  key: as in
        `ask`.  At least once, not exactly once: hand `ctx.call_id` downstream as an idempotency key.

        Raises: when awaited, StepError if the work failed.
        """
        return self._do(partial(self._inputs(name, key).step, name, function, args, kwargs, key, caller()))

    def can_ask(self, kind: Literal["form", "url", "sampling", "sampling.tools", "roots"]) -> bool:
        """Whether the client declared what this kind of question needs."""
        exchange = self._exchange
        if exchange is None:
            return False
        capabilities, version = exchange.client.capabilities, exchange.version
        try:
            if kind == "roots":
                require_roots(capabilities)
            elif kind in ("sampling", "sampling.tools"):
                require_sampling(capabilities, version, tools=kind == "sampling.tools", context=False)
            else:
                return kind in elicitation_modes(capabilities, version)
        except MissingCapability:
            return False
        return True

    # Telling.

    def progress(self, progress: float, *, total: float | None = None, message: str | None = None) -> Question[None]:
        """Report progress, if the client asked for it (basic/patterns/progress). It has to rise: what does not is not
        sent.

        progress, total: in any unit.  message: for the person.  Raises: CallFinished after the call.
        """
        return self._do(partial(self._progress, progress, total, message))

    def log(self, level: str, data: Any, *, logger: str | None = None) -> Question[None]:
        """Send a log message, if the client asked for this level (server/utilities/logging).

        Deprecated since 2026-07-28: log to stderr or OpenTelemetry.

        level: debug, info, notice, warning, error, critical, alert or emergency.  data: anything with a JSON form.
        """
        if level not in LEVELS:
            raise ValueError(f"the log level {level!r} is none of {', '.join(LEVELS)}")
        return self._do(partial(self._log, level, data, logger))

    def _progress(self, progress: float, total: float | None, message: str | None) -> Question[None]:
        exchange = self._live()
        if exchange is not None and exchange.params.meta.progress_token is not None and progress > self._last_progress:
            self._last_progress = progress
            self._send("notifications/progress", exchange, _token_params(exchange, progress, total, message))
        return Question(partial(_drain, exchange))

    def _log(self, level: str, data: Any, name: str | None) -> Question[None]:
        exchange = self._live()
        if exchange is not None:
            session = exchange.session
            wanted = session.log_level if session is not None else exchange.params.meta.log_level
            if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
                self._send("notifications/message", exchange, LogParams(level, data, name))
        return Question(partial(_drain, exchange))

    def _send(self, method: str, exchange: Exchange, params: Any) -> None:
        """Replayed code is silent: its notifications went out in an earlier round."""
        if exchange.inputs is not None and exchange.inputs.replaying:
            return
        if not exchange.notify(method, params):
            logger.debug("%s of %s was dropped: its response is a single JSON object", method, exchange.name)

    # Knowing.

    @property
    def call_id(self) -> str:
        """Names this call, the same in all its rounds: an idempotency key to hand downstream."""
        return self._inputs("call_id", None).call_id

    @property
    def round(self) -> int:
        """The round of this call, from 1. Always 1 where questions are reverse calls."""
        inputs = self._exchange.inputs if self._exchange else None
        return inputs.round if inputs is not None else 1

    @property
    def version(self) -> Version:
        """The protocol version of this call."""
        return self.exchange.version

    @property
    def client(self) -> ClientInfo:
        """The client as it describes itself, with its capabilities. Not verified."""
        return self._exchange.client if self._exchange else ClientInfo()

    @property
    def principal(self) -> Principal | None:
        """Who calls, as the server's `verify` found out; None without one."""
        return self._exchange.principal if self._exchange else None

    @property
    def method(self) -> str:
        """The method of the request, such as "tools/call"."""
        return self.exchange.name

    @property
    def target(self) -> str:
        """The name of the tool or prompt, or the URI of the resource."""
        return self.exchange.target

    @property
    def exchange(self) -> Exchange:
        """The exchange behind this context. Raises: NoBackChannel where there is none."""
        if self._exchange is None:
            raise NoBackChannel("no client is attached: this Context belongs to no call")
        return self._exchange

    def _live(self) -> Exchange | None:
        exchange = self._exchange
        if exchange is not None and exchange.finished:
            raise CallFinished("this call has ended; nothing can be sent for it any more")
        if exchange is not None and exchange.inputs is not None and exchange.inputs.suspended:
            exchange.inputs.check("")
        return exchange

    def _inputs(self, what: str, key: str | None) -> Inputs:
        if self._exchange is None:
            raise NoBackChannel(f"no client is attached, so the question {key or what!r} cannot be asked")
        if self._exchange.inputs is None:
            raise CannotAskHere(
                f"{self._exchange.name} cannot ask the client here: only the handlers of tools, prompts and resources "
                "can, while they run"
            )
        return self._exchange.inputs

    def _do(self, action: Callable[[], T]) -> T:
        """Run what touches the event loop's state on the event loop."""
        return anyio.from_thread.run_sync(action) if self._threaded else action()


def _token_params(exchange: Exchange, progress: float, total: float | None, message: str | None) -> ProgressParams:
    return ProgressParams(exchange.params.meta.progress_token, progress, total, message)


async def _yes() -> bool:
    return True


async def _drain(exchange: Exchange | None) -> None:
    if exchange is not None:
        await exchange.stream.drain()


async def _gather(questions: Sequence[Coroutine[Any, Any, Any]]) -> tuple[Any, ...]:
    answers = []
    try:
        for question in questions:
            answers.append(await question)
    finally:
        for question in questions[len(answers) :]:
            question.close()
    return tuple(answers)
