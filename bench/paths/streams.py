"""What stays open: reverse calls, sessions, listen streams. Over raw sockets, on an event loop of the generator's."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from .. import wire
from ..contenders import FLOOR, OURS, SDK, Contender
from ..process import Fleet, HttpServer, fresh
from ..wire import Connection, raw
from . import Figures, Path, Plan

_ID = re.compile(rb'"id":\s*("[^"]+"|\d+)')
_ASKED = b"elicitation/create"
_END = b"\r\n0\r\n\r\n"
_AT_ONCE = 16
_PATIENCE = 60.0  # seconds
LISTEN = wire.modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["note://1"]}})
T = TypeVar("T")


def run(main: Awaitable[T]) -> T:
    """Run on uvloop."""
    import uvloop

    return uvloop.run(main)  # type: ignore[arg-type]


class Wire(asyncio.Protocol):
    """A connection. heard: called with all that has come since `forget`."""

    def __init__(self, heard: Callable[[bytes], None]):
        self._heard = heard
        self._got = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        self._heard(self._got)

    def forget(self) -> None:
        """Begin again with what comes next."""
        self._got = b""


async def connect(port: int, heard: Callable[[bytes], None]) -> Wire:
    """A new connection."""
    _, made = await asyncio.get_running_loop().create_connection(lambda: Wire(heard), "127.0.0.1", port)
    return made


class Asker:
    """Makes calls whose tool asks, one after the other, and answers on a connection of its own."""

    def __init__(self, server: HttpServer, session: str):
        self._port, self._session = server.port, session
        params = {"name": server.contender.asks, "arguments": {"item": "coffee"}}
        self._call = raw(wire.legacy(session, "tools/call", params), server.port)
        self._answered = self._accepted = False
        self.done = 0
        self.running = True

    async def start(self) -> None:
        """Connect, and make the first call."""
        self._calling = await connect(self._port, self._on_stream)
        self._answering = await connect(self._port, self._on_accepted)
        self._begin()

    def stop(self) -> None:
        """Disconnect."""
        self._calling.transport.close()
        self._answering.transport.close()

    def _begin(self) -> None:
        self._answered = self._accepted = self._ended = False
        self._calling.forget()
        self._answering.forget()
        if self.running:
            self._calling.transport.write(self._call)

    def _on_stream(self, got: bytes) -> None:
        if not self._answered and (at := got.find(_ASKED)) >= 0 and b"\n" in got[at:]:
            self._answered = True
            line = next(line for line in got.splitlines() if _ASKED in line)
            found = _ID.search(line)
            assert found is not None
            body = b'{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"size":"large"}}}' % found[1]
            headers, _ = wire.legacy(self._session, "", {})
            self._answering.transport.write(raw((headers, body), self._port))
        elif self._answered and got.endswith(_END):
            if b"coffee large" not in got:
                raise RuntimeError(f"answered {got[-500:]!r}")
            self._ended = True
            self._turn()

    def _on_accepted(self, got: bytes) -> None:
        if got.startswith(b"HTTP/1.1 202") and b"\r\n\r\n" in got:
            self._accepted = True
            self._turn()

    def _turn(self) -> None:
        if self._ended and self._accepted:
            self.done += 1
            self._begin()


def _reverse(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    server = fleet.server(contender)

    async def main() -> Figures:
        askers = [Asker(server, wire.session(server.port)) for _ in range(_AT_ONCE)]
        for asker in askers:
            await asker.start()
        await asyncio.sleep(0.2)  # to warm up
        before, cpu, begin = sum(asker.done for asker in askers), server.cpu, time.perf_counter()
        await asyncio.sleep(plan.seconds)
        done, used = sum(asker.done for asker in askers) - before, server.cpu - cpu
        seconds = time.perf_counter() - begin
        for asker in askers:
            asker.running = False
        await asyncio.sleep(0.1)
        for asker in askers:
            asker.stop()
        if not done:
            raise RuntimeError(f"{contender.title} answers no call that asks")
        return {"rate": done / seconds, "cpu": used / done * 1e6}

    return run(main())


async def open_streams(server: HttpServer, posts: list[wire.Post], mark: bytes) -> list[Wire]:
    """Connections whose streams have begun: each has sent `mark`."""
    wires = []
    for post in posts:
        begun = asyncio.get_running_loop().create_future()

        def heard(got: bytes, begun: Any = begun) -> None:
            if mark in got and not begun.done():
                begun.set_result(None)

        made = await connect(server.port, heard)
        made.transport.write(raw(post, server.port))
        await asyncio.wait_for(begun, _PATIENCE)
        wires.append(made)
    return wires


def _each(server: HttpServer, make: Callable[[int], list[wire.Post]], mark: bytes, count: int) -> Figures:
    """KiB of each of so many streams, after some that warm the server up."""

    async def main() -> Figures:
        await open_streams(server, make(50), mark)
        before = server.kib
        await open_streams(server, make(count), mark)
        return {"kib": (server.kib - before) / count}

    return run(main())


def _parked(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    with fresh(contender) as server:
        session = wire.session(server.port)
        params = {"name": contender.asks, "arguments": {"item": "coffee"}}

        def make(count: int) -> list[wire.Post]:
            return [wire.legacy(session, "tools/call", params, 1000 * count + number) for number in range(count)]

        return _each(server, make, _ASKED, min(plan.count, 400))


def _listening(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    with fresh(contender) as server:
        return _each(server, lambda count: [LISTEN] * count, b"acknowledged", plan.count)


def _sessions(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    with fresh(contender) as server:
        connection = Connection(server.port)

        def begin(count: int) -> None:
            for _ in range(count):
                _, headers, _ = connection.ask(wire.initialize())
                connection.ask(wire.legacy(headers["mcp-session-id"], "notifications/initialized", {}, None))

        begin(50)
        before = server.kib
        begin(plan.count)
        return {"kib": (server.kib - before) / plan.count}


def _change(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    """Milliseconds from the call that tells of a change until the last listener has heard of it."""
    with fresh(contender) as server:

        async def main() -> Figures:
            wires = await open_streams(server, [LISTEN] * plan.listeners, b"acknowledged")
            teller, times = await connect(server.port, lambda got: None), []
            for _ in range(5):
                left, all_heard = len(wires), asyncio.get_running_loop().create_future()

                def heard(got: bytes, all_heard: Any = all_heard) -> None:
                    nonlocal left
                    if b"resources/updated" in got:
                        left -= 1
                        if not left:
                            all_heard.set_result(None)

                for made in wires:
                    made.forget()
                    made._heard = heard
                begin = time.perf_counter()
                teller.transport.write(raw(wire.call("touch", {}), server.port))
                await asyncio.wait_for(all_heard, _PATIENCE)
                times.append((time.perf_counter() - begin) * 1e3)
                await asyncio.sleep(0.05)
            return {"ms": sorted(times)[2]}

        return run(main())


PATHS = [
    Path("reverse-16", _reverse),
    Path("parked", _parked, most=1),
    Path("sessions", _sessions, most=1),
    Path("listening", _listening, who=(OURS, SDK, FLOOR), most=1),
    Path("change", _change, who=(OURS, SDK, FLOOR), most=3),
]
