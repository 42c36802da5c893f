"""An MCP server that wants tokens, as a test directs it, on loopback sockets; and somebody who logs in."""

import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from backchannel import Context, Server, http_app
from backchannel.client.auth.driver import World
from backchannel.client.auth.loopback import Loopback
from backchannel.client.auth.oauth import OAuth
from backchannel.testing.auth import AuthServer
from backchannel.testing.serving import serving

BOUND = 20


class Clock:
    """The time, for the authorization server and the client alike."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Seen:
    """One request that reached the MCP server. name: of the message, or of the tool.  answer: the status, 0 if the
    server itself gave it."""

    verb: str
    name: str
    token: str
    answer: int = 0


class Guarded:
    """`scopes`: what a message, or a tool, needs. `open`: messages that need no token.
    `forbidden`: those that are refused with 403. `refuse`: called with each
    request that would get through, True for 401. `metadata`: what is published, with `{origin}` in it."""

    def __init__(self, auth: AuthServer, clock: Clock, path: str = "/mcp"):
        self.auth, self.clock, self.path = auth, clock, path
        self.calls: Counter[str] = Counter()
        self.app = http_app(self._server(), path=path)
        self.seen: list[Seen] = []
        self.scopes: dict[str, str] = {}
        self.free: set[str] = set()
        self.forbidden: set[str] = set()
        self.refuse: Callable[[Seen], bool] = lambda seen: False
        self.metadata: dict[str, Any] = {}
        self.origin = ""

    def renew(self) -> None:
        """A new process of the server, which knows none of the sessions."""
        self.app = http_app(self._server(), path=self.path)

    @property
    def url(self) -> str:
        return self.origin + self.path

    def _server(self) -> Server:
        server = Server("guarded")

        @server.tool
        def add(a: int, b: int) -> int:
            self.calls["add"] += 1
            return a + b

        @server.tool
        def write() -> str:
            self.calls["write"] += 1
            return "written"

        @server.tool
        async def ask(ctx: Context) -> bool:
            self.calls["ask"] += 1
            return await ctx.confirm("Sure?")

        return server

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Guarded"]:
        async with self.auth.running(), serving(self) as self.origin:
            yield self

    async def close(self) -> None:
        await self.app.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if scope["path"].startswith("/.well-known/oauth-protected-resource"):
            return await self._publish(scope["path"], send)
        first = await receive()
        seen = self._read(scope, first.get("body", b""))
        self.seen.append(seen)
        status, challenge = self._admit(seen)
        if status:
            seen.answer = status
            return await answer(send, status, b"", {"www-authenticate": challenge})
        rest = iter([first])

        async def again() -> Any:
            for message in rest:
                return message
            return await receive()

        await self.app(scope, again, send)

    def _read(self, scope: Any, body: bytes) -> Seen:
        message = json.loads(body) if body else {}
        params = message.get("params") or {}
        name = params.get("name") if message.get("method") == "tools/call" else message.get("method", "")
        header = dict(scope["headers"]).get(b"authorization", b"").decode()
        return Seen(scope["method"], name or "", header.partition(" ")[2])

    def _admit(self, seen: Seen) -> tuple[int, str]:
        metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource{self.path}"'
        if seen.name in self.free and not seen.token:
            return 0, ""
        access = self.auth.tokens.access(seen.token)
        if access is None or access.expires <= self.clock() or self.refuse(seen):
            return 401, f"Bearer {metadata}"
        if seen.name in self.forbidden:
            return 403, "Bearer"
        needed = self.scopes.get(seen.name, "")
        if not set(needed.split()) <= set(access.grant.scopes):
            return 403, f'Bearer error="insufficient_scope", scope="{needed}", {metadata}'
        return 0, ""

    async def _publish(self, path: str, send: Any) -> None:
        if path != f"/.well-known/oauth-protected-resource{self.path}":
            return await answer(send, 404, b"", {})
        document = {"resource": self.url, "authorization_servers": [self.auth.issuer], **self.metadata}
        await answer(send, 200, json.dumps(document).encode(), {"content-type": "application/json"})


async def answer(send: Any, status: int, body: bytes, headers: dict[str, str]) -> None:
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": body})


class Person:
    """Logs in whenever a page is shown. `visits`: the pages.  `gate`: is awaited before."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.gate: Callable[[], Any] | None = None

    async def show(self, url: str) -> None:
        self.visits.append(url)
        if self.gate is not None:
            await self.gate()
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            await response.read()


class Timed(OAuth):
    """OAuth with a clock of the test's, and a person who logs in."""

    def __init__(self, person: Person, clock: Clock, **given: Any):
        super().__init__(**{"redirect": Loopback(show=person.show), **given})
        self._clock = clock

    def world(self, server: str) -> World:
        return replace(super().world(server), now=self._clock)
