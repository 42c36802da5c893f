"""FakeClock: what is timed by the event loop, and by states, passes without waiting."""

import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from backchannel import (
    AskTimeout,
    ConfigurationError,
    Context,
    RemoteProtocolError,
    RequestState,
    RequestTimeout,
    Server,
)
from backchannel.testing import FakeClock, accept, connect, never
from tests.testing.shop import Order
from tests.testing.shop import server as shop

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
eras = pytest.mark.parametrize("era", ["legacy", "modern"])
M = accept({"size": "M"})
server = Server("slow", state=RequestState(ttl=3600))


@server.tool
async def ask(ctx: Context, timeout: float | None = None) -> str:
    try:
        return (await ctx.elicit("Which?", Order, timeout=timeout)).unwrap().size
    except AskTimeout:
        return "too late"


@server.tool(timeout=60)
async def work(ctx: Context, seconds: float) -> str:
    await ctx.confirm("Begin?")
    await anyio.sleep(seconds)
    return "done"


def run(clock: FakeClock, backend: str, main: Callable[[], Awaitable[None]]) -> None:
    began = time.monotonic()
    clock.run(main, backend=backend)
    assert time.monotonic() - began < 20


@backends
@eras
@pytest.mark.parametrize("wire", ["memory", "stdio"])
def test_a_person_takes_an_hour(backend: str, era: str, wire: str) -> None:
    clock = FakeClock(start=1000.0)

    async def main() -> None:
        async with connect(
            server, era=era, wire=wire, clock=clock, people=[accept({"size": "M"}, after=3000)]
        ) as client:
            assert (await client.call_tool("ask")).text == "M"
            assert 4000.0 <= clock() < 4000.1

    run(clock, backend, main)


@backends
@eras
@pytest.mark.rule("P14")
def test_an_answer_that_comes_too_late(backend: str, era: str) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with connect(server, era=era, clock=clock, people=[accept({"size": "M"}, after=31), M]) as client:
            assert (await client.call_tool("ask", {"timeout": 30})).text == "too late"
            assert (await client.call_tool("ask", {"timeout": 30})).text == "M"

    run(clock, backend, main)


@backends
def test_time_limits_of_tools_and_calls(backend: str) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with connect(server, clock=clock, people={"Begin": accept(after=3000)}, timeout=600) as client:
            assert (await client.call_tool("work", {"seconds": 59})).text == "done"
            assert "longer than its limit" in (await client.call_tool("work", {"seconds": 61})).text
        async with connect(server, era="legacy", clock=clock, people=[never()], total_timeout=600) as client:
            with pytest.raises(RequestTimeout, match="600"):
                await client.call_tool("ask")

    run(clock, backend, main)


@backends
def test_a_state_expires(backend: str) -> None:
    clock = FakeClock()

    async def main() -> None:
        people = [accept({"size": "M"}, after=3599), accept({"size": "M"}, after=3601)]
        async with connect(server, era="modern", clock=clock, people=people) as client:
            assert (await client.call_tool("ask")).text == "M"
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("ask")

    run(clock, backend, main)


@backends
def test_time_may_pass_at_once(backend: str) -> None:
    clock = FakeClock(start=0.0)

    async def main() -> None:
        clock.advance(7200)
        assert 7200 <= clock() < 7200.1
        with pytest.raises(ConfigurationError, match="back"):
            clock.advance(-1)

    run(clock, backend, main)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_over_http(era: str) -> None:
    clock = FakeClock()

    async def main() -> None:
        people = [accept({"size": "M"}, after=300), accept(after=300)]
        async with connect(shop, era=era, wire="http", clock=clock, people=people) as client:
            assert (await client.call_tool("order", {"name": "Ada"})).text == "Ada: M"
            assert clock() - clock.start >= 600

    run(clock, "asyncio", main)


@backends
def test_threads_are_waited_for(backend: str) -> None:
    clock = FakeClock(patience=0.05)

    async def main() -> None:
        async with connect(shop, clock=clock, people=[M], timeout=5) as client:
            assert (await client.call_tool("order_in_a_thread")).text == "M"

    run(clock, backend, main)


@backends
def test_an_event_loop_on_another_clock(backend: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError, match="does not run on this FakeClock"):
            async with connect(server, clock=FakeClock()):
                pass

    anyio.run(main, backend=backend)


def test_there_are_two_event_loops() -> None:
    with pytest.raises(ConfigurationError, match="curio"):
        FakeClock().backend("curio")


def test_a_plain_function_is_a_clock_for_states() -> None:
    now = [1_000_000.0]

    def later(_: object) -> dict[str, str]:
        now[0] += 4000
        return {"size": "M"}

    async def main() -> None:
        async with connect(server, era="modern", clock=lambda: now[0], people=[later]) as client:
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("ask")

    anyio.run(main)
