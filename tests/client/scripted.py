"""A transport whose other end is the test: it sees every message of the client, and gives every message of the server,
when and in whatever order it likes."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel

from backchannel.client.transport import Lost, Receive, encoded
from backchannel.errors import ConnectionLost
from backchannel.protocol.jsonrpc import Message, decode
from backchannel.protocol.versions import Version

LEGACY, MODERN = "2025-11-25", "2026-07-28"
BOTH = [LEGACY, MODERN]
Json = dict[str, Any]


class RpcError(Exception):
    """What an entry of `on` raises to answer with an error."""

    def __init__(self, code: int, message: str = "no", data: Any = None):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data is not None else {})


class Script:
    """The scripted other end.

    version: of the server, which brings the connection up by itself.  on: method -> what answers it: a function of the
    params that gives the result or raises RpcError; or an exception, which `send` raises. Other requests get no answer
    until the test gives one.  request_streams: as on HTTP.
    """

    def __init__(
        self,
        version: str = LEGACY,
        on: dict[str, Callable[[Json], Json] | Exception] | None = None,
        *,
        request_streams: bool = False,
        capabilities: Json | None = None,
    ):
        self.request_streams = request_streams
        self.sent: list[Json] = []
        self.headers: list[tuple[str, dict[str, str]]] = []
        self.negotiated_with: list[Version] = []
        self.listening = self.opened = self.closed = 0
        self.capabilities = {"tools": {}} if capabilities is None else capabilities
        self.on: dict[str, Callable[[Json], Json] | Exception] = {
            **(self._modern() if version == MODERN else self._legacy(version)),
            **(on or {}),
        }
        self._unread: deque[Json] = deque()
        self._changed = anyio.Event()
        self._receive: Receive | None = None
        self._lost: Lost | None = None

    def _modern(self) -> dict[str, Any]:
        info = {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
        found = {"resultType": "complete", "supportedVersions": [MODERN], "_meta": info}
        return {"server/discover": lambda params: {**found, "capabilities": self.capabilities}}

    def _legacy(self, version: str) -> dict[str, Any]:
        info = {"protocolVersion": version, "serverInfo": {"name": "scripted", "version": "1"}}

        def unknown(params: Json) -> Json:
            raise RpcError(-32601)

        return {"initialize": lambda params: {**info, "capabilities": self.capabilities}, "server/discover": unknown}

    # The client's end.

    async def open(self, receive: Receive, lost: Lost) -> None:
        self._receive, self._lost = receive, lost
        self.opened += 1

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        data = json.loads(encoded(message))
        self.headers.append((data.get("method", ""), dict(headers or {})))
        if self.closed:
            raise ConnectionLost("the script is closed")
        self.sent.append(data)
        self._unread.append(data)
        self._changed.set()
        entry = self.on.get(data.get("method", ""))
        if isinstance(entry, Exception):
            raise entry
        if entry is not None and "id" in data:
            try:
                self.give({"id": data["id"], "result": entry(data.get("params") or {})})
            except RpcError as error:
                self.give({"id": data["id"], "error": error.error})
        await anyio.lowlevel.checkpoint()

    def negotiated(self, version: Version) -> None:
        self.negotiated_with.append(version)

    async def listen(self) -> None:
        self.listening += 1

    async def close(self) -> None:
        self.closed += 1

    # The test's end.

    async def next(self, method: str | None = None) -> Json:
        """The next message of the client that the test has not had; with `method`, the next of that method."""
        with anyio.fail_after(20):
            while True:
                while self._unread:
                    message = self._unread.popleft()
                    if method is None or message.get("method") == method:
                        return message
                self._changed = anyio.Event()
                await self._changed.wait()

    async def next_answer(self) -> Json:
        """The next response of the client."""
        while "method" in (message := await self.next()):
            pass
        return message

    def give(self, message: Json | bytes) -> None:
        """A message of the server."""
        assert self._receive is not None
        data = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._receive(decode(data))

    def ask(self, id: Any, method: str, params: Json | None = None) -> None:
        """A request of the server."""
        self.give({"id": id, "method": method} | ({"params": params} if params is not None else {}))

    def result(self, request: Json, result: Json | None = None, **members: Any) -> None:
        """The response to a request of the client."""
        self.give({"id": request["id"], "result": {**(result or {}), **members}})

    def lose(self, error: Exception) -> None:
        """The connection ends."""
        assert self._lost is not None
        self._lost(error)

    def requests(self, method: str) -> list[Json]:
        """The params of the requests and notifications of a method that the client has sent."""
        return [message.get("params", {}) for message in self.sent if message.get("method") == method]


def form(message: str = "How many?", **properties: Any) -> Json:
    """The params of a form."""
    properties = properties or {"n": {"type": "integer"}}
    return {"message": message, "requestedSchema": {"type": "object", "properties": properties}}


def conversation(text: str = "Hello") -> Json:
    """The params of a sampling request."""
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 10}


def questions(state: str | None = None, **asked: Any) -> Json:
    """An InputRequiredResult. asked: key -> (method, params)."""
    requests = {key: {"method": method, "params": params} for key, (method, params) in asked.items()}
    return (
        {"resultType": "input_required"}
        | ({"inputRequests": requests} if asked else {})
        | ({"requestState": state} if state is not None else {})
    )
