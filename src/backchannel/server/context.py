"""The Context: what a handler knows of its call, and how it reaches the client."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, TypeVar, overload

import anyio
import anyio.from_thread
import msgspec

from ..errors import CallFinished, CannotAskHere, MissingCapability, NoBackChannel, RootsUnknown
from ..protocol.capabilities import elicitation_modes, require_roots, require_sampling
from ..protocol.journal import STEP, Entry, Journal
from ..protocol.types.requests import LEVELS, LogParams, ProgressParams
from ..protocol.versions import Version
from .asking import Asking
from .asks import Ask
from .exchange import ClientInfo, Exchange, Principal
from .explicit import Answers
from .inputs import Inputs
from .options import number
from .question import OWN_THREAD, Question, Suspend, Where, caller
from .roots import RootList
from .steps import StepRun, in_step
from .streams import RETRY, check_retry

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
logger = logging.getLogger("backchannel.server")


class Context(Asking):
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

    @property
    def answers(self) -> Answers:
        """The answers to questions that this handler returned as InputRequired. Empty in the first round."""
        return self._inputs.answers if self._inputs is not None else Answers(Journal(), {})

    @property
    def state(self) -> Any:
        """What this handler returned as `InputRequired(state=)`, as plain JSON. None in the first round."""
        return msgspec.json.decode(self._inputs.journal.state) if self._inputs is not None else None

    def ask(
        self, ask: Ask[T], *, key: str | None = None, timeout: float | None = None, retries: int = 0
    ) -> Question[T]:
        """Ask the client.

        ask: an Elicit, Sample, Roots, …  key: matches the question over the rounds of a call by name instead of by
        place, and lets any task of the call make it.  timeout: seconds for the answer.  retries: how often an invalid
        answer is asked again, with the reason.

        Raises: MissingCapability, NoBackChannel, CannotAskHere, CallFinished; when awaited AskTimeout, InvalidAnswer.
        """
        if not isinstance(ask, Ask):
            raise TypeError(f"ctx.ask takes a question, such as Elicit(...), not {ask!r}")
        if timeout is not None or retries:
            _check_patience(timeout, retries)
        inputs, where = self._inputs or self._asking(key or ask.text), caller(2)
        if threading.get_ident() == self._thread:
            return inputs.ask(ask, where, key, timeout, retries)
        return self._do(inputs.ask, ask, where, key, timeout, retries)

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
        _check_work("step", name, function)
        if self._exchange is None:
            return Question(partial(_work, StepRun(Entry(name, STEP, name, ""), function, args, kwargs)))
        return self._do(self._asking(name).step, name, function, args, kwargs, key, caller())

    def detach(self) -> Context:
        """A Context that outlives the call: it asks, logs and knows on the session's standing channel for as long as
        the session lasts. Hand it to work that you start with `background`, or with a task of your own. It has the
        session's values, and neither the call's cancellation nor its time limit; progress ends with the call. Shielding
        a task of the call is no substitute: this Context ends with the call all the same.

        Raises: NoBackChannel on the stateless protocol, and without a session.
        """
        inputs = self._asking("detach").detach()
        detached = Context(inputs.exchange, self.lifespan, inputs)
        inputs.around = [partial(one.func, detached) for one in inputs.around]
        return detached

    def background(self, key: str, job: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Start work that outlives the call, once in all its rounds. The server owns it: when it stops, it gives the
        work `Limits.grace` seconds, and then cancels it. What it raises is logged.

        key: names it within the call.  job: async, or sync (then it runs in a worker thread); called with `args` and
        `kwargs`. To ask in it, give it `ctx.detach()`.
        """
        _check_work("background", key, job)
        self._do(self._asking(key).background, key, partial(job, *args, **kwargs))

    def can_ask(self, kind: Literal["form", "url", "sampling", "sampling.tools", "roots"]) -> bool:
        """Whether the client declared what this kind of question needs. A server with a `sampler` answers `sample`
        itself where this is False."""
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
        return self._do(self._progress, progress, total, message)

    def log(self, level: str, data: Any, *, logger: str | None = None) -> Question[None]:
        """Send a log message, if the client asked for this level (server/utilities/logging).

        Deprecated since 2026-07-28: log to stderr or OpenTelemetry.

        level: debug, info, notice, warning, error, critical, alert or emergency.  data: anything with a JSON form.
        """
        if level not in LEVELS:
            raise ValueError(f"the log level {level!r} is none of {', '.join(LEVELS)}")
        return self._do(self._log, level, data, logger, caller())

    def disconnect(self, *, retry: float = RETRY) -> Question[None]:
        """Free the client's connection while the call runs on: what is sent from here on waits until the client comes
        back for it (2025-11-25 basic/transports, Sending Messages). A hint: where a client cannot come back, on other
        wires, without a session and before 2025-11-25, nothing happens.

        retry: seconds until it shall come back, at most a day.  Raises: CallFinished after the call, ValueError.
        """
        check_retry(retry)  # also where no stream of the wire's own does
        return self._do(self._disconnect, retry)

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

    def _disconnect(self, retry: float) -> Question[None]:
        if (exchange := self._live()) is not None:
            exchange.stream.dismiss(retry)
        return Question(partial(_drain, exchange))

    def _is_new(self, where: Where) -> bool:
        """Replayed code is silent: its messages went out in an earlier round."""
        return self._inputs is None or in_step.get() or self._inputs.is_new(where)

    # Knowing.

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: for a loop in a synchronous handler to look at, whose thread
        cannot be stopped. An async handler is cancelled."""
        exchange, inputs = self._exchange, self._inputs
        return exchange is not None and (
            exchange.cancelled or exchange.finished or (inputs is not None and inputs.ended)
        )

    @property
    def call_id(self) -> str:
        """Names this call, the same in all its rounds: an idempotency key to hand downstream."""
        if self._exchange is None:
            return f"direct-{id(self):x}"
        inputs = self._exchange.inputs
        return inputs.call_id if inputs is not None else self._asking("call_id").call_id

    @property
    def round(self) -> int:
        """The round of this call, from 1. Where questions are reverse calls, only those that a handler returns make a
        new one."""
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
    def allowed_roots(self) -> RootList:
        """The client's roots as this session knows them, without a question. `await ctx.roots()` works on every wire.

        Raises: RootsUnknown where none were fetched: before the first fetch of a session, without a session, and always
        on the stateless protocol; MissingCapability if the client has no roots.
        """
        exchange = self.exchange
        require_roots(exchange.client.capabilities)
        roots = exchange.session.roots if exchange.session is not None else None
        known = roots.known if roots is not None else None
        if known is None or self._inputs is None:
            raise RootsUnknown("no roots of this client were fetched; ask for them with `await ctx.roots()`")
        return self._inputs.bounded(known)

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
            raise CallFinished(
                "this call has ended; nothing can be sent for it any more, but by a job of ctx.background with a "
                "ctx.detach() that it is given"
            )
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

    def _do(self, action: Callable[..., T], *args: Any) -> T:
        """Run what touches the event loop's state on the event loop."""
        if self._exchange is None or threading.get_ident() == self._thread:
            return action(*args)
        try:
            outcome = anyio.from_thread.run_sync(_carried, action, *args)
        except anyio.NoEventLoopError:
            raise RuntimeError(OWN_THREAD) from None
        if isinstance(outcome, Suspend):
            raise outcome
        return outcome


def _check_patience(timeout: Any, retries: Any) -> None:
    """Raises: ConfigurationError for what are no seconds, or no count."""
    if timeout is not None:
        number("timeout", timeout)
    number("retries", retries, whole=True)


def _check_work(what: str, name: Any, function: Any) -> None:
    """Raises: TypeError for what is no name, and for what has been called already, or is no function at all."""
    if not isinstance(name, str):
        raise TypeError(f"ctx.{what} takes a name first, and then the function to run, not {name!r}")
    if callable(function):
        return
    given = "its result"
    if isinstance(function, Coroutine):
        given = "its coroutine"
        function.close()
    raise TypeError(
        f"ctx.{what} takes the function to run, not {given}: ctx.{what}({name!r}, function, *args) and not {function!r}"
    )


def _carried(action: Callable[..., T], *args: Any) -> T | Suspend:
    """What came of it. A Suspend that passed through the event loop would be an error to it."""
    try:
        return action(*args)
    except Suspend as stop:
        return stop


def _send(method: str, exchange: Exchange, params: Any) -> None:
    if not exchange.notify(method, params):
        logger.debug(
            "%s of %s was dropped: its stream is closed, full, or takes the response alone", method, exchange.name
        )


async def _drain(exchange: Exchange | None) -> None:
    if exchange is not None:
        await exchange.stream.drain()


async def _work(run: StepRun) -> Any:
    await run.run()
    return run.result()
