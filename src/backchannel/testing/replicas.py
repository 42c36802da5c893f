"""Instances of one server, and a balancer in front of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from ..client.transport import Lost, Receive, Transport
from ..protocol.jsonrpc import Message, Notification, Request, RequestId
from ..protocol.versions import Version
from ..server.server import Server
from ..server.subscriptions import Notifier


def replaying(server: Server) -> Server:
    """The same server, with every handler run from the top after each of its questions, also where the session could be
    asked directly.

    It shows whether a handler is deterministic: a client of it, `Client(replaying(server), version="legacy")`, gets
    what a client of the plain server gets, and each step runs once. One that asks something else at the same place
    fails with JournalMismatch.
    """
    other = copy.copy(server)
    other.always_replay = True
    return other


def instances(server: Server, count: int, clock: Callable[[], float] | None = None) -> list[Server]:
    """Servers with the handlers of one, and each with a RequestState of its own that has the same keys. Started, each
    has a lifespan of its own too. The first one is told by `server.notify`; nobody tells the others.

    clock: seconds since the epoch, for the states.
    """
    made = []
    for number in range(count):
        other = copy.copy(server)
        other.state = server.state.twin(clock)
        if number:
            other.notify = Notifier()
        made.append(other)
    return made


class Balancer:
    """Sends each stateless request to the next instance. A session stays with the first one, as balancers do by the
    session's id."""

    def __init__(self, inner: Sequence[Transport]):
        self._inner = inner
        self._modern = False
        self._last = 0
        self._places: dict[RequestId | None, int] = {}
        self._stack = AsyncExitStack()

    @property
    def request_streams(self) -> bool:
        """Whether each request has a response stream of its own."""
        return self._inner[0].request_streams

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Connect to all of them. Raises: ConnectionFailed."""
        async with AsyncExitStack() as undo:
            for transport in self._inner:
                undo.push_async_callback(transport.close)
                await transport.open(receive, lost)
            self._stack = undo.pop_all()

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Send a request to the next instance, and what is about one to where it went."""
        place = self._place(message)
        await self._inner[place].send(message, headers)

    def _place(self, message: Message) -> int:
        if not self._modern:
            return 0
        if isinstance(message, Request):
            self._last = (self._last + 1) % len(self._inner)
            self._places[message.id] = self._last
        elif isinstance(message, Notification) and message.params is not None:
            about = _members(message.params).get("requestId")
            return self._places.get(about, self._last)
        return self._last

    def negotiated(self, version: Version) -> None:
        """Tell all of them."""
        self._modern = version.is_modern
        for transport in self._inner:
            transport.negotiated(version)

    async def listen(self) -> None:
        """Only a session has what belongs to no request."""
        await self._inner[0].listen()

    async def close(self) -> None:
        """Disconnect from all of them."""
        await self._stack.aclose()


def _members(params: Any) -> dict[str, Any]:
    """The params of a notification, which may be raw JSON or not."""
    value = msgspec.json.decode(msgspec.json.encode(params))
    return value if isinstance(value, dict) else {}
