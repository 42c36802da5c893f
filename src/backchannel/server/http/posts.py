"""One POST, from its verdict to its response, in both eras (basic/transports/streamable-http; 2025-11-25
basic/transports)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import anyio

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, LocalProtocolError, UnsupportedVersion
from ...protocol.http import STATUS, Accept, Call, Legacy, Refusal
from ...protocol.jsonrpc import (
    Answers,
    Batch,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Outcome,
    Request,
    RequestId,
)
from ...protocol.peer import Incoming
from ...protocol.peer import Reply as Answer
from ...protocol.versions import ASSUMED, parse
from ..batches import batch_of, serve_all, take
from ..channel import read
from ..dispatch import Dispatcher
from ..exchange import NOWHERE, ClientInfo, Exchange, Principal
from ..failures import answer_cancelled
from ..session import Session
from ..streams import EventStream
from .reply import Reply
from .responses import Receive, Send, Watch, Watches, send_json
from .session import HttpSession
from .sessions import Sessions

_LAST_WORDS = 1.0  # seconds for handlers to end that were cancelled


class Posts:
    """Serves the POSTs of one app, from its start to its end.

    sessions: None where legacy clients get no session.
    """

    def __init__(self, dispatcher: Dispatcher, sessions: Sessions | None):
        self.sessions = sessions
        self.tally = dispatcher.tally
        self.stopping = False
        self._dispatcher = dispatcher
        self._limits = dispatcher.server.limits
        self._running: dict[Exchange, Reply] = {}
        self._one_ended: asyncio.Event | None = None
        self.watches = Watches()

    def serve(
        self, post: Call | Legacy, principal: Principal | None, receive: Receive, send: Send
    ) -> Coroutine[Any, Any, None]:
        """What serves one POST, to be awaited."""
        message = post.request if isinstance(post, Call) else post.message
        if self.stopping and isinstance(message, Request):
            return send_json(send, 503, _error(message.id, "the server is shutting down", INTERNAL_ERROR))
        if isinstance(post, Legacy):
            return self._legacy(post, principal, receive, send)
        meta, accept = post.params.meta, post.accept
        client = ClientInfo(meta.client_info, meta.client_capabilities or {})
        exchange = Exchange(post.request, post.method, post.params, post.version, client, NOWHERE, None, principal)
        if accept.json and not accept.sse_first and (response := self._dispatcher.at_once(exchange)) is not None:
            return send_json(send, _status(exchange, response), response)
        exchange.stream = reply = self._reply(send, accept)
        return self._respond(exchange, reply, receive)

    async def close(self, grace: float) -> None:
        """Take no more requests. Standing streams end now, calls within `grace` seconds, and what is left then is
        cancelled."""
        self.stopping = True
        self._dispatcher.closing.set()
        if self.sessions is not None:
            self.sessions.hang_up([reply.stream for reply in self._running.values()])
        await self._settle(grace)
        if self.sessions is not None:
            self.sessions.close()
        for exchange in list(self._running):
            exchange.cancel("the server is shutting down")
        await self._settle(_LAST_WORDS)

    async def _settle(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._running:
                self._one_ended = asyncio.Event()
                await self._one_ended.wait()

    async def _legacy(self, post: Legacy, principal: Principal | None, receive: Receive, send: Send) -> None:
        session = await self._session(post, principal)
        if isinstance(session, Refusal):
            return await send_json(send, session.status, session.error)
        message = post.message
        resumable = session if isinstance(session, HttpSession) else None
        reply = self._reply(send, post.accept, resumable, single=_starts(message))
        batch = batch_of(message, session)
        if batch is not None:
            return await self._batch(batch, session, principal, reply, receive, send)
        event = session.receive(message)
        if isinstance(event, Answer):
            return await reply.finish(event.message, 400 if isinstance(message, Malformed) else 200)
        if not isinstance(event, Incoming):
            # It was a notification or a response: "202 Accepted with no body", or else "a JSON-RPC error response that
            # has no id" (2025-11-25 basic/transports, Sending Messages).
            fault = await self._tell(session)
            if isinstance(message, Malformed):
                return await send_json(send, 400, _error(None, message.message, message.code))
            if fault is not None:
                return await send_json(send, fault.status, _error(None, str(fault), fault.code))
            return await send_json(send, 202, None)
        exchange = self._exchange(event.request, session, reply)
        if isinstance(exchange, (LocalProtocolError, UnsupportedVersion)):
            session.peer.finish(event.request.id)
            return await reply.finish(_error(event.request.id, str(exchange), exchange.code), exchange.status)
        exchange.principal = principal
        if resumable is None and not _starts(message):
            exchange.session = None  # it was made for this message, and there is nobody to ask in it
        response = self._dispatcher.at_once(exchange)
        if response is None:
            return await self._respond(exchange, reply, receive)
        session.peer.finish(event.request.id)
        try:
            await self._answer(exchange, response, reply)
        finally:
            reply.close()

    async def _batch(
        self, batch: Batch, session: Session, principal: Principal | None, reply: Reply, receive: Receive, send: Send
    ) -> None:
        """Serve an array of messages; see `_respond`."""
        alone = not isinstance(session, HttpSession)

        def begin(request: Request) -> Exchange:
            exchange = self._exchange(request, session, reply)
            if isinstance(exchange, (LocalProtocolError, UnsupportedVersion)):
                raise exchange
            exchange.principal, exchange.can_stream = principal, reply.streams
            if alone:
                exchange.session = None
            return exchange

        async def gone() -> None:
            reply.leave()
            if alone or await self._is_lost(reply.stream):
                for exchange in exchanges:
                    exchange.cancel("the client has left")

        answers, exchanges = take(batch, session, begin)
        fault = await self._tell(session)
        if fault is not None:
            answers.append(_error(None, str(fault), fault.code))
        if not answers and not exchanges:
            return await send_json(send, 202, None)
        self._running.update(dict.fromkeys(exchanges, reply))
        watch = self.watches.add(Watch(receive, gone, reply.begin if reply.streams else None, self._limits.keep_alive))
        try:
            try:
                answers += await serve_all(self._dispatcher, session, exchanges)
            finally:
                watch.disarm()
            if self.sessions is not None and isinstance(session, HttpSession):
                self.sessions.touch(session)
            await (reply.finish(Answers(answers)) if answers else reply.abandon())
        finally:
            reply.close()
            for exchange in exchanges:
                self._ended(exchange)

    async def _session(self, post: Legacy, principal: Principal | None) -> Session | Refusal:
        """The session that a message belongs to: one that is there, one that begins, or one for this message alone."""
        message, sessions = post.message, self.sessions
        if sessions is None:
            alone = Session(EventStream(), principal=principal)
            if not _starts(message):
                alone.assume(parse(post.version or "") or ASSUMED)
            return alone
        id = message.id if isinstance(message, Request | Malformed) else None
        if post.session_id is not None:
            try:
                session = await sessions.find(post.session_id, principal)
            except LocalProtocolError as error:
                return Refusal(error.status, _error(id, str(error), error.code))
            return session or Refusal(404, _error(id, "Session not found"))
        if _starts(message):
            session = sessions.new(principal)
            return session or Refusal(503, _error(id, "too many sessions are open on this server"))
        if isinstance(message, Malformed):
            return Refusal(400, message.reply())
        return Refusal(400, _error(id, "Bad Request: the Mcp-Session-Id header is missing"))

    def _exchange(
        self, request: Request, session: Session, reply: Reply
    ) -> Exchange | LocalProtocolError | UnsupportedVersion:
        if session.peer.serving > self._limits.in_flight:
            return LocalProtocolError(INTERNAL_ERROR, "too many requests in flight in this session", status=429)
        try:
            return read(request, session, reply, self._dispatcher.server.methods)
        except (LocalProtocolError, UnsupportedVersion) as error:
            return error

    def _reply(self, send: Send, accept: Accept, session: HttpSession | None = None, single: bool = False) -> Reply:
        return Reply(send, accept, self.tally, self._limits.keep_alive, session, single)

    async def _respond(self, exchange: Exchange, reply: Reply, receive: Receive) -> None:
        """Serve a request. In a session a client that leaves does not cancel it: "Disconnection SHOULD NOT be
        interpreted as the client cancelling its request" (2025-11-25 basic/transports). Elsewhere it does: "Closing the
        SSE response stream MUST be treated by the server as cancellation" (basic/transports/streamable-http)."""
        session, id, gone = exchange.session, exchange.request.id, partial(self._gone, exchange, reply)
        if session is not None:
            session.peer.serve(id, exchange)
        exchange.can_stream = reply.streams
        self._running[exchange] = reply
        watch = self.watches.add(Watch(receive, gone, reply.begin if reply.streams else None, self._limits.keep_alive))
        lost: BaseException | None = None
        try:
            try:
                response = await self._dispatcher(exchange)
            except anyio.get_cancelled_exc_class() as error:
                response, lost = answer_cancelled(exchange), error
            finally:
                watch.disarm()
                if session is not None:
                    session.peer.finish(id, exchange)
            if lost is None:
                await self._answer(exchange, response, reply)
            else:  # by the handler, or by the ASGI server, whose task this is
                with anyio.move_on_after(_LAST_WORDS):
                    await self._answer(exchange, response, reply)
                raise lost
        finally:
            reply.close()
            self._ended(exchange)

    async def _gone(self, exchange: Exchange, reply: Reply) -> None:
        reply.leave()
        if exchange.session is None or await self._is_lost(reply.stream):
            exchange.cancel("the client has left")

    def _ended(self, exchange: Exchange) -> None:
        del self._running[exchange]
        if self._one_ended is not None:
            self._one_ended.set()

    def _answer(self, exchange: Exchange, response: Outcome, reply: Reply) -> Coroutine[Any, Any, None]:
        """What sends the response, to be awaited."""
        session, status = exchange.session, 200
        if exchange.cancelled:
            if not self.stopping:
                return reply.abandon()
            response, status = _error(exchange.request.id, "the server is shutting down", INTERNAL_ERROR), 503
        elif isinstance(response, ErrorResponse):
            status = _status(exchange, response)
        elif self.sessions is not None and isinstance(session, HttpSession):
            self.sessions.touch(session)
            if session.words or exchange.name == "initialize":
                return self._keep(exchange, session, self.sessions, response, reply)
        return reply.finish(response, status)

    async def _keep(
        self, exchange: Exchange, session: HttpSession, sessions: Sessions, response: Outcome, reply: Reply
    ) -> None:
        """Keep what a request has made of its session, and send its response; an error if that cannot be."""
        begins = exchange.name == "initialize"
        try:
            if begins:
                await sessions.keep(session, exchange)
            await sessions.tell(session)
        except LocalProtocolError as error:
            return await reply.finish(_error(exchange.request.id, str(error), error.code), error.status)
        if begins:
            reply.headers.append((b"mcp-session-id", session.id.encode()))
        await reply.finish(response)

    async def _tell(self, session: Session) -> LocalProtocolError | None:
        """Hand on what other places of a session have to know. Returns the error if that cannot be."""
        if self.sessions is not None and isinstance(session, HttpSession) and session.words:
            try:
                await self.sessions.tell(session)
            except LocalProtocolError as error:
                return error
        return None

    async def _is_lost(self, stream: EventStream) -> bool:
        """Wait until a client that has left a call of its session has not come back in time."""
        if self._limits.away is None:
            return False
        await stream.abandoned(self._limits.away)
        return True


def _status(exchange: Exchange, response: Outcome) -> int:
    if type(response) is ErrorResponse and exchange.version.is_modern:
        return STATUS.get(response.error.code, 200)
    return 200


def _starts(message: Message | Malformed) -> bool:
    return isinstance(message, Request) and message.method == "initialize"


def _error(id: RequestId | None, text: str, code: int = INVALID_REQUEST) -> ErrorResponse:
    return ErrorResponse(id, ErrorObject(code, text))
