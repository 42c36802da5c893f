"""The ASGI app: one endpoint, both eras. POST for every message, and GET and DELETE for legacy sessions.

How it works: the app starts with its first request, or with the lifespan of whatever serves it, and then owns what it
started until `close`: a task that is inside the server's lifespan, and the nursery of its background tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from ...errors import INVALID_REQUEST
from ...protocol.http import Call, Headers, Refusal, read_accept, read_request
from ...protocol.jsonrpc import ErrorObject, ErrorResponse
from ...waiter import Waiter
from ..dispatch import start
from ..exchange import Principal
from ..server import Server
from .posts import Posts
from .responses import RawHeaders, Receive, Send, Watch, send_events, send_json
from .security import Guard
from .sessions import Sessions

logger = logging.getLogger("backchannel.http")
Scope = MutableMapping[str, Any]
Verify = Callable[[str], Awaitable[Principal | None]]


class HttpApp:
    """Serves one Server over streamable HTTP. Make it with `http_app`."""

    def __init__(
        self,
        server: Server,
        *,
        path: str,
        allowed_hosts: Sequence[str] | None,
        allowed_origins: Sequence[str] | None,
        sessions: bool,
        verify: Verify | None,
    ):
        self.server = server
        self._path = "/" + path.strip("/")
        self._guard = Guard(allowed_hosts, allowed_origins)
        self._verify = verify
        self.sessions = Sessions(server.limits) if sessions else None
        self._posts: Waiter | None = None
        self._host: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            raise RuntimeError(f"this app serves HTTP, not {scope['type']}")

    # Starting and stopping.

    async def open(self) -> Posts:
        """Start, if it has not been started. Raises: what the server's lifespan raises."""
        if self._posts is None:
            self._posts, self._stop = Waiter(), asyncio.Event()
            self._host = asyncio.get_running_loop().create_task(self._own(self._posts, self._stop))
        posts: Posts = await self._posts.wait()
        return posts

    async def _own(self, ready: Waiter, stop: asyncio.Event) -> None:
        try:
            async with start(self.server) as dispatcher:
                ready.resolve(Posts(dispatcher, self.sessions))
                await stop.wait()
        except Exception as error:
            if ready.done:
                raise
            self._posts = None
            ready.fail(error)
        finally:
            if self.sessions is not None:
                self.sessions.close()

    async def close(self) -> None:
        """Stop: sessions end, streams close, background tasks are cancelled. The app can be started again."""
        host, stop = self._host, self._stop
        self._posts = self._host = self._stop = None
        if self.sessions is not None:
            self.sessions.close()
        if host is not None and stop is not None:
            stop.set()
            await host

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HttpApp]:
        """Tie the app to a lifespan of your own."""
        await self.open()
        try:
            yield self
        finally:
            await self.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            try:
                await (self.open() if kind == "lifespan.startup" else self.close())
            except Exception as error:
                logger.exception("the server's lifespan failed")
                await send({"type": f"{kind}.failed", "message": str(error)})
                return
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    # Serving.

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/") or "/"
        if path != self._path:
            return await send_json(send, 404, None)
        headers = Headers(scope["headers"])
        refusal = self._guard.check(headers)
        if refusal is not None:
            return await send_json(send, refusal.status, refusal.error)
        principal: Principal | None = None
        if self._verify is not None:
            principal = await self._verify(_bearer(headers))
            if principal is None:
                return await send_json(send, 401, None, [(b"www-authenticate", b"Bearer")])
        method = scope["method"]
        if method == "POST":
            await self._post(headers, principal, receive, send)
        elif method == "GET" and self.sessions is not None:
            await self._get(headers, principal, receive, send)
        elif method == "DELETE" and self.sessions is not None:
            await self._delete(headers, principal, send)
        else:
            await send_json(send, 405, None, [(b"allow", b"POST" if self.sessions is None else b"POST, GET, DELETE")])

    async def _post(self, headers: Headers, principal: Principal | None, receive: Receive, send: Send) -> None:
        limit = self.server.limits.message
        body = await _body(headers, receive, limit)
        if body is None:
            return  # the client left before its body was whole
        if isinstance(body, int):
            return await _fail(send, 413, f"the body is larger than {limit} bytes")
        verdict = read_request(headers, body)
        if isinstance(verdict, Refusal):
            return await send_json(send, verdict.status, verdict.error)
        posts = await self.open()
        if isinstance(verdict, Call):
            await posts.modern(verdict, principal, receive, send)
        else:
            await posts.legacy(verdict, principal, receive, send)

    async def _get(self, headers: Headers, principal: Principal | None, receive: Receive, send: Send) -> None:
        """The standing stream of a session, for what belongs to no call."""
        if not read_accept(headers).sse:
            return await _fail(send, 406, "Accept must allow text/event-stream")
        session = await self._find(headers, principal, send)
        if session is None:
            return
        session.listeners += 1
        try:
            with anyio.CancelScope() as scope:
                watch = Watch(receive, scope.cancel)
                try:
                    await send_events(send, session.stream, self.server.limits.keep_alive)
                finally:
                    watch.disarm()
        finally:
            session.listeners -= 1

    async def _delete(self, headers: Headers, principal: Principal | None, send: Send) -> None:
        session = await self._find(headers, principal, send)
        if session is not None and self.sessions is not None:
            self.sessions.remove(session)
            await send_json(send, 200, None)

    async def _find(self, headers: Headers, principal: Principal | None, send: Send) -> Any:
        id = headers.get("mcp-session-id")
        if id is None or self.sessions is None:
            await _fail(send, 400, "Bad Request: the Mcp-Session-Id header is missing")
            return None
        session = self.sessions.find(id, principal)
        if session is None:
            await _fail(send, 404, "Session not found")
        return session


async def _body(headers: Headers, receive: Receive, limit: int) -> bytes | int | None:
    """The whole body; its size so far if it is larger than `limit`; None if the client left."""
    announced = headers.get("content-length") or ""
    if announced.isdecimal() and int(announced) > limit:
        return int(announced)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            return size
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _bearer(headers: Headers) -> str:
    scheme, _, token = (headers.get("authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _fail(send: Send, status: int, text: str, headers: RawHeaders | None = None) -> None:
    await send_json(send, status, ErrorResponse(None, ErrorObject(INVALID_REQUEST, text)), headers)
