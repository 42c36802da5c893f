"""Transports around transports: one that keeps every message in both directions, one that takes turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Literal

from ..client.transport import Lost, Receive, Transport
from ..protocol.jsonrpc import Malformed, Message, Request, decode, encode
from ..protocol.versions import Version


@dataclass(frozen=True, slots=True)
class Recorded:
    """One message as it went over the wire. instance: which server sent or got it, where there are several."""

    sender: Literal["client", "server"]
    message: Message | Malformed
    instance: str = ""


class Recorder:
    """Passes everything through, and appends every message to `log`."""

    def __init__(self, inner: Transport, log: list[Recorded], instance: str = ""):
        self.request_streams = inner.request_streams
        self._inner = inner
        self._log = log
        self._instance = instance

    async def open(self, receive: Receive, lost: Lost) -> None:
        def record(message: Message | Malformed) -> None:
            self._log.append(Recorded("server", message, self._instance))
            receive(message)

        await self._inner.open(record, lost)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        self._log.append(Recorded("client", decode(encode(message)), self._instance))
        await self._inner.send(message, headers)

    def negotiated(self, version: Version) -> None:
        self._inner.negotiated(version)

    async def listen(self) -> None:
        await self._inner.listen()

    async def close(self) -> None:
        await self._inner.close()


class RoundRobin:
    """Sends each request to the next of several servers, as a balancer without sticky sessions does."""

    def __init__(self, inner: Sequence[Transport]):
        self.request_streams = inner[0].request_streams
        self._inner = inner
        self._requests = 0
        self._stack = AsyncExitStack()

    async def open(self, receive: Receive, lost: Lost) -> None:
        for transport in self._inner:
            self._stack.push_async_callback(transport.close)
            await transport.open(receive, lost)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        if isinstance(message, Request):
            self._requests += 1
        await self._inner[(self._requests - 1) % len(self._inner)].send(message, headers)

    def negotiated(self, version: Version) -> None:
        for transport in self._inner:
            transport.negotiated(version)

    async def listen(self) -> None:
        for transport in self._inner:
            await transport.listen()

    async def close(self) -> None:
        await self._stack.aclose()
