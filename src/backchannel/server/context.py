"""The Context: what a handler knows of its call, and how it reaches the client."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, overload

import anyio
import anyio.from_thread

from ..errors import CallFinished, CannotAskHere, MissingCapability, NoBackChannel
from ..protocol.capabilities import elicitation_modes, require_roots, require_sampling
from ..protocol.journal import STEP, Entry
from ..protocol.types.requests import LEVELS, LogParams, ProgressParams
from ..protocol.types.sampling import CreateMessageResult, SamplingMessage
from ..protocol.versions import Version
from .asks import Ask, Confirm, Elicit, ElicitUrl, Roots, Sample
from .exchange import ClientInfo, Exchange, Principal
from .inputs import Inputs
from .outcomes import Outcome
from .question import Question, Suspend, Where, caller
from .roots import RootList
from .steps import StepRun, in_step

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
logger = logging.getLogger("backchannel.server")


class Context:
    """One call, from the side of the handler, or of middleware, which can tell and know but not ask.

    A Context without a call, `Context()`, serves to call a handler directly in a test: it knows nothing and asks
    nobody.
    """

    __slots__ = ("_exchange", "_inputs", "_thread", "lifespan")

    def __init__(self, exchange: Exchange | None = None, lifespan: Any = None, inputs: Inputs | None = None):
        self._exchange = exchange
        self._inputs = inputs
        self._thread = threading.get_ident()
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
        inputs, where = self._asking(key or ask.text), caller()
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
        return Question(partial(_gather, questions), partial(_close, questions))

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Coroutine[Any, Any, T]],
        /,
        *args: Any,
        key: str | None = ...,
        **kwargs: Any,
    ) -> Question[T]: ...

    @overload
    def step(
        self, name: str, function: Callable[..., T], /, *args: Any, key: str | None = ..., **kwargs: Any
    ) -> Question[T]: ...

    def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, key: str | None = None, **kwargs: Any
    ) -> Question[Any]:
        """Do work once: later rounds of the call return the recorded value and do not run `function` again.

        name: what is compared on replay.  function: async, or sync (then it runs in a worker thread); it asks nothing.
        key: as in `ask`.  The value goes through JSON before it is first seen: it comes back in the type of the
        function's return annotation, without one as plain dicts and lists.  At least once, not exactly once: hand
        `ctx.call_id` downstream as an idempotency key.

        Raises: when awaited, StepError if the work failed.
        """
        if not callable(function):
            raise TypeError(f"ctx.step({name!r}, function, *args) takes the function to run, not {function!r}")
        if self._exchange is None:
            return Question(partial(_work, StepRun(Entry(name, STEP, name, ""), function, args, kwargs)))
        return self._do(partial(self._asking(name).step, name, function, args, kwargs, key, caller()))

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
        return self._do(partial(self._log, level, data, logger, caller()))

    def _progress(self, progress: float, total: float | None, message: str | None) -> Question[None]:
        exchange = self._live()
        if exchange is not None:
            token = exchange.params.meta.progress_token
            if token is not None and exchange.progress < progress < math.inf:
                exchange.progress = progress
                _send("notifications/progress", exchange, ProgressParams(token, progress, total, message))
        return Question(partial(_drain, exchange))

    def _log(self, level: str, data: Any, name: str | None, where: Where) -> Question[None]:
        exchange = self._live()
        if exchange is not None:
            session = exchange.session
            wanted = session.log_level if session is not None else exchange.params.meta.log_level
            if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted) and self._is_new(where):
                _send("notifications/message", exchange, LogParams(level, data, name))
        return Question(partial(_drain, exchange))

    def _is_new(self, where: Where) -> bool:
        """Replayed code is silent: its messages went out in an earlier round."""
        return self._inputs is None or in_step.get() or self._inputs.is_new(where)

    # Knowing.

    @property
    def call_id(self) -> str:
        """Names this call, the same in all its rounds: an idempotency key to hand downstream."""
        if self._exchange is None:
            return f"direct-{id(self):x}"
        inputs = self._exchange.inputs
        return inputs.call_id if inputs is not None else self._asking("call_id").call_id

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
        if self._inputs is not None:
            self._inputs.live()
        elif exchange is not None and exchange.finished:
            raise CallFinished("this call has ended; nothing can be sent for it any more")
        return exchange

    def _asking(self, what: str) -> Inputs:
        if self._exchange is None:
            raise NoBackChannel(f"no client is attached, so the question {what!r} cannot be asked")
        if self._inputs is None:
            raise CannotAskHere(
                f"{self._exchange.name} cannot ask the client here: only the handlers of tools, prompts and resources "
                "can, while they run"
            )
        return self._inputs

    def _do(self, action: Callable[[], T]) -> T:
        """Run what touches the event loop's state on the event loop."""
        if self._exchange is None or threading.get_ident() == self._thread:
            return action()
        return anyio.from_thread.run_sync(action)


def _send(method: str, exchange: Exchange, params: Any) -> None:
    if not exchange.notify(method, params):
        logger.debug(
            "%s of %s was dropped: its stream is closed, full, or takes the response alone", method, exchange.name
        )


async def _yes() -> bool:
    return True


async def _drain(exchange: Exchange | None) -> None:
    if exchange is not None:
        await exchange.stream.drain()


async def _work(run: StepRun) -> Any:
    await run.run()
    return run.result()


async def _gather(questions: Sequence[Question[Any]]) -> tuple[Any, ...]:
    """Wait for all in tasks, so that the first failure ends the others."""
    answers: dict[int, Any] = {}
    ended: list[BaseException] = []

    async def wait(place: int, question: Question[Any]) -> None:
        try:
            answers[place] = await question
        except (Exception, Suspend) as error:
            ended.append(error)
            group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for place, question in enumerate(questions):
                group.start_soon(wait, place, question)
    finally:
        _close(questions)
    if ended:
        raise ended[0]
    return tuple(answers[place] for place in range(len(questions)))


def _close(questions: Sequence[Question[Any]]) -> None:
    for question in questions:
        question.close()
