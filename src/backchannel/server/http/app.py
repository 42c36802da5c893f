"""The ASGI app: one endpoint, both eras. POST for every message, and GET and DELETE for legacy sessions.

How it works: the app starts with its first request, or with the lifespan of whatever serves it, and then owns what it
started until `close`. It can be started again, also in another event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from ...errors import HEADER_MISMATCH, INVALID_REQUEST, LocalProtocolError
from ...protocol.http import Call, Headers, Legacy, Refusal, read_accept, read_request
from ...protocol.jsonrpc import ErrorObject, ErrorResponse
from ...protocol.param_headers import mismatch
from ...protocol.versions import is_legacy, is_modern
from ..auth.needs import needed
from ..auth.refusal import Denied
from ..auth.resource import full_path
from ..exchange import Principal
from ..server import Server
from .fleet import Fleet
from .lifespan import Lifespan
from .metadata import send_metadata
from .posts import Posts
from .responses import Receive, Send, Watch, send_events, send_json
from .security import Guard
from .session import Reading
from .sessions import Sessions

if TYPE_CHECKING:
    from ..auth.bearer import BearerAuth

logger = logging.getLogger("backchannel.http")
Scope = MutableMapping[str, Any]
Serving = Coroutine[Any, Any, None]


class HttpApp:
    """Serves one Server over streamable HTTP. Make it with `http_app`, which says what it is given.

    with_sessions: legacy clients get sessions.
    """

    def __init__(
        self,
        server: Server,
        *,
        path: str,
        allowed_hosts: Sequence[str] | None,
        allowed_origins: Sequence[str] | None,
        sessions: bool,
        auth: BearerAuth | None = None,
        fleet: Fleet | None = None,
    ):
        self.server = server
        self.path = "/" + path.strip("/")
        self._guard = Guard(allowed_hosts, allowed_origins)
        self.auth = auth
        self.with_sessions = sessions
        self.fleet = fleet
        self._methods = b"POST, GET, DELETE" if sessions else b"POST"
        self._lifespan: Lifespan | None = None

    # Starting and stopping.

    @property
    def sessions(self) -> Sessions | None:
        """The legacy sessions that are open; None before the start, and where there are none."""
        posts = self._lifespan.posts if self._lifespan is not None else None
        return posts.sessions if posts is not None else None

    async def open(self) -> Posts:
        """Start, if it has not been started. Raises: what the server's lifespan raises."""
        if self._lifespan is None or self._lifespan.over:
            self._lifespan = Lifespan(self.server, self.with_sessions, self.fleet)
        return await self._lifespan.started()

    async def close(self, grace: float = 0.0) -> None:
        """Stop: no more requests are taken, streams that belong to no call end, and what still runs after `grace`
        seconds is cancelled. The app can be started again.

        Raises: what the server's lifespan raises when it ends.
        """
        lifespan = self._lifespan
        if lifespan is None or lifespan.over:
            return
        try:
            await lifespan.end(grace)
        finally:
            if self._lifespan is lifespan:
                self._lifespan = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tie the app to a lifespan of yours, or make it one: `lifespan=lambda _: app.running()`."""
        await self.open()
        try:
            yield
        finally:
            await self.close()

    # Serving.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._other(scope, receive, send)
        path = scope["path"].rstrip("/") or "/"
        if root := scope.get("root_path"):  # ASGI servers give the path with it, some routers without
            path = full_path(scope).removeprefix(root.rstrip("/")) or "/"
        headers, method, auth = Headers(scope["headers"]), scope["method"], self.auth
        if path != self.path:
            document = auth.metadata(scope, headers, self.path) if auth is not None else None
            return await (send_json(send, 404, None) if document is None else send_metadata(send, method, document))
        refusal = self._guard.check(headers)
        if refusal is not None:
            return await send_json(send, refusal.status, refusal.error)
        principal = await auth.admit(scope, headers) if auth is not None else None
        if isinstance(principal, Denied):
            return await send_json(send, principal.status, principal.error, principal.headers)
        if method == "POST":
            message, limit = await receive(), self.server.limits.message
            body: bytes | int | None = message.get("body", b"")
            if message["type"] != "http.request" or message.get("more_body") or len(message["body"]) > limit:
                body = await _body(headers, message, receive, limit)
            # What serves it is awaited here, so that the stack at the handler stays short.
            return await self._post(scope, headers, principal, body, receive, send)
        version = headers.get("mcp-protocol-version") or ""
        if method not in ("GET", "DELETE") or not self.with_sessions or is_modern(version):
            return await send_json(send, 405, None, [(b"allow", b"POST" if is_modern(version) else self._methods)])
        if version and not is_legacy(version):
            return await _fail(send, 400, "Bad Request: the MCP-Protocol-Version is not supported")
        await self._in_session(method, headers, principal, receive, send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            raise RuntimeError(f"this app serves HTTP, not {scope['type']}")
        while True:
            kind = (await receive())["type"]
            try:
                await (self.open() if kind == "lifespan.startup" else self.close())
            except Exception as error:
                logger.exception("the server's lifespan failed")
                return await send({"type": f"{kind}.failed", "message": str(error)})
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    def _post(
        self,
        scope: Scope,
        headers: Headers,
        principal: Principal | None,
        body: bytes | int | None,
        receive: Receive,
        send: Send,
    ) -> Serving:
        """What serves or refuses a POST, to be awaited. body: see `_body`."""
        if body is None or isinstance(body, int):
            return self._bodiless(body, send)
        verdict = read_request(headers, body, self.server.methods)
        if isinstance(verdict, Call) and verdict.request.method == "tools/call":
            verdict = self._mirrored(verdict, headers, principal)
        if isinstance(verdict, Refusal):
            return send_json(send, verdict.status, verdict.error)
        if self.server.tools.scoped and (denied := self._denied(verdict, principal, scope, headers)) is not None:
            return send_json(send, denied.status, denied.error, denied.headers)
        lifespan = self._lifespan
        if lifespan is not None and lifespan.ready is not None and lifespan.loop is asyncio.get_running_loop():
            return lifespan.ready.serve(verdict, principal, receive, send)
        return self._first(verdict, principal, receive, send)

    async def _bodiless(self, size: int | None, send: Send) -> None:
        if size is None:
            logger.debug("the client left before its body was whole")
        else:
            limit = self.server.limits.message
            await _fail(send, 413, f"the body has {size} bytes or more, the limit is {limit} (Limits.message)")

    async def _first(self, verdict: Call | Legacy, principal: Principal | None, receive: Receive, send: Send) -> None:
        """Start, and serve."""
        posts = await self.open()
        await posts.serve(verdict, principal, receive, send)

    def _denied(
        self, verdict: Call | Legacy, principal: Principal | None, scope: Scope, headers: Headers
    ) -> Denied | None:
        """What is answered where tools need scopes that were not granted. Without `auth` nobody has any; such tools
        were registered after the app was made, or it would not have been."""
        if self.auth is not None and principal is not None:
            return self.auth.permits(verdict, self.server.tools, principal, scope, headers)
        wanted = needed(verdict, self.server.tools, None)
        if not wanted:
            return None
        logger.error("a tool that needs scopes was called, and http_app() has no auth=BearerAuth(...) to check them")
        return Denied(403, error=ErrorResponse(None, ErrorObject(INVALID_REQUEST, "Forbidden: it needs scopes")))

    def _mirrored(self, call: Call, headers: Headers, principal: Principal | None) -> Call | Refusal:
        """The call of a tool, if the headers agree with the arguments that its tool has mirrored
        (basic/transports/streamable-http, Server Behavior for Custom Headers)."""
        tool = self.server.tools.handlers.get(call.params.name)
        if tool is None or not tool.headers or not tool.shown(principal):
            return call
        problem = mismatch(tool.headers, headers, msgspec.json.decode(call.params.arguments or b"{}"))
        if problem is None:
            return call
        return Refusal(400, ErrorResponse(call.request.id, ErrorObject(HEADER_MISMATCH, f"Header mismatch: {problem}")))

    async def _in_session(
        self, method: str, headers: Headers, principal: Principal | None, receive: Receive, send: Send
    ) -> None:
        """GET and DELETE (2025-11-25 basic/transports, Listening for Messages from the Server, Session Management)."""
        if method == "GET" and not read_accept(headers.raw.get(b"accept")).sse:
            return await _fail(send, 406, "Accept must allow text/event-stream")
        posts = await self.open()
        id, sessions = headers.get("mcp-session-id"), posts.sessions
        if id is None or sessions is None:
            return await _fail(send, 400, "Bad Request: the Mcp-Session-Id header is missing")
        try:
            session = await sessions.find(id, principal)
            if session is None:
                return await _fail(send, 404, "Session not found")
            if method == "DELETE":
                await sessions.remove(session)
                return await send_json(send, 200, None)
            if posts.stopping:
                return await _fail(send, 503, "the server is shutting down")
            reading = await sessions.open(session, headers.get("last-event-id"))
        except LocalProtocolError as error:
            return await _fail(send, error.status, str(error), error.code)
        if reading is None:
            return await _fail(send, 400, "Bad Request: there is no event with this Last-Event-ID in this session")
        with posts.tally.streaming():
            await self._listen(reading, receive, send)
        sessions.touch(session)

    async def _listen(self, reading: Reading, receive: Receive, send: Send) -> None:
        """The standing stream, for what belongs to no call; or the rest of a stream that broke off, for "resumption is
        always via HTTP GET with Last-Event-ID" (2025-11-25 basic/transports, Resumability and Redelivery)."""
        session = reading.session
        assert session is not None

        async def gone() -> None:
            scope.cancel()

        session.readings.append(reading)
        try:
            with anyio.CancelScope() as scope:
                watch = Watch(receive, gone)
                watch.begin(asyncio.get_running_loop())
                try:
                    size = await send_events(send, reading, self.server.limits.keep_alive)
                    session.sent(reading, size)
                finally:
                    watch.disarm()
        finally:
            session.readings.remove(reading)


async def _body(
    headers: Headers, message: MutableMapping[str, Any], receive: Receive, limit: int
) -> bytes | int | None:
    """The whole body, of which `message` is the beginning; its size so far if it is larger than `limit`; None if the
    client left."""
    announced = headers.get("content-length") or ""
    if announced.isdecimal() and int(announced) > limit:
        return int(announced)
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] != "http.request":
            return None
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            return size
        if not message.get("more_body"):
            return b"".join([*chunks, chunk])
        chunks.append(chunk)
        message = await receive()


async def _fail(send: Send, status: int, text: str, code: int = INVALID_REQUEST) -> None:
    await send_json(send, status, ErrorResponse(None, ErrorObject(code, text)))
