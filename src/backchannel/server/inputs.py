"""How a handler gets answers: the part that every wire shares.

How it works: an ask takes its place when it is called. `check` refuses what cannot be asked, the ask's own gate refuses
what the client did not declare, and only then does the subclass put the question on its wire. What it returns, the
ticket, has the key of the place; the Question that comes back fetches the answer for it when it is awaited. Steps take
places in the same way. When the handler has returned, `settle` sees to what was made and not awaited. When it has
ended, in whatever way, `close` withdraws what is open: nothing is asked any more.
"""

from __future__ import annotations

import logging
import uuid
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec

from ..errors import (
    INTERNAL_ERROR,
    BackchannelError,
    CallFinished,
    InvalidAnswer,
    LocalProtocolError,
    RemoteProtocolError,
)
from ..nursery import Nursery, current_task
from ..protocol.journal import STEP, Entry, Journal
from ..protocol.types.mrtr import InputRequiredResult
from .asks import Ask
from .exchange import Exchange
from .question import Question, Suspend, Where
from .steps import StepRun, in_step

T = TypeVar("T")
logger = logging.getLogger("backchannel.server")
_warned: dict[Any, Any] = {}  # what `warnings` keeps of the lines that it has named


class Inputs:
    """The base: places, checks and steps.

    exchange: the call.  nursery: runs the steps.  threaded: the handler runs in a worker thread.  call_id: names the
    call over all its rounds; the first round makes it up.

    suspended: the round ends with questions; `asked` is the result that asks them.  failure: the call cannot go on.
    ended: the handler has.
    """

    round = 1

    def __init__(self, exchange: Exchange, nursery: Nursery, threaded: bool = False, call_id: str = ""):
        self.exchange = exchange
        self.journal = Journal()
        self.suspended = False
        self.asked: InputRequiredResult | None = None
        self.failure: Exception | None = None
        self.ended = False
        self._call_id = call_id
        self._nursery = nursery
        self._task = None if threaded else current_task()
        self._questions: list[Question[Any]] = []
        self._steps: list[StepRun] = []

    # What a subclass gives.

    def _put(self, ask: Ask[Any], key: str | None, timeout: float | None, where: Where) -> Any:
        """Take a place, and put a question on the wire or into the journal. Returns the ticket."""
        raise NotImplementedError

    async def _fetch(self, ask: Ask[Any], ticket: Any) -> Any:
        """Wait for the raw answer."""
        raise NotImplementedError

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        """Whether this answer ends the question; if not it is asked again under `next_key`."""
        raise NotImplementedError

    def _withdraw(self, ticket: Any) -> None:
        """Nobody waits for this question any more."""
        raise NotImplementedError

    def _reach(self) -> None:
        """Raises: NoBackChannel if the client cannot be asked at all."""

    def is_new(self, where: Where) -> bool:
        """Whether the message that the line `where` sends now was not sent in an earlier round."""
        return True

    # What all share.

    @property
    def call_id(self) -> str:
        """Names the call over all its rounds."""
        if not self._call_id:
            self._call_id = uuid.uuid4().hex
        return self._call_id

    @property
    def stopped(self) -> bool:
        """Whether the handler's own end no longer counts."""
        return self.suspended or self.failure is not None

    def live(self) -> None:
        """Raises: CallFinished after the handler; before, what stopped it: a mismatch, or Suspend."""
        if self.ended:
            raise CallFinished(
                "this call has ended; finish what uses its context before the handler returns, or hand the work to a "
                "task that outlives it"
            )
        if self.failure is not None:
            raise self.failure
        if self.suspended:
            raise Suspend

    def check(self, key: str | None = None) -> None:
        """Raises: as `live`; LocalProtocolError from a task that may not take a place; ValueError for a bad key."""
        self.live()
        if key is None and in_step.get():
            raise LocalProtocolError(
                INTERNAL_ERROR,
                "a step asks nothing and makes no steps: its work is not run again to find its place. Ask before the "
                "step, and hand it the answer",
            )
        if key is None and self._task is not None and self._task is not current_task():
            raise LocalProtocolError(
                INTERNAL_ERROR,
                "a question or step was made in another task than the handler's, where its place would depend on "
                "timing. Give it a key=, or make it in the handler's own task (in place of asyncio.wait_for(helper()) "
                "use asyncio.timeout(), which does not start a task)",
            )
        if key is not None and (not key.isprintable() or "~" in key or not key):
            raise ValueError(f"the key {key!r} is not printable text without '~'")

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
        ticket = self._put(ask, key, timeout, where)
        answer = partial(self._answer, ask, ticket, retries, partial(self._put, timeout=timeout, where=where))
        return self._made(answer, partial(self._withdraw, ticket), where)

    async def _answer(self, ask: Ask[T], ticket: Any, retries: int, put_again: Callable[..., Any]) -> T:
        attempt, first = 1, ticket.key
        while True:
            self.live()
            raw = await self._fetch(ask, ticket)
            try:
                answer = ask.read(raw)
            except InvalidAnswer as error:
                if attempt > retries:
                    raise
                ask = ask.again(error)
            except (msgspec.DecodeError, RecursionError) as error:
                raise RemoteProtocolError(INTERNAL_ERROR, f"the client's answer is malformed: {error}") from error
            else:
                if ask.until is None or await self._final(ask, answer, f"{first}~{attempt + 1}"):
                    return answer
            attempt += 1
            ticket = put_again(ask, f"{first}~{attempt}")

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
        run = StepRun(self._place(STEP, name, "", key), function, args, kwargs)
        if not run.done:
            self._steps.append(run)
            self._nursery.start(run.run)
        return self._made(partial(self._finish_step, run), partial(self._stop_step, run), where)

    def _place(self, kind: str, text: str, digest: str, key: str | None) -> Entry:
        return self.journal.place(kind, text, digest, key)

    def _made(self, answer: Callable[[], Any], withdraw: Callable[[], None], where: Where) -> Question[Any]:
        question: Question[Any] = Question(answer, withdraw, where)
        self._questions.append(question)
        return question

    async def _finish_step(self, run: StepRun) -> Any:
        self.live()
        try:
            await run.wait()
        except anyio.get_cancelled_exc_class():
            self._stop_step(run)
            raise
        return run.result()

    def _stop_step(self, run: StepRun) -> None:
        """Nobody waits for a step any more. If that is because the round ends, it is finished and recorded."""
        if not self.suspended:
            run.cancel()

    async def settle(self) -> None:
        """The handler has returned: ask what was made and not awaited, and finish what was begun."""
        for question in self._questions:
            if not question.awaited:
                text = "a question or step was made and never awaited; it was asked all the same"
                warnings.warn_explicit(text, RuntimeWarning, *question.where, registry=_warned)
                await self._settle(question)
        await self.finish_steps()

    async def _settle(self, question: Question[Any]) -> None:
        try:
            await question
        except BackchannelError as error:
            logger.debug("what nobody waited for ended with %s", type(error).__name__)

    async def finish_steps(self) -> None:
        """Wait for every step that has started, so that it is recorded."""
        for run in self._steps:
            await run.wait()

    def close(self) -> None:
        """The handler has ended: withdraw what is still open, stop what still runs."""
        self.ended = True
        for run in self._steps:
            run.cancel()
        self._questions.clear()  # which know these inputs: no cycle is left of a call
