"""How a handler gets answers: the part that every wire shares, and DirectInputs, which asks by reverse calls.

How it works: an ask takes its place when it is called. `check` refuses what cannot be asked, the ask's own gates refuse
what the client did not declare, and only then does the subclass put the question on its wire. The Question that comes
back fetches the answer when it is awaited. Steps take places in the same way. `settle` is called when the handler has
returned: what was asked and not awaited is still asked, what was begun is finished.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec

from ..errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    AskTimeout,
    CallFinished,
    ClientLied,
    InvalidAnswer,
    LocalProtocolError,
    NoBackChannel,
    RemoteProtocolError,
)
from ..nursery import Nursery, current_task
from ..protocol.journal import STEP, Entry
from ..protocol.jsonrpc import ErrorResponse, Request, Response
from ..waiter import Waiter
from .asks import Ask
from .exchange import Exchange
from .question import Question, Where
from .session import Session
from .steps import StepRun

T = TypeVar("T")
POLL_INTERVAL = 1.0
"""Seconds between two looks at whether a page that the person opened has been completed."""


class Inputs:
    """The base: places, checks and steps.

    exchange: the call.  nursery: runs the steps.  call_id: names the call over all its rounds.
    """

    suspended = False
    replaying = False
    round = 1

    def __init__(self, exchange: Exchange, nursery: Nursery, call_id: str, threaded: bool = False):
        self.exchange = exchange
        self.call_id = call_id
        self._nursery = nursery
        self._task = None if threaded else current_task()
        self._questions: list[Question[Any]] = []
        self._steps: list[StepRun] = []
        self._places = 0
        self._at: dict[str, Where] = {}

    # What a subclass gives.

    def _put(self, ask: Ask[Any], key: str | None, timeout: float | None) -> Any:
        """Put a question on the wire, or into the journal. Returns the ticket that `_fetch` takes."""
        raise NotImplementedError

    async def _fetch(self, ask: Ask[Any], ticket: Any) -> Any:
        """Wait for the raw answer."""
        raise NotImplementedError

    def _reach(self) -> Session | None:
        """The session to ask in, on wires that have one. Raises: NoBackChannel if the client cannot be asked at all."""
        return None

    def _withdraw(self, ticket: Any) -> None:
        """Nobody waits for this question any more."""

    def _entry(self, name: str, key: str | None) -> Entry:
        """The journal's entry for a step."""
        self._places += 1
        return Entry(key or f"step-{self._places}", STEP, name, "")

    def _broken(self, error: Exception) -> Exception:
        """What an answer of the wrong shape means on this wire."""
        return RemoteProtocolError(INTERNAL_ERROR, f"the client's answer is malformed: {error}")

    # What all share.

    def check(self, key: str | None = None) -> None:
        """Raises: CallFinished after the call, LocalProtocolError from a task that may not take a place."""
        if self.exchange.finished:
            raise CallFinished(
                "this call has ended; finish what asks before the handler returns, or hand the work to a task that "
                "outlives it"
            )
        if key is None and self._task is not None and current_task() is not self._task:
            raise LocalProtocolError(
                INTERNAL_ERROR,
                "a question or step was made in another task than the handler's, where its place would depend on "
                "timing. Give it a key=, or make it in the handler's own task (in place of asyncio.wait_for(helper()) "
                "use asyncio.timeout(), which does not start a task)",
            )

    def ask(
        self,
        ask: Ask[T],
        where: Where,
        *,
        key: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
    ) -> Question[T]:
        """Ask.

        where: the author's line that asks.  timeout: seconds for the person to answer.  retries: how often an invalid
        answer is asked again.
        """
        self.check(key)
        self._reach()
        ask.gate(self.exchange.client.capabilities, self.exchange.version)
        ticket = self._put(ask, key, timeout)
        self._at[self._key(ticket)] = where
        answer = partial(self._answer, ask, ticket, timeout, retries)
        question: Question[T] = Question(answer, partial(self._withdraw, ticket), where)
        self._questions.append(question)
        return question

    async def _answer(self, ask: Ask[T], ticket: Any, timeout: float | None, retries: int) -> T:
        attempt, first = 1, self._key(ticket)
        while True:
            raw = await self._fetch(ask, ticket)
            try:
                answer = ask.read(raw)
            except InvalidAnswer as error:
                if retries < attempt:
                    raise
                ask = ask.again(error)
            except (msgspec.DecodeError, RecursionError) as error:
                raise self._broken(error) from error
            else:
                if await self._final(ask, answer, f"{first}~{attempt + 1}"):
                    return answer
            attempt += 1
            ticket = self._put(ask, f"{first}~{attempt}", timeout)

    def _key(self, ticket: Any) -> str:
        return str(ticket)

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        """Whether this answer ends the question; if not it is asked again under `next_key`."""
        while not await ask.settled(answer):
            await anyio.sleep(POLL_INTERVAL)  # noqa: ASYNC110  what the author's function looks at has no event
        return True

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str | None,
        where: Where,
    ) -> Question[Any]:
        """Do work once in a call."""
        self.check(key)
        run = StepRun(self._entry(name, key), function, args, kwargs)
        if not run.done.done:
            self._steps.append(run)
            self._nursery.start(run.run)
        question: Question[Any] = Question(partial(self._finish_step, run), run.cancel, where)
        self._questions.append(question)
        return question

    async def _finish_step(self, run: StepRun) -> Any:
        try:
            await run.done.wait()
        except anyio.get_cancelled_exc_class():
            if not self.suspended:
                run.cancel()
            raise
        return run.result()

    async def settle(self) -> None:
        """The handler has returned: ask what was made and not awaited, and finish what was begun."""
        for question in self._questions:
            if not question.awaited:
                file, line = question.where
                text = "a question or step was made and never awaited; it was asked all the same"
                warnings.warn_explicit(text, RuntimeWarning, file, line)
                await self._settle(question)
        await self.finish_steps()

    async def _settle(self, question: Question[Any]) -> None:
        try:
            await question
        except Exception as error:
            del error  # nobody waits for it

    async def finish_steps(self) -> None:
        """Wait for every step that has started, so that it is recorded."""
        for run in self._steps:
            try:
                await run.done.wait()
            except BaseException as error:
                if isinstance(error, anyio.get_cancelled_exc_class()):
                    raise

    def close(self) -> None:
        """The call has ended: withdraw what is still open, stop what still runs."""
        for run in self._steps:
            if not run.done.done:
                run.cancel()


class DirectInputs(Inputs):
    """Questions as reverse calls: a request to the client on the call's own stream, while the call is in flight
    (2025-11-25 client/elicitation, client/sampling, client/roots)."""

    def __init__(
        self,
        exchange: Exchange,
        nursery: Nursery,
        call_id: str,
        threaded: bool = False,
        timeout: float | None = None,
    ):
        super().__init__(exchange, nursery, call_id, threaded)
        self._timeout = timeout
        self._open: dict[int, Waiter] = {}

    def _put(self, ask: Ask[Any], key: str | None, timeout: float | None) -> tuple[int, float | None]:
        exchange, session = self.exchange, self._reach()
        waiter = Waiter()
        id = session.peer.open(waiter)
        self._open[id] = waiter
        try:
            request = Request(id, ask.method, ask.params(exchange.version, f"{self.call_id}-{id}"))
        except BaseException:
            self._forget(id)
            raise
        session.when_ready(partial(self._send, request, waiter))
        return id, timeout if timeout is not None else self._timeout

    def _reach(self) -> Session:
        exchange = self.exchange
        if exchange.session is None:
            raise NoBackChannel(
                "this server has no session with the client, so it cannot ask: the operator can turn sessions on "
                "(http_app(..., sessions=True)), or the client can speak protocol version 2026-07-28"
            )
        if not exchange.can_stream:
            raise NoBackChannel(
                "the client takes this response as JSON only, and a question needs a stream (SSE): the client has to "
                "send Accept: application/json, text/event-stream"
            )
        return exchange.session

    def _send(self, request: Request, waiter: Waiter) -> None:
        if not waiter.done and not self.exchange.stream.append(request):
            waiter.fail(NoBackChannel("the stream to the client is closed or full; the question was not sent"))

    async def _fetch(self, ask: Ask[Any], ticket: tuple[int, float | None]) -> Any:
        id, timeout = ticket
        waiter = self._open[id]
        self.exchange.hold()
        try:
            with anyio.move_on_after(timeout) as scope:
                outcome = await waiter.wait()
            if scope.cancelled_caught:
                raise AskTimeout(f"the client did not answer {ask.method} within {timeout:g} s")
        finally:
            self.exchange.resume()
            self._forget(id)
        if isinstance(outcome, Response):
            return outcome.result
        if isinstance(outcome, ErrorResponse):
            error = outcome.error
            if error.code == METHOD_NOT_FOUND:
                raise ClientLied(f"the client declared what {ask.method} needs, and then did not know the method")
            raise RemoteProtocolError(error.code, error.message, error.data)
        raise RemoteProtocolError(outcome.code, f"the client's answer cannot be read: {outcome.message}")

    def _withdraw(self, ticket: tuple[int, float | None]) -> None:
        self._forget(ticket[0])

    def _key(self, ticket: tuple[int, float | None]) -> str:
        return str(ticket[0])

    def _forget(self, id: int) -> None:
        """Stop waiting. If the client has not answered, tell it, so that its dialog closes."""
        waiter = self._open.pop(id, None)
        session = self.exchange.session
        if waiter is None or session is None:
            return
        cancelled = session.peer.close(id, "the question was withdrawn")
        if cancelled is not None:
            session.when_ready(partial(self.exchange.stream.append, cancelled))

    def close(self) -> None:
        super().close()
        for id in list(self._open):
            self._forget(id)
