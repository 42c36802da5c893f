"""Reverse calls: what the server asks over a connection of the session-based protocol.

How it works: a question is taken in where its message is read, without waiting, and answered in a task of its own,
after its turn. Which call it belongs to, its message does not say. On HTTP the stream says it, which is read in the
task that sent the request: the question holds that call's clock, and is withdrawn if that call is given up, for its
stream is closed then and the server cannot say so any more. Elsewhere the idle clocks of all calls stand still while
one is answered: a time-out that comes late costs a wait, one that comes too early costs the call.

What is open, and what waits to be sent, is bounded, whatever the server sends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection

import anyio

from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    BackchannelError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
)
from ..nursery import Nursery, being_cancelled
from ..one_line import one_line
from ..protocol.jsonrpc import ErrorObject, ErrorResponse, Message, Request, RequestId, Response
from ..protocol.methods import METHODS, Direction, lookup
from ..protocol.peer import Peer
from ..protocol.versions import Version
from .answers import Answers, Question
from .call import Call
from .transport import Transport

logger = logging.getLogger("backchannel.client")

_ALWAYS = frozenset({"roots/list"})
"""What a strict client answers at any time, besides `ping`, which the Peer answers."""
MOST_OPEN = 1000
"""Questions that are open at once; what comes beyond is refused."""
MOST_REPLIES = 10_000
"""Responses that are known already and wait to be sent; what comes beyond is dropped."""
_SENDERS = 8
_FINAL = KeyboardInterrupt | SystemExit


class ReverseCalls:
    """Those of one connection.  strict: refuse what belongs to no call in flight.  drop: called for each response that
    is not sent."""

    def __init__(
        self,
        peer: Peer,
        answers: Answers,
        transport: Transport,
        nursery: Nursery,
        strict: bool,
        drop: Callable[[], None],
    ):
        self._peer = peer
        self._answers = answers
        self._transport = transport
        self._nursery = nursery
        self._strict = strict
        self._drop = drop
        self._replies: deque[Response | ErrorResponse] = deque()

    def take(self, request: Request, version: Version | None, asking: Call | None, calls: Collection[Call]) -> None:
        """One has come: answer it in a task of its own.

        asking: the call whose stream it came on, where requests have streams.  calls: those in flight.
        """
        try:
            self._check(request.method, version, asking, calls)
            question = self._answers.read(request.method, request.params)
        except RemoteProtocolError as error:
            if error.code == INVALID_PARAMS:
                logger.warning("refused what the server asks: %s", one_line(error))
            self._peer.finish(request.id)
            self.reply(_failure(request.id, error))
            return
        scope = anyio.CancelScope()
        self._peer.serve(request.id, scope)
        held = tuple(calls) if asking is None else (asking,)
        for call in held:
            call.hold()
            call.asked = True
        if asking is not None:
            asking.questions.add(scope)
        question.queue(nested=self._answers.nested or any(call.nested for call in held))
        self._nursery.start(self._serve, request.id, question, scope, held)

    def _check(self, method: str, version: Version | None, asking: Call | None, calls: Collection[Call]) -> None:
        """Raises: RemoteProtocolError if the server may not ask this, or not now."""
        if self._nursery.count(self._serve) >= MOST_OPEN:
            raise RemoteProtocolError(INTERNAL_ERROR, "too many questions are open")
        if version is not None and method in METHODS and lookup(method, version, Direction.SERVER) is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, f"protocol version {version} has no {method}")
        in_a_call = asking is not None if self._transport.request_streams else bool(calls)
        if self._strict and not in_a_call and method not in _ALWAYS:
            raise RemoteProtocolError(INVALID_REQUEST, "this client answers only while a call of its own is in flight")

    async def _serve(self, id: RequestId, question: Question, scope: anyio.CancelScope, held: tuple[Call, ...]) -> None:
        reply: Message | None = None
        try:
            with scope:
                reply = await self._answer(id, question)
        finally:
            for call in held:
                call.resume()
                call.questions.discard(scope)
        if self._peer.finish(id, scope) and reply is not None:
            await self._deliver(reply)

    async def _answer(self, id: RequestId, question: Question) -> Message:
        try:
            return Response(id, await question.answer())
        except ProtocolError as error:
            return _failure(id, error)
        except BaseException as error:
            cancelled = isinstance(error, anyio.get_cancelled_exc_class())
            if isinstance(error, _FINAL) or (cancelled and being_cancelled()):
                raise
            logger.exception("a handler for %s failed", question.method)
            return _failure(id, ProtocolError(INTERNAL_ERROR, "the client's handler failed"))

    def reply(self, message: Response | ErrorResponse) -> None:
        """Send a response that is known already."""
        if message.id is None:
            return  # it answers nothing that the other side could name
        if len(self._replies) >= MOST_REPLIES:
            return self._drop()
        self._replies.append(message)
        if self._nursery.count(self._send_replies) < _SENDERS:
            self._nursery.start(self._send_replies)

    async def _send_replies(self) -> None:
        while self._replies:
            await self._deliver(self._replies.popleft())

    async def _deliver(self, message: Message) -> None:
        try:
            await self._transport.send(message)
        except LocalProtocolError as error:
            logger.error("an answer to the server could not be sent: %s", one_line(error))
            if isinstance(message, Response):
                await self._deliver(_failure(message.id, ProtocolError(INTERNAL_ERROR, "the answer has no JSON form")))
        except BackchannelError as error:
            logger.warning("an answer to the server was not delivered: %s", one_line(error))


def _failure(id: RequestId, error: ProtocolError) -> ErrorResponse:
    return ErrorResponse(id, ErrorObject(error.code, error.message, error.data))
