"""One POST, from its verdict to its response, in both eras (basic/transports/streamable-http; 2025-11-25
basic/transports)."""

from __future__ import annotations

import asyncio
import logging

from ...errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    LocalProtocolError,
    UnsupportedVersion,
)
from ...protocol.http import Accept, Call, Legacy
from ...protocol.jsonrpc import ErrorObject, ErrorResponse, Malformed, Outcome, Request, RequestId
from ...protocol.peer import Reply
from ...protocol.versions import ASSUMED, parse
from ..channel import read
from ..dispatch import Dispatcher
from ..exchange import ClientInfo, Exchange, Principal
from ..session import Session
from ..streams import EventStream
from .responses import RawHeaders, Receive, Send, Watch, send_events, send_json
from .sessions import Sessions

logger = logging.getLogger("backchannel.http")
_STATUS = {METHOD_NOT_FOUND: 404, MISSING_CLIENT_CAPABILITY: 400}
"""The HTTP status of a modern error response that the method itself gave; 200 for the others."""


class Posts:
    """Serves the POSTs of one app.

    sessions: None where legacy clients get no session.
    """

    def __init__(self, dispatcher: Dispatcher, sessions: Sessions | None):
        self._dispatcher = dispatcher
        self._sessions = sessions

    async def modern(self, call: Call, principal: Principal | None, receive: Receive, send: Send) -> None:
        """A modern request. When its client leaves, it is cancelled."""
        meta = call.params.meta
        client = ClientInfo(meta.client_info, meta.client_capabilities or {})
        reply = _Reply(self._dispatcher, send, call.accept)
        exchange = Exchange(
            call.request,
            call.method,
            call.params,
            call.version,
            client,
            reply.stream,
            principal=principal,
            can_stream=call.accept.sse,
        )
        watch = Watch(receive, exchange.cancel)
        try:
            response = await self._dispatcher(exchange)
        finally:
            watch.disarm()
        if exchange.cancelled:
            return await reply.abandon()
        status = _STATUS.get(response.error.code, 200) if isinstance(response, ErrorResponse) else 200
        await reply.finish(response, status)

    async def legacy(self, post: Legacy, principal: Principal | None, receive: Receive, send: Send) -> None:
        """A message of the session-based protocol."""
        message, sessions = post.message, self._sessions
        if isinstance(message, Request) and message.method == "initialize" and post.session_id is None:
            return await self._initialize(message, principal, post.accept, send)
        if sessions is None:
            return await self._stateless(post, principal, receive, send)
        if post.session_id is None:
            if isinstance(message, Malformed):
                return await send_json(send, 400, message.reply())
            return await _refuse(send, 400, _id(message), "Bad Request: the Mcp-Session-Id header is missing")
        session = sessions.find(post.session_id, principal)
        if session is None:
            return await _refuse(send, 404, _id(message), "Session not found")
        await self._in_session(session, post, send)

    async def _initialize(self, request: Request, principal: Principal | None, accept: Accept, send: Send) -> None:
        sessions = self._sessions
        session = sessions.new(principal) if sessions is not None else Session(EventStream(), principal=principal)
        if session is None:
            return await _refuse(send, 503, request.id, "too many sessions are open on this server")
        headers: RawHeaders = []

        def began() -> None:
            if sessions is not None:
                sessions.keep(session)
                headers.append((b"mcp-session-id", session.id.encode()))

        session.receive(request)
        await self._serve(session, request, _Reply(self._dispatcher, send, accept, headers), began)

    async def _in_session(self, session: Session, post: Legacy, send: Send) -> None:
        event = session.receive(post.message)
        if event is None:
            refused = isinstance(post.message, Malformed)
            return await send_json(send, 400 if refused else 202, post.message.reply() if refused else None)  # type: ignore[union-attr]
        if isinstance(event, Reply):
            return await send_json(send, 400 if isinstance(post.message, Malformed) else 200, event.message)
        await self._serve(session, event.request, _Reply(self._dispatcher, send, post.accept))

    async def _serve(self, session: Session, request: Request, reply: _Reply, began=None) -> None:  # type: ignore[no-untyped-def]
        """A request in a session. A client that leaves does not cancel it: disconnection is not cancellation."""
        try:
            if session.peer.serving > self._dispatcher.server.limits.in_flight:
                raise LocalProtocolError(INTERNAL_ERROR, "too many requests in flight in this session")
            exchange = read(request, session, reply.stream)
        except (LocalProtocolError, UnsupportedVersion) as error:
            session.peer.finish(request.id)
            return await reply.finish(ErrorResponse(request.id, ErrorObject(error.code, str(error), error.data)))
        exchange.can_stream = reply.accept.sse
        session.peer.serve(request.id, exchange)
        response = await self._dispatcher(exchange)
        if not session.peer.finish(request.id):
            return await reply.abandon()
        if began is not None and not isinstance(response, ErrorResponse):
            began()
        await reply.finish(response)

    async def _stateless(self, post: Legacy, principal: Principal | None, receive: Receive, send: Send) -> None:
        """Legacy without sessions: every request stands alone, and there is no way to ask the client."""
        message = post.message
        if isinstance(message, Malformed):
            return await send_json(send, 400, message.reply())
        if not isinstance(message, Request):
            return await send_json(send, 202, None)
        session = Session(EventStream(), principal=principal)
        session.assume(parse(post.version or "") or ASSUMED)
        event = session.receive(message)
        if isinstance(event, Reply):
            return await send_json(send, 200, event.message)
        reply = _Reply(self._dispatcher, send, post.accept)
        try:
            exchange = read(message, session, reply.stream)
        except (LocalProtocolError, UnsupportedVersion) as error:
            return await reply.finish(ErrorResponse(message.id, ErrorObject(error.code, str(error), error.data)))
        exchange.session, exchange.can_stream = None, post.accept.sse
        watch = Watch(receive, exchange.cancel)
        try:
            response = await self._dispatcher(exchange)
        finally:
            watch.disarm()
        if exchange.cancelled:
            return await reply.abandon()
        await reply.finish(response)


class _Reply:
    """The response to one POST: a JSON object if the first message is the response, else an event stream."""

    def __init__(self, dispatcher: Dispatcher, send: Send, accept: Accept, headers: RawHeaders | None = None):
        self.accept = accept
        self.stream = EventStream(self._begin)
        self._dispatcher = dispatcher
        self._send = send
        self._headers = headers
        self._written = asyncio.Event()

    def _begin(self) -> None:
        self._dispatcher.nursery.start(self._write)

    async def _write(self) -> None:
        try:
            keep_alive = self._dispatcher.server.limits.keep_alive
            await send_events(self._send, self.stream, keep_alive, self._headers)
        finally:
            self.stream.close()
            self._written.set()

    async def finish(self, response: Outcome, status: int = 200) -> None:
        """Send the response, and end."""
        if not self.stream.started and self.accept.json:
            return await send_json(self._send, status, response, self._headers)
        self.stream.append(response)
        await self._end()

    async def abandon(self) -> None:
        """End without a response: the request was cancelled."""
        if self.stream.started:
            return await self._end()
        await send_json(self._send, 202, None)

    async def _end(self) -> None:
        self.stream.close()
        await self._written.wait()


def _id(message: object) -> RequestId | None:
    return message.id if isinstance(message, Request | Malformed) else None


async def _refuse(send: Send, status: int, id: RequestId | None, text: str) -> None:
    await send_json(send, status, ErrorResponse(id, ErrorObject(INVALID_REQUEST, text)))
