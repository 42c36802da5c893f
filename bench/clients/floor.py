"""The floor of a client: prepared bytes over raw sockets, and a look for the result in what comes."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

import uvloop
from calling import measure

META = "io.modelcontextprotocol/"


class Connection(asyncio.Protocol):
    """One call at a time."""

    def __init__(self, request: bytes):
        self.request = request
        self.transport: Any = None
        self.answered: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if b'"result"' in data and self.answered is not None:
            self.answered.set_result(None)

    async def call(self) -> None:
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(self.request)
        await self.answered


async def run(url: str, version: str, calls: int) -> None:
    parts = urlsplit(url)
    params: dict[str, Any] = {"name": "add", "arguments": {"a": 1, "b": 2}}
    if version > "2026":
        params["_meta"] = {f"{META}protocolVersion": version, f"{META}clientCapabilities": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    head = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-length: {len(body)}\r\n\r\n"
    free = asyncio.Queue[Connection]()
    for _ in range(64):
        loop = asyncio.get_running_loop()
        made = await loop.create_connection(lambda: Connection((head + body).encode()), parts.hostname, parts.port)
        free.put_nowait(made[1])

    async def call() -> None:
        connection = free.get_nowait()
        await connection.call()
        free.put_nowait(connection)

    await measure(call, calls)


if __name__ == "__main__":
    import sys

    uvloop.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
