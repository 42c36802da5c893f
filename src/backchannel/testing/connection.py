"""Connecting a client with a server, on any wire, in one line of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from string import ascii_uppercase
from typing import Any

from ..client.client import Client
from ..client.transport import Transport
from ..errors import ConfigurationError
from ..memory import MemoryTransport
from ..server.exchange import Principal
from ..server.options import instance
from ..server.server import Server
from ..targets import maker, resolve
from .clock import FakeClock
from .people import People, Script
from .pipes import PipeTransport
from .replicas import Balancer, instances, replaying
from .transcript import Transcript

WIRES = ("memory", "stdio", "http")
ERAS = ("legacy", "modern")
_REPLAY: dict[str, Callable[[Server], Server]] = {"wire": lambda server: server, "always": replaying}


@asynccontextmanager
async def connect(
    server: Any,
    *,
    era: str = "auto",
    wire: str = "memory",
    replay: str = "wire",
    replicas: int = 1,
    clock: Callable[[], float] | None = None,
    people: Script | People | None = None,
    transcript: Transcript | None = None,
    principal: Principal | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of a server, for as long as the `async with` block lasts.

    server: a Server; or anything else that a Client can be pointed at, which is somewhere already, so that `era`,
    `people` and `transcript` count alone.
    era: "legacy", "modern", "auto" or the name of a version.
    wire: "memory", "stdio" (pipes in this process; a StdioServer launches a child) or "http" (a socket of this machine;
    asyncio only).
    replay: "always" runs handlers from the top after each question on the session-based protocol too.
    replicas: how many instances of the server take turns; a session stays with one.
    clock: seconds since the epoch, for states. A FakeClock has to run the event loop.
    people: answers, as for People. If they do not fit the questions, ScriptError is raised.
    transcript: records what goes over the wire.
    principal: who calls, for tools with `visible=` or `scopes=`. Over HTTP a token says so, and nothing issues it: for
    logins there is AuthServer.
    options: for the Client.

    Raises: ConfigurationError, ScriptError, and as `Client.open`.
    """
    __tracebackhide__ = True  # for pytest
    if isinstance(clock, FakeClock):
        clock.require()
    if isinstance(people, People) or people is None:
        answering = people
    else:
        answering = People(people, without=options.keys())
    if principal is not None:
        instance("principal", principal, Principal)
    async with AsyncExitStack() as stack:
        stack.enter_context(answering if answering is not None else nullcontext())
        if isinstance(server, Server):
            if replay not in _REPLAY or replicas < 1:
                raise ConfigurationError('replay is "wire" or "always", replicas a number of at least 1')
            made = instances(_REPLAY[replay](server), replicas, clock)
            transports = [await _transport(wire, one, principal, stack) for one in made]
        elif (wire, replay, replicas, clock, principal) == ("memory", "wire", 1, None, None):
            transports = [maker(server, options.pop("headers", None), options.pop("auth", None))()]
        else:
            raise ConfigurationError("wire, replay, replicas, clock and principal are for a Server object")
        if transcript is not None:
            labels = ascii_uppercase if len(transports) > 1 else [""]
            transports = [transcript.wrap(one, label) for one, label in zip(transports, labels, strict=False)]
        target = transports[0] if len(transports) == 1 else Balancer(transports)
        handlers = answering.handlers() if answering is not None else {}
        client = Client(target, version=era, **{**handlers, **options})
        if answering is not None:
            client.answer_middleware(answering)
        yield await stack.enter_async_context(client)


async def _transport(wire: str, server: Server, principal: Principal | None, stack: AsyncExitStack) -> Transport:
    if wire == "memory":
        return MemoryTransport(server, principal)
    if wire == "stdio":
        return PipeTransport(server, principal)
    if wire != "http":
        raise ConfigurationError(f"there is no wire {wire!r}: give one of {', '.join(WIRES)}")
    from .loopback import TOKEN, loopback

    url = await stack.enter_async_context(loopback(server, principal))
    return resolve(url, {"authorization": f"Bearer {TOKEN}"} if principal is not None else None)
