"""A scripted HTTP server on a loopback socket: the test sees every request, and answers it byte by byte."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

BOUND = 20


@dataclass
class Got:
    """One request that reached the server, and the means to answer it byte by byte."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    async def reply(self, status: int = 200, body: Any = b"", **headers: str) -> None:
        """A whole response; a body that is not bytes becomes JSON."""
        if not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {"content_type": "application/json", **headers}
        lines = [f"HTTP/1.1 {status} Whatever", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def result(self, value: Any, **headers: str) -> None:
        await self.reply(200, {"jsonrpc": "2.0", "id": self.json.get("id"), "result": value}, **headers)

    async def stream(self, **headers: str) -> None:
        """Begin a stream of events."""
        lines = ["HTTP/1.1 200 OK", "transfer-encoding: chunked", "content-type: text/event-stream; charset=utf-8"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        await self.writer.drain()

    async def event(self, message: Any = None, id: str | None = None, **fields: Any) -> None:
        fields = {"id": id, **fields, "data": "" if message is None else json.dumps(message)}
        await self.raw("".join(f"{name}: {value}\n" for name, value in fields.items() if value is not None) + "\n")

    async def raw(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def drop(self) -> None:
        self.writer.transport.abort()

    async def wait(self) -> None:
        """Do nothing until the client has closed the connection; then `left` is set."""
        with contextlib.suppress(ConnectionError):
            assert await self.reader.read(1) == b""
        self.left.set()


Script = Callable[[Got], Awaitable[None]]


@dataclass
class Server:
    script: Script
    port: int = 0
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    failures: list[BaseException] = field(default_factory=list)
    tasks: set[Any] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp?key=url-secret"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.current_task())
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, path, _ = head[0].split(" ")
                fields = [line.partition(": ") for line in head[1:] if line]
                headers = {name.lower(): value for name, _, value in fields}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                got = Got(method, path, headers, body, number, reader, writer)
                self.got.append(got)
                await self.script(got)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception as error:
            self.failures.append(error)
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Server]:
    server = Server(script)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        with anyio.fail_after(2 * BOUND):
            yield server
    finally:
        listener.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
    assert server.failures == []


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def response(id: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error(id: Any, code: int, data: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": data}}
