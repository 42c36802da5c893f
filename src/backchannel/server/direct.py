"""DirectInputs: questions as reverse calls, requests of the server while a call is in flight (2025-11-25
client/elicitation, client/sampling, client/roots)."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any, TypeVar

import anyio

from ..errors import (
    METHOD_NOT_FOUND,
    AskTimeout,
    BackchannelError,
    CallFinished,
    ClientLied,
    NoBackChannel,
    RemoteProtocolError,
)
from ..nursery import Nursery
from ..protocol.jsonrpc import ErrorObject, ErrorResponse, Request, Response
from ..waiter import Waiter
from .asks import Ask
from .exchange import Exchange
from .inputs import Inputs
from .question import Where
from .session import Session

T = TypeVar("T")
POLL_INTERVAL = 1.0
"""Seconds between two looks at whether a page that the person opened has been completed."""
logger = logging.getLogger("backchannel.server")


class _ReverseCall(Waiter):
    """A question on its way as a request of the server.

    id: of the request.  key: of its place.  deadline: on the event loop's clock.  sent: the client may have seen it.
    """

    __slots__ = ("deadline", "id", "key", "sent")

    def __init__(self, key: str, timeout: float | None):
        super().__init__()
        self.id = 0
        self.key = key
        self.deadline = math.inf if timeout is None else anyio.current_time() + timeout
        self.sent = False


class DirectInputs(Inputs):
    """Asks on the call's own stream. timeout: seconds for a question that has none of its own."""

    def __init__(self, exchange: Exchange, nursery: Nursery, threaded: bool = False, timeout: float | None = None):
        super().__init__(exchange, nursery, threaded)
        self._timeout = timeout
        self._open: set[_ReverseCall] = set()

    @property
    def _session(self) -> Session:
        session = self.exchange.session
        if session is None:
            raise NoBackChannel(
                "this server has no session with the client, so it cannot ask: the operator can turn sessions on "
                "(http_app(..., sessions=True)), or the client can speak protocol version 2026-07-28"
            )
        return session

    def _reach(self) -> None:
        if self._session and not self.exchange.can_stream:
            raise NoBackChannel(
                "the client takes this response as JSON only, and a question needs a stream (SSE): the client has to "
                "send Accept: application/json, text/event-stream"
            )

    def _put(self, ask: Ask[Any], key: str | None, timeout: float | None, where: Where) -> _ReverseCall:
        params = ask.params(self.exchange.version, f"{self.call_id}-{len(self.journal.entries)}")
        place = self._place(ask.method, ask.text, ask.digest, key).key
        call = _ReverseCall(place, timeout if timeout is not None else self._timeout)
        call.id = self._session.peer.open(call)
        self._open.add(call)
        self._session.when_ready(partial(self._send, call, Request(call.id, ask.method, params)))
        return call

    def _send(self, call: _ReverseCall, request: Request) -> None:
        if call.done:
            return
        call.sent = self.exchange.stream.append(request)
        if not call.sent:
            call.fail(NoBackChannel("the stream to the client is closed or full; the question was not sent"))

    async def _fetch(self, ask: Ask[Any], ticket: _ReverseCall) -> Any:
        self.exchange.hold()
        try:
            with anyio.CancelScope(deadline=ticket.deadline) as scope:
                outcome = await ticket.wait()
        finally:
            self.exchange.resume()
            self._withdraw(ticket)
        if scope.cancelled_caught:
            raise AskTimeout(f"the client did not answer {ask.method} in time")
        if isinstance(outcome, Response):
            return outcome.result
        if not isinstance(outcome, ErrorResponse):
            raise RemoteProtocolError(outcome.code, f"the client's answer cannot be read: {outcome.message}")
        raise self._refused(ask, ticket, outcome.error)

    def _refused(self, ask: Ask[Any], ticket: _ReverseCall, error: ErrorObject) -> BackchannelError:
        logger.warning(
            "%s: the client answered the question %r with error %d: %s",
            self.exchange.target,
            ticket.key,
            error.code,
            error.message,
        )
        if error.code == METHOD_NOT_FOUND:
            return ClientLied(f"the client declared what {ask.method} needs, and then did not know the method")
        return RemoteProtocolError(error.code, error.message, error.data)

    async def _final(self, ask: Ask[T], answer: T, next_key: str) -> bool:
        self.exchange.hold()
        try:
            while not await ask.settled(answer):  # noqa: ASYNC110  what the author's function looks at has no event
                await anyio.sleep(POLL_INTERVAL)
        finally:
            self.exchange.resume()
        return True

    async def fetch(self, asks: dict[str, Ask[Any]]) -> dict[str, Any]:
        """Ask all at once. Returns the raw answers under the same keys. Raises: as the questions do."""
        self._reach()
        tickets = {key: self._put(ask, key, None, ("", 0)) for key, ask in asks.items()}
        try:
            return {key: await self._fetch(asks[key], ticket) for key, ticket in tickets.items()}
        finally:
            self.close()

    def _withdraw(self, ticket: _ReverseCall) -> None:
        """If the client has not answered, tell it, so that its dialog closes."""
        self._open.discard(ticket)
        cancelled = self._session.peer.close(ticket.id, "the question was withdrawn")
        if cancelled is not None and ticket.sent:
            self.exchange.stream.append(cancelled)
        ticket.fail(CallFinished("the question was withdrawn"))

    def close(self) -> None:
        super().close()
        for call in list(self._open):
            self._withdraw(call)
