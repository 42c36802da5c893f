"""What the tests of HTTP share: a uvicorn server on a free port, and HTTP/1.1 by hand, with no client of ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import uvicorn

from backchannel import Server, http_app

MODERN, LEGACY = "2026-07-28", "2025-11-25"
BOTH = "application/json, text/event-stream"
PATIENCE = 30.0
"""Seconds after which a test has failed. Nothing is measured with it."""
ASKS = {"elicitation": {}, "sampling": {}, "roots": {}}
FORMS = {"elicitation": {}}
"""Of a client that has no roots, which a session would ask for by itself."""


class Uvicorn(uvicorn.Server):
    """Serves in the test's own event loop, without the main loop and the signals of a process."""

    async def begin(self, listener: socket.socket) -> None:
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.on_tick(0)
        await self.startup([listener])

    async def end(self) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await until(lambda: not self.server_state.connections and not self.server_state.tasks)
        await self.lifespan.shutdown()


@contextlib.asynccontextmanager
async def serving(app: Any, lifespan: str = "on", close: bool = True) -> AsyncIterator[int]:
    """Serve an ASGI app; gives the port. close: end the app first, as `run` does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan=lifespan, log_config=None, ws="none", timeout_graceful_shutdown=5)  # type: ignore[arg-type]
        server = Uvicorn(config)
        await server.begin(listener)
        try:
            yield listener.getsockname()[1]
        finally:
            if close and hasattr(app, "close"):
                await app.close()
            await server.end()


@contextlib.asynccontextmanager
async def wire(server: Server, lifespan: str = "on", **options: Any) -> AsyncIterator[Wire]:
    """Serve a Server; gives what talks to it."""
    app = http_app(server, **options)
    with anyio.fail_after(PATIENCE):
        async with serving(app, lifespan) as port:
            there = Wire(port, app)
            try:
                yield there
            finally:
                await there.close()


@dataclass
class Event:
    """One event of a stream: its id, its message, None for an event without data, and the milliseconds after which to
    come back. Or a comment."""

    message: Any = None
    id: str | None = None
    comment: bool = False
    retry: int | None = None


@dataclass
class Response:
    """A response whose head has been read."""

    status: int
    headers: dict[str, str]
    connection: Connection = field(repr=False)
    _rest: bytes = b""

    @property
    def streams(self) -> bool:
        return self.headers.get("content-type", "") == "text/event-stream"

    async def body(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def json(self) -> Any:
        """The body of a JSON response, or None if it is empty."""
        body = await self.body()
        return json.loads(body) if body else None

    async def chunks(self) -> AsyncIterator[bytes]:
        reader = self.connection.reader
        if "content-length" in self.headers:
            yield await reader.readexactly(int(self.headers["content-length"]))
            return
        while size := int(await reader.readline(), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)

    async def event(self) -> Event | None:
        """The next event or comment; None at the end of the stream."""
        assert self.streams, (self.status, self.headers)
        if not hasattr(self, "_chunks"):
            self._chunks = self.chunks()
        while b"\n\n" not in self._rest:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                assert self._rest == b""
                return None
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in text.decode().split("\n") if not line.startswith(":"))
        if not fields:
            return Event(comment=True)
        assert fields.keys() <= {"id", "data", "retry"}
        message = json.loads(fields["data"]) if fields["data"] else None
        return Event(message, fields.get("id"), retry=int(fields["retry"]) if "retry" in fields else None)

    async def message(self) -> Any:
        """The next message of the stream, past comments and priming events; None at the end."""
        while (event := await self.event()) is not None:
            if event.message is not None:
                return event.message
        return None

    async def messages(self) -> list[Any]:
        """All messages to the end, of either kind of response."""
        if not self.streams:
            body = await self.json()
            return [] if body is None else [body]
        found = []
        while (message := await self.message()) is not None:
            found.append(message)
        return found

    def drop(self) -> None:
        self.connection.drop()


class Connection:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
        headers = {"host": "localhost", **headers}
        if method == "POST" and "transfer-encoding" not in headers:
            headers.setdefault("content-length", str(len(body)))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value)]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def head(self) -> Response:
        status = int((await self.reader.readline()).split()[1])
        headers = {}
        while (line := await self.reader.readline()) != b"\r\n":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return Response(status, headers, self)

    def drop(self) -> None:
        """Leave without a goodbye."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


def request(method: str, params: dict[str, Any] | None = None, id: int | str = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def notification(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


def call(tool: str, id: int | str = 1, token: str | None = None, **arguments: Any) -> dict[str, Any]:
    """A call of a tool. token: its progress token."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", params, id)


class Wire:
    """Talks to one server."""

    def __init__(self, port: int, app: Any = None, path: str = "/mcp"):
        self.port, self.app, self.path = port, app, path
        self.connections: list[Connection] = []

    async def connect(self) -> Connection:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", self.port, limit=2**25))
        self.connections.append(connection)
        return connection

    async def close(self) -> None:
        """Close every connection."""
        for connection in self.connections:
            await connection.close()

    async def http(self, method: str, headers: dict[str, str], body: bytes = b"") -> Response:
        """One request on a connection of its own; gives the head of its response."""
        connection = await self.connect()
        await connection.send(method, self.path, headers, body)
        return await connection.head()

    async def post(self, message: Any, **headers: str) -> Response:
        """POST a message, or bytes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.http("POST", {"content-type": "application/json", "accept": BOTH, **named}, body)

    async def modern(
        self, message: dict[str, Any], capabilities: dict[str, Any] | None = None, **headers: str
    ) -> Response:
        """POST a modern request, with all that belongs to it."""
        message, named = modern(message, capabilities)
        return await self.post(message, **{**named, **headers})

    async def session(
        self, capabilities: dict[str, Any] | None = None, version: str = LEGACY, **headers: str
    ) -> Session:
        """Open a legacy session."""
        client = {"name": "by hand", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": client}
        response = await self.post(request("initialize", params, 0), **headers)
        assert response.status == 200
        result = (await response.json())["result"]
        session = Session(self, response.headers["mcp-session-id"], result["protocolVersion"], headers)
        assert (await session.post(notification("notifications/initialized"))).status == 202
        return session


@dataclass
class Session:
    """A legacy session, as its client sees it."""

    wire: Wire
    id: str
    version: str
    headers: dict[str, str]

    def _all(self, headers: dict[str, str]) -> dict[str, str]:
        return {"mcp_session_id": self.id, "mcp_protocol_version": self.version, **self.headers, **headers}

    async def post(self, message: Any, **headers: str) -> Response:
        return await self.wire.post(message, **self._all(headers))

    async def answer(self, question: dict[str, Any], result: Any, **headers: str) -> Response:
        """Answer a reverse call by a new POST."""
        return await self.post({"jsonrpc": "2.0", "id": question["id"], "result": result}, **headers)

    async def http(self, method: str, **headers: str) -> Response:
        """GET and DELETE."""
        named = {name.replace("_", "-"): value for name, value in self._all(headers).items()}
        return await self.wire.http(method, {"accept": "text/event-stream", **named})


def modern(
    message: dict[str, Any], capabilities: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """A modern request and its headers."""
    params = message["params"]
    meta = {
        **params.get("_meta", {}),
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    headers = {"mcp_protocol_version": MODERN, "mcp_method": message["method"]}
    if "name" in params:
        headers["mcp_name"] = params["name"]
    return {**message, "params": {**params, "_meta": meta}}, headers


def accept(**content: Any) -> dict[str, Any]:
    """The result of an elicitation."""
    return {"action": "accept", "content": content}


def text(message: dict[str, Any]) -> str:
    """The text of a tool's result."""
    found: str = message["result"]["content"][0]["text"]
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is so."""
    while not condition():
        await anyio.lowlevel.checkpoint()


class Asgi:
    """One request to an ASGI app, whose every `receive` and `send` the test decides."""

    def __init__(
        self, app: Any, message: dict[str, Any] | bytes, headers: dict[str, str] | None = None, method: str = "POST"
    ):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        named = {"host": "localhost", "content-type": "application/json", "accept": BOTH, **(headers or {})}
        self.scope = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()],
        }
        self.incoming = [{"type": "http.request", "body": body}]
        self.gone = anyio.Event()
        self.told = False
        self.sent: list[dict[str, Any]] = []
        self.on_send: Callable[[dict[str, Any]], Awaitable[None]] | None = None
        self.done = asyncio.ensure_future(app(self.scope, self.receive, self.send))

    async def receive(self) -> dict[str, Any]:
        if self.incoming:
            return self.incoming.pop(0)
        await self.gone.wait()
        self.told = True
        return {"type": "http.disconnect"}

    async def leave(self) -> None:
        """The client leaves, and the app gets to know."""
        self.gone.set()
        await until(lambda: self.told)
        await anyio.wait_all_tasks_blocked()

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        if self.on_send is not None:
            await self.on_send(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)
