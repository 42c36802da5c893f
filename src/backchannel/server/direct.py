"""DirectInputs: questions as reverse calls, requests of the server while a call is in flight (2025-11-25
client/elicitation, client/sampling, client/roots)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec

from ..errors import AskTimeout, CallFinished, NoBackChannel
from ..nursery import Nursery
from ..one_line import one_line
from ..protocol.journal import Entry, Journal, Status
from ..protocol.jsonrpc import ErrorObject, ErrorResponse, Request, RequestId, Response
from ..protocol.methods import METHODS
from ..waiter import Waiter
from .alarm import Alarm
from .asks import Ask, Roots
from .exchange import Exchange
from .inputs import Inputs, failure, malformed
from .lookout import completed
from .question import Where
from .session import Session

if TYPE_CHECKING:
    from .session_roots import SessionRoots

T = TypeVar("T")
PATIENCE = 3
"""Questions of a session that nobody answers, one after the other, until no more are asked."""
logger = logging.getLogger("backchannel.server")


class _Late(Exception):
    """The time for an answer is over."""


class _ReverseCall(Waiter):
    """A question on its way as a request of the server.

    id: of the request.  alarm: ends its time.  sent: the client may have seen it.  before: what it waits for before it
    is sent.
    """

    __slots__ = ("alarm", "before", "id", "sent")

    def __init__(self, timeout: float | None):
        super().__init__()
        self.id: RequestId = 0
        self.alarm = Alarm(timeout, self._end) if timeout is not None else None
        self.sent = False
        self.before: anyio.CancelScope | None = None

    def _end(self) -> None:
        self.fail(_Late())
        if self.before is not None:
            self.before.cancel()


class DirectInputs(Inputs):
    """Asks on the call's own stream. timeout: seconds for a question that has none of its own.

    own: asks for a handler. Then what the session knows of roots is an answer, and patience has an end.
    """

    own = True

    def __init__(
        self,
        exchange: Exchange,
        nursery: Nursery,
        threaded: bool = False,
        timeout: float | None = None,
        journal: Journal | None = None,
        call_id: str = "",
    ):
        super().__init__(exchange, nursery, threaded, call_id, journal)
        self._timeout = timeout
        self._calls: dict[str, _ReverseCall] = {}

    @property
    def _session(self) -> Session:
        session = self.exchange.session
        if session is None:
            raise NoBackChannel(
                "this server has no session with the client, so it cannot ask: the operator can turn sessions on "
                "(sessions=True; with run(), workers=1, or a fleet= for several), or the client can speak protocol "
                "version 2026-07-28"
            )
        return session

    def reach(self) -> None:
        if self.own and self._session.unanswered >= PATIENCE:
            raise AskTimeout(
                f"the client left the last {PATIENCE} questions of this session unanswered; it is not asked again "
                "until it answers one of them"
            )
        if not self.exchange.can_stream:
            raise NoBackChannel(
                "the client takes this response as JSON only, and a question needs a stream (SSE): the client has to "
                "send Accept: application/json, text/event-stream"
            )

    def detach(self) -> Inputs:
        from .standing import StandingInputs

        inputs = StandingInputs(self.exchange.detached(self._session), self._nursery, self._timeout, self.call_id)
        inputs.sampler, inputs.within, inputs.around = self.sampler, self.within, self.around
        return inputs

    def _open(self, ask: Ask[Any], entry: Entry, timeout: float | None, where: Where) -> None:
        call = self._calls[entry.key] = _ReverseCall(timeout if timeout is not None else self._timeout)
        roots = self._roots(ask)
        if roots is not None and roots.current and roots.raw is not None:
            entry.status, entry.value = Status.DONE, roots.raw
        elif roots is None or not roots.coming:
            self._ask(call, ask, entry)

    def _roots(self, ask: Ask[Any]) -> SessionRoots | None:
        """What the session knows, where it is what this question is about."""
        return self._session.roots if self.own and isinstance(ask, Roots) else None

    def _ask(self, call: _ReverseCall, ask: Ask[Any], entry: Entry) -> None:
        params, session = self._params(ask, entry), self._session
        call.id = session.peer.open(call)
        session.when_ready(partial(self._send, call, Request(call.id, ask.method, params)))

    def _send(self, call: _ReverseCall, request: Request) -> None:
        if call.done:
            return
        call.sent = self.exchange.stream.append(request)
        if not call.sent:
            call.fail(NoBackChannel("the stream to the client is closed or full; the question was not sent"))

    async def _wait(self, ask: Ask[Any], entry: Entry) -> None:
        call = self._calls[entry.key]
        self.exchange.hold()
        try:
            outcome = await (call.wait() if call.id else self._outcome(call, ask, entry))
        except _Late:
            outcome = None
        finally:
            self.exchange.resume()
            self._withdraw(entry)
        if isinstance(outcome, Response):
            entry.status, entry.value = Status.DONE, outcome.result
            if isinstance(ask, Roots) and self._session.roots is not None:
                self._session.roots.learn(outcome.result)
            return
        error = None
        if outcome is None:
            self._session.unanswered += self.own
        else:
            error = self._refused(entry, outcome)
        entry.status, entry.value = Status.FAILED, msgspec.Raw(msgspec.json.encode(error))

    async def _outcome(self, call: _ReverseCall, ask: Ask[Any], entry: Entry) -> Any:
        if (roots := self._roots(ask)) is not None and not call.done:  # the session asks just now
            with anyio.CancelScope() as call.before:
                await roots.settled()
            if not call.done:
                if roots.raw is not None:
                    return Response(0, roots.raw)
                self._ask(call, ask, entry)
        return await call.wait()

    def _refused(self, entry: Entry, outcome: Any) -> tuple[int, str, Any]:
        """Code, message and data of an answer that is none."""
        if not isinstance(outcome, ErrorResponse):
            return outcome.code, f"the client's answer cannot be read: {outcome.message}", None
        error: ErrorObject = outcome.error
        logger.warning(
            "%s: the client answered the question %r with error %d: %s",
            one_line(self.exchange.target),
            entry.key,
            error.code,
            one_line(error.message),
        )
        return error.code, error.message, error.data

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        await completed(self.exchange, ask, answer, f"{self.call_id}-{next_key.rpartition('~')[0]}")
        return True

    async def fetch(self, asks: dict[str, Ask[Any]], now: float) -> None:
        """Ask what is open in the journal, all at once, and record the answers. now: seconds since the epoch.

        Raises: NoBackChannel; where a question that the handler returned has no answer, which no line of the handler
        waits for, what an inline one would raise.
        """
        self.reach()
        entries = {key: self.journal.entries[key] for key in asks}
        try:
            for key, entry in entries.items():
                timeout = None if entry.deadline is None else max(entry.deadline - now, 0.0)
                self._open(asks[key], entry, timeout, ("", 0))
            for key, entry in entries.items():
                await self._wait(asks[key], entry)
                if entry.explicit:
                    _check(asks[key], entry)
        finally:
            self.close()

    def _withdraw(self, entry: Entry) -> None:
        """If the client has not answered, tell it, so that its dialog closes."""
        call = self._calls.pop(entry.key, None)
        if call is None:
            return
        cancelled = self._session.peer.close(call.id, "the question was withdrawn") if call.id else None
        if cancelled is not None and call.sent:
            self.exchange.stream.append(cancelled)
        if call.alarm is not None:
            call.alarm.stop()
            call.alarm = None  # which knows the call
        if not call.done:
            call.fail(CallFinished("the question was withdrawn"))

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._calls:
                for key in list(self._calls):
                    self._withdraw(self.journal.entries[key])


def _check(ask: Ask[Any], entry: Entry) -> None:
    """Raises: as an inline question without an answer, or with none of the shape of one."""
    if entry.status is Status.FAILED:
        raise failure(ask, entry)
    try:
        msgspec.json.decode(entry.value, type=METHODS[entry.kind].result)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(error) from error
