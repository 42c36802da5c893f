"""How a handler gets answers: the part that every wire shares.

How it works: an ask takes its place in the journal when it is called. `check` refuses what cannot be asked, the ask's
own gate refuses what the client did not declare, and only then does the subclass open the question on its wire. The
Question that comes back fetches the answer when it is awaited, and the answer is recorded. When the handler has
returned, `settle` sees to what was made and not awaited, and `require` to questions that it returned. When it has
ended, in whatever way, `close` withdraws what is open: nothing is asked any more.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from ..errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    AskTimeout,
    BackchannelError,
    ClientLied,
    InvalidAnswer,
    MissingCapability,
    NoBackChannel,
    RemoteProtocolError,
)
from ..protocol.journal import Entry, Status
from ..protocol.types.base import Wire
from ..protocol.types.mrtr import InputRequest, InputRequiredResult
from .asks import Ask, Sample
from .explicit import Answers, InputRequired
from .middleware import manager
from .question import Question, Where
from .roots import RootList
from .round import Round, check_key
from .sampler import Sampler, produce, produced
from .steps import StepRun

T = TypeVar("T")
logger = logging.getLogger("backchannel.server")
_warned: dict[Any, Any] = {}  # what `warnings` keeps of the lines that it has named
_BRIEF = 180  # characters of a question's text that the journal keeps


class Inputs(Round):
    """The base: questions and answers.

    sampler: the server's own model, for a client whose model cannot be asked.  within: the server's own roots, beyond
    which no roots of the client reach.
    around: context managers, made for each question before it leaves, around the time that it is with the client.
    asked: the result that asks what the round ends with.  loose: answers that came without a requestState of this
    server.
    """

    sampler: Sampler | None = None
    within: RootList | None = None
    around: Sequence[partial[AbstractContextManager[Any]]] = ()
    asked: InputRequiredResult | None = None
    loose: Mapping[str, msgspec.Raw] = MappingProxyType({})

    # Empty ones are replaced and never filled: most calls need none of their own.
    _requests: dict[str, tuple[InputRequest, Where, Ask[Any]]] = {}
    _left: dict[str, ExitStack] = {}

    # What a subclass gives.

    def _open(self, ask: Ask[Any], entry: Entry, timeout: float | None, where: Where) -> None:
        """Put a question without an answer on the wire, or keep it for the end of the round."""
        raise NotImplementedError

    async def _wait(self, ask: Ask[Any], entry: Entry) -> None:
        """Wait until the entry of a question is answered, or has failed."""
        raise NotImplementedError

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        """Whether this answer ends the question; if not it is asked again under `next_key`."""
        raise NotImplementedError

    def _withdraw(self, entry: Entry) -> None:
        """Nobody waits for this question any more."""
        raise NotImplementedError

    def reach(self) -> None:
        """Raises: NoBackChannel if the client cannot be asked at all."""

    # What all share.

    @property
    def answers(self) -> Answers:
        """The answers to questions that the handler returned."""
        return Answers(self.journal, self.loose, self._read)

    def _read(self, ask: Ask[T], raw: Any) -> T:
        """What an answer says, within the server's own bounds."""
        return self.bounded(ask.read(raw))

    def bounded(self, answer: T) -> T:
        """An answer, within the server's own bounds."""
        if self.within is not None and isinstance(answer, RootList):
            return answer.within(self.within)  # type: ignore[return-value]
        return answer

    def _gate(self, ask: Ask[Any]) -> None:
        if ask.by is not None:
            raise TypeError(
                f"{type(ask).__name__}(function) belongs into a parameter's annotation; here it takes a text"
            )
        self.reach()
        ask.gate(self.exchange.client.capabilities, self.exchange.version)

    def ask(
        self,
        ask: Ask[T],
        where: Where,
        key: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
    ) -> Question[T]:
        """Ask.

        where: the author's line that asks.  timeout: seconds for the person to answer.  retries: how often an invalid
        answer is asked again.
        """
        self.check(key)
        try:
            self._gate(ask)
        except (MissingCapability, NoBackChannel):
            if self.sampler is None or not isinstance(ask, Sample):
                raise
            run = self._run(brief(ask.text), produce, (self.sampler, ask.request, timeout), {}, key, ask.digest)
            return self._made(partial(self._finish_own, run), partial(self._stop_step, run), where)
        entry = self._put(ask, key, timeout, where)
        answer = partial(self._answer, ask, entry, retries, timeout, where)
        return self._made(answer, partial(self._withdraw, entry), where)

    def _put(self, ask: Ask[Any], key: str | None, timeout: float | None, where: Where) -> Entry:
        """Take a place, and ask what has no answer there."""
        entry = self._place(ask.method, brief(ask.text), ask.digest, key)
        if entry.status is Status.OPEN:
            if self.around:
                self._leave(ask, entry)
            self._open(ask, entry, timeout, where)
        return entry

    def _leave(self, ask: Ask[Any], entry: Entry) -> None:
        """A question leaves now."""
        with ExitStack() as entered:
            for middleware in self.around:
                entered.enter_context(manager(middleware, ask))
            self._left = self._left or {}
            self._left[entry.key] = entered.pop_all()

    async def _answer(self, ask: Ask[T], entry: Entry, retries: int, timeout: float | None, where: Where) -> T:
        attempt, first = 1, entry.key
        while True:
            self.live()
            if self._left:
                raw = await self._fetch(ask, entry)
            else:
                if entry.status is Status.OPEN:
                    await self._wait(ask, entry)
                raw = self._recorded(ask, entry)
            try:
                answer = self._read(ask, raw)
            except InvalidAnswer as error:
                if attempt > retries:
                    raise
                ask = ask.again(error)
            except (msgspec.DecodeError, RecursionError) as error:
                raise malformed(error) from error
            else:
                if ask.until is None or await self._final(ask, answer, f"{first}~{attempt + 1}"):
                    return answer
            attempt += 1
            entry = self._put(ask, f"{first}~{attempt}", timeout, where)

    async def _fetch(self, ask: Ask[Any], entry: Entry) -> Any:
        """The raw answer, waited for within what is around the question."""
        with self._left.pop(entry.key, None) or nullcontext():
            if entry.status is Status.OPEN:
                await self._wait(ask, entry)
            return self._recorded(ask, entry)

    def _recorded(self, ask: Ask[Any], entry: Entry) -> Any:
        """The raw answer. Raises: why there is none."""
        if entry.named:
            self.told().has_answer(entry.key)
        if entry.status is Status.FAILED:
            raise failure(ask, entry)
        return entry.value

    def require(self, required: InputRequired) -> None:
        """The handler returned questions: the round ends with them, beside those that it made. Raises: as `ask`."""
        for key, ask in required.questions.items():
            check_key(key)
            self._gate(ask)
            entry = self.journal.require(key, ask.method, brief(ask.text), ask.digest)
            if self.around:
                self._leave(ask, entry)
            self._keep(ask, entry, ("", 0))
        self.journal.state = required.state
        self.suspended = True

    def close(self) -> None:
        """The handler has ended: stop what still runs."""
        self.ended = True
        for run in self.steps:
            run.cancel()
        self._questions.clear()  # which know these inputs: no cycle is left of a call
        if self.around:
            with ExitStack() as leaving:
                while self._left:
                    leaving.push(self._left.popitem()[1])
            self.around = ()  # which knows the context, and that knows this

    def _params(self, ask: Ask[Any], entry: Entry) -> Wire | None:
        exchange = self.exchange
        id = f"{self.call_id}-{entry.key}" if ask.named else ""
        return ask.params(exchange.version, id, exchange.client.capabilities)

    def _keep(self, ask: Ask[Any], entry: Entry, where: Where) -> None:
        """Keep a question for the end of the round."""
        self._requests = self._requests or {}
        self._requests[entry.key] = InputRequest(ask.method, self._params(ask, entry)), where, ask

    @property
    def requests(self) -> dict[str, InputRequest]:
        """The questions that the round ends with, in the order in which they were first asked."""
        return {key: request for key, (request, _, _) in self._requests.items()}

    @property
    def asks(self) -> dict[str, Ask[Any]]:
        """The same, as they were asked."""
        return {key: ask for key, (_, _, ask) in self._requests.items()}

    def detach(self) -> Inputs:
        """Inputs that outlive the call. Raises: NoBackChannel where no channel does."""
        raise NoBackChannel(
            "protocol 2026-07-28 has no channel beside the call: finish in the call, or do the work with "
            "ctx.background and tell of the change with server.notify"
        )

    async def _finish_own(self, run: StepRun) -> Any:
        return await produced(self._finish_step(run))

    async def settle(self) -> None:
        """The handler has returned: ask what was made and not awaited, and finish what was begun. A question that is
        kept for the end of the round ends it."""
        for question in self._questions:
            if not question.awaited:
                text = "a question or step was made and never awaited; it was asked all the same"
                warnings.warn_explicit(text, RuntimeWarning, *question.where, registry=_warned)
                await self._settle(question)
        for run in self.steps:
            await run.wait()
        self.suspended = self.suspended or bool(self._requests)

    async def _settle(self, question: Question[Any]) -> None:
        try:
            await question
        except BackchannelError as error:
            logger.debug("what nobody waited for ended with %s", type(error).__name__)


def failure(ask: Ask[Any], entry: Entry) -> BackchannelError:
    """Why a question has no answer, as it was recorded."""
    recorded: tuple[int, str, Any] | None = msgspec.json.decode(entry.value)
    if recorded is None:
        return AskTimeout(f"the client did not answer {ask.method} in time")
    code, message, data = recorded
    if code == METHOD_NOT_FOUND:
        return ClientLied(f"the client declared what {ask.method} needs, and then did not know the method")
    return RemoteProtocolError(code, message, data)


def malformed(error: Exception) -> RemoteProtocolError:
    """An answer has not the shape of an answer to its question."""
    return RemoteProtocolError(INTERNAL_ERROR, f"the client's answer is malformed: {error}")


def brief(text: str) -> str:
    """What the journal keeps of a question's text to compare it by: of a long one the beginning, and a digest."""
    if len(text) <= _BRIEF:
        return text
    return f"{text[:_BRIEF]} {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
