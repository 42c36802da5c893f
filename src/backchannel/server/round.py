"""One round of a call: one run of its handler, from the top. It knows the handler's places in the journal, and does the
work that is recorded there.

How it works: each ask and each step takes its place when it is made. `check` says whether it may. A step runs in the
server's nursery; what it gives is recorded, and a round that has it recorded does not run it again. What a call needs
only if it asks or tells is made when it first does.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from ..errors import INTERNAL_ERROR, CallFinished, JournalMismatch, LocalProtocolError
from ..nursery import Nursery, current_task
from ..protocol.journal import STEP, Entry, Journal, Status
from .exchange import Exchange
from .question import Question, Where, suspend
from .steps import StepRun, in_job, in_step, run_job
from .told import Told, was_told


class Round:
    """Places and work.

    exchange: the call.  nursery: runs the steps.  threaded: the handler runs in a worker thread.  call_id: names the
    call over all its rounds; the first round makes it up.  journal: what earlier rounds recorded.  round: from 1.
    clock: in seconds since the epoch.

    started: when the call has.  suspended: the round ends with questions.  failure: the call cannot go on.  ended: the
    handler has.  steps: what was begun in it.
    """

    suspended = False
    failure: Exception | None = None
    ended = False

    def __init__(
        self,
        exchange: Exchange,
        nursery: Nursery,
        threaded: bool = False,
        call_id: str = "",
        journal: Journal | None = None,
        round: int = 1,
        clock: Callable[[], float] = time.time,
    ):
        self.exchange = exchange
        self.round = round
        self.started = clock()
        self._clock = clock
        self._call_id = call_id
        self._nursery = nursery
        self._task = None if threaded else current_task()
        self._questions: list[Question[Any]] = []
        self.steps: list[StepRun] = []
        self._journal = journal
        self._told: Told | None = None
        if journal is not None and was_told(journal):
            self.told()  # it knows how far progress was

    @property
    def journal(self) -> Journal:
        """What earlier rounds recorded, and this one."""
        if self._journal is None:
            self._journal = Journal()
        return self._journal

    def told(self) -> Told:
        """What the client was told."""
        if self._told is None:
            self._told = Told(self.exchange, self.journal)
        return self._told

    @property
    def call_id(self) -> str:
        """Names the call over all its rounds."""
        if not self._call_id:
            self._call_id = os.urandom(16).hex()
        return self._call_id

    @property
    def stopped(self) -> bool:
        """Whether the handler's own end no longer counts."""
        return self.suspended or self.failure is not None

    def live(self) -> None:
        """Raises: CallFinished after the handler; before, what stopped it: a mismatch, or Suspend."""
        if not (self.ended or self.suspended or self.failure is not None):
            return
        if self.ended or in_job.get():
            raise CallFinished(
                "this call has ended; finish what uses its context before the handler returns, or do it in a job of "
                "ctx.background, which asks and tells with a ctx.detach() that it is given"
            )
        if self.failure is not None:
            raise self.failure
        suspend(self._task)

    def is_new(self, where: Where) -> bool:
        """Whether the message that the line `where` sends now was not sent in an earlier round."""
        return self.told().is_new(where)

    def dump(self) -> bytes:
        """The journal as JSON, for the next round."""
        if self._told is not None or self.exchange.progress > -math.inf:
            self.told().record()
        return self.journal.dump()

    def check(self, key: str | None = None) -> None:
        """Raises: as `live`; LocalProtocolError from a task that may not take a place; ValueError for a bad key."""
        self.live()
        if key is not None:
            return check_key(key)
        if in_step.get():
            raise LocalProtocolError(
                INTERNAL_ERROR,
                "a step asks nothing and makes no steps: its work is not run again to find its place. Ask before the "
                "step, and hand it the answer",
            )
        if self._task is not None and self._task is not current_task():
            raise LocalProtocolError(
                INTERNAL_ERROR,
                "a question or step was made in another task than the handler's, where its place would depend on "
                "timing. Give it a key=, or make it in the handler's own task (in place of asyncio.wait_for(helper()) "
                "use asyncio.timeout(), which does not start a task)",
            )

    def _place(self, kind: str, text: str, digest: str, key: str | None) -> Entry:
        try:
            return self.journal.place(kind, text, digest, key)
        except JournalMismatch as mismatch:
            self.failure = mismatch
            raise

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
        run = self._run(name, function, args, kwargs, key)
        return self._made(partial(self._finish_step, run), partial(self._stop_step, run), where)

    def _run(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str | None,
        digest: str = "",
    ) -> StepRun:
        """Take a place for work, and begin it if nothing is recorded there."""
        run = StepRun(self._place(STEP, name, digest, key), function, args, kwargs)
        if not run.done:
            self.steps.append(run)
            self._nursery.start(run.run)
        return run

    def background(self, key: str, job: Callable[[], Any]) -> None:
        """Start work that outlives the call, once in all rounds."""
        self.check(key)
        entry = self._place(STEP, key, "background", key)
        if entry.status is Status.OPEN:
            entry.status = Status.DONE
            self._nursery.start(run_job, f"{key} of {self.exchange.target}", job)

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


def check_key(key: str) -> None:
    if not isinstance(key, str):
        raise TypeError(f"a key is a text, not {key!r}")
    if not key.isprintable() or "~" in key or not key:
        raise ValueError(f"the key {key!r} is not printable text without '~'")
