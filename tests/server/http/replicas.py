"""Replicas of one server that share what a fleet shares, and a client whose every request goes to the next of them.

`Hub` stands for a service in the network: what one replica gives it, the others get later, as bytes, and no object is
seen by two of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio

from backchannel import Fleet, MemoryBus, MemoryEvents, MemorySessions, Server, http_app
from backchannel.protocol.jsonrpc import Answers, Message, decode, encode
from backchannel.server.http.session import HttpSession
from backchannel.server.streams import LIMIT, RETRY, EventStream
from tests.server.http.wire import PATIENCE, Connection, Wire, serving


class Replicas(Wire):
    """Talks to the replicas in turn, or to one of them after `at`."""

    def __init__(self, ports: list[int], apps: list[Any], servers: list[Server]):
        super().__init__(ports[0])
        self.ports, self.apps, self.servers = ports, apps, servers
        self.turn = 0

    def at(self, number: int) -> None:
        """The next request goes to this one."""
        self.turn = number

    async def connect(self) -> Connection:
        self.port = self.ports[self.turn % len(self.ports)]
        self.turn += 1
        return await super().connect()

    def places(self, id: str) -> list[HttpSession | None]:
        """The session in each replica."""
        return [app.sessions._sessions.get(id) for app in self.apps]


@contextlib.asynccontextmanager
async def replicas(make: Callable[[], Server], fleet: Callable[[], Fleet], count: int = 3) -> AsyncIterator[Replicas]:
    """Serve so many servers that `make` gives. fleet: gives each its share."""
    with anyio.fail_after(PATIENCE):
        async with contextlib.AsyncExitStack() as stack:
            servers = [make() for _ in range(count)]
            apps = [http_app(server, fleet=fleet()) for server in servers]
            ports = [await stack.enter_async_context(serving(app)) for app in apps]
            there = Replicas(ports, apps, servers)
            try:
                yield there
            finally:
                await there.close()


def in_memory() -> Callable[[], Fleet]:
    """One fleet for all."""
    fleet = Fleet(MemorySessions(), MemoryEvents(), MemoryBus())
    return lambda: fleet


def in_the_network() -> Callable[[], Fleet]:
    """Each replica has what talks to one hub."""
    hub = Hub()
    return lambda: Fleet(FarSessions(hub), FarEvents(hub), FarBus(hub))


class Hub:
    """Records, topics and logs, far away."""

    def __init__(self) -> None:
        self.records = MemorySessions()
        self.bus = MemoryBus()
        self.logs: dict[str, list[bytes]] = {}
        self.followers: dict[str, list[Callable[[bytes], None]]] = {}

    def append(self, log: str, entry: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._arrive, log, entry)

    def _arrive(self, log: str, entry: bytes) -> None:
        self.logs.setdefault(log, []).append(entry)
        for follow in self.followers.get(log, ()):
            follow(entry)

    def follow(self, log: str, take: Callable[[bytes], None]) -> None:
        for entry in self.logs.get(log, ()):
            take(entry)
        self.followers.setdefault(log, []).append(take)


class FarSessions:
    def __init__(self, hub: Hub) -> None:
        self.far = hub.records

    async def read(self, id: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {**await self.far.read(id)}

    async def write(self, id: str, changes: Any, ttl: float) -> None:
        await asyncio.sleep(0)
        await self.far.write(id, json.loads(json.dumps(changes)), ttl)

    async def delete(self, id: str) -> None:
        await asyncio.sleep(0)
        await self.far.delete(id)


class FarBus:
    def __init__(self, hub: Hub) -> None:
        self._bus = hub.bus

    async def publish(self, topic: str, data: bytes) -> None:
        await asyncio.sleep(0)
        await self._bus.publish(topic, bytes(data))

    async def subscribe(self, topic: str, hear: Any) -> None:
        await asyncio.sleep(0)
        await self._bus.subscribe(topic, hear)

    def unsubscribe(self, topic: str, hear: Any) -> None:
        self._bus.unsubscribe(topic, hear)


class FarEvents:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._streams: dict[tuple[str, str], FarStream] = {}

    def new(self, on_first: Any = None, limit: int = LIMIT, polled: bool = False) -> EventStream:
        return FarStream(on_first, limit, 256, polled)

    def add(self, session: str, name: str, stream: EventStream) -> None:
        assert isinstance(stream, FarStream)
        self._streams[session, name] = stream
        stream.attach(self._hub, f"{session}/{name}")

    async def find(self, session: str, name: str) -> EventStream | None:
        await asyncio.sleep(0)
        stream = self._streams.get((session, name))
        if stream is None and f"{session}/{name}" in self._hub.logs:
            stream = self._streams[session, name] = FarStream(keep=256, polled=True)
            stream.attach(self._hub, f"{session}/{name}")
        return stream

    def drop(self, session: str, name: str | None = None) -> None:
        """A real one would let the service forget it after a while."""
        for key in [key for key in self._streams if key[0] == session and name in (None, key[1])]:
            del self._streams[key]


class FarStream(EventStream):
    """What is done to it is put into a log, and happens to all that follow the log in the order that this has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hub: Hub | None = None
        self._far: object = None
        self._closing = False

    def attach(self, hub: Hub, log: str) -> None:
        self._hub, self._name = hub, log
        before, closed = list(self._log), self.closed
        if before:
            self._log.clear()
        hub.follow(log, self._apply)
        hub.append(log, b'{"new": true}')
        for message in before:
            hub.append(log, encode(message))
        if closed:
            self.closed = False
            self.close()

    def _say(self, **words: Any) -> None:
        assert self._hub is not None
        self._hub.append(self._name, json.dumps({**words, "who": id(self)}).encode())

    def _apply(self, entry: bytes) -> None:
        word = json.loads(entry)
        if "jsonrpc" in word:
            super().append(decode(entry))  # type: ignore[arg-type]
            if self._far is not None:  # it is read there
                self._read = len(self._log)
        elif word.get("close"):
            super().close()
        elif word.get("who") != id(self):
            if "take" in word:
                super().take(word["take"])
                self._far = word["who"]
                self._read = len(self._log)
            elif "leave" in word and self._far == word["who"]:
                self._read = max(word["leave"] - self._forgotten, 0)
                self._far = None
                super().leave(self._reader)
            elif "dismiss" in word:
                super().dismiss(word["dismiss"])

    def append(self, message: Message | Answers) -> bool:
        if self._hub is None or self.closed or self._closing:
            return super().append(message) if not self._closing else False
        self._hub.append(self._name, encode(message))  # type: ignore[arg-type]
        self._start()
        return True

    def close(self) -> None:
        if self._hub is None:
            super().close()
        elif not self._closing:
            self._closing = True
            self._say(close=True)

    def dismiss(self, retry: float = RETRY) -> None:
        super().dismiss(retry)
        if self._hub is not None:
            self._say(dismiss=retry)

    def take(self, after: int | None = None) -> object:
        self._far = None
        reader = super().take(after)
        if self._hub is not None:
            self._say(take=after)
        return reader

    def leave(self, reader: object) -> None:
        if self._hub is not None and self._reader is reader and not self._deserted:
            self._say(leave=self.position)
        super().leave(reader)
