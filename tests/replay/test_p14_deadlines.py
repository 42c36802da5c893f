"""P14: `timeout=` is a deadline of the question, on every wire; a time-out around it bounds the wait live, and nothing
where there is no wait."""

import asyncio
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from backchannel import AskTimeout, Context, Limits, MemoryStateStore, RequestState, Server
from tests.replay.wires import KEY, LIVE, REPLAYED, asyncio_only, instances, obliging, play
from tests.server.replay import LEGACY, YES, accept, asked, driver, retry, text

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P14")]
mock_clock = pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
stored = pytest.mark.parametrize("store", [False, True])


async def in_time(ctx: Context) -> str:
    said = []
    for name, timeout in (("quick", 10.0), ("slow", 100.0)):
        try:
            said.append((await ctx.elicit(name, str, timeout=timeout)).unwrap())
        except AskTimeout as error:
            said.append(f"none: {error}")
    await ctx.confirm("and?")
    return " ".join(said)


def clocked(tool: Any, store: bool, now: list[float]) -> Server:
    keeping = MemoryStateStore(clock=lambda: now[0]) if store else None
    server = Server("test", state=RequestState([KEY], clock=lambda: now[0], store=keeping))
    server.add_tool(tool, name="tool")
    return server


@stored
@pytest.mark.parametrize(("first", "second", "late"), [(9, 99, []), (11, 99, ["quick"]), (9, 101, ["slow"])])
async def test_an_answer_counts_until_its_deadline(store: bool, first: float, second: float, late: list[str]) -> None:
    """And what came too late is a time-out in all rounds that follow."""
    now = [1000.0]
    async with driver(clocked(in_time, store, now)) as wire:
        response = await wire.call("tool")
        now[0] += first
        response = await wire.call("tool", **retry(response, **{"elicit-1": accept("QUICK")}))
        now[0] += second
        response = await wire.call("tool", **retry(response, **{"elicit-2": accept("SLOW")}))
        assert list(asked(response)) == ["elicit-3"]
        now[0] -= 50
        end = text(await wire.call("tool", **retry(response, **{"elicit-3": YES, "elicit-1": accept("again")})))
    for name in ("quick", "slow"):
        assert (name.upper() in end) is (name not in late)
    assert end.count("none: the client did not answer elicitation/create in time") == len(late)


@stored
async def test_it_does_not_move_when_the_question_is_asked_again(store: bool) -> None:
    now = [1000.0]
    async with driver(clocked(in_time, store, now)) as wire:
        response = await wire.call("tool")
        for _ in range(3):
            now[0] += 3
            response = await wire.call("tool", **retry(response))
            assert list(asked(response)) == ["elicit-1"]
        now[0] += 3
        response = await wire.call("tool", **retry(response))
        assert list(asked(response)) == ["elicit-2"]


@mock_clock
@pytest.mark.parametrize("how", [LIVE, REPLAYED])
@pytest.mark.parametrize(("wait", "late"), [(9.0, False), (11.0, True)])
async def test_with_reverse_calls_it_is_the_same_error(how: str, wait: float, late: bool) -> None:
    """And the client's dialog closes."""
    server = Server("test")
    server.add_tool(in_time, name="tool")
    async with instances(server, how, clock=anyio.current_time) as (wire,):
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            question = await wire.next()
            await anyio.sleep(wait)
            if late:
                assert (await wire.next())["params"]["requestId"] == question["id"]
            wire.answer(question, accept("QUICK"))
            for given in (accept("SLOW"), YES):
                wire.answer(await wire.next(), given)
        end = text(await wire.next())
    assert end == ("none: the client did not answer elicitation/create in time SLOW" if late else "QUICK SLOW")


@mock_clock
@pytest.mark.parametrize("limit", [None, 5.0])
@pytest.mark.case("B13")
async def test_on_a_session_every_question_has_one(limit: float | None) -> None:
    """The server's, where the question has none. By default it is long, and it is there."""
    server = Server("test") if limit is None else Server("test", limits=Limits(ask_timeout=limit))

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return str(await ctx.confirm("anybody?"))
        except AskTimeout:
            return "nobody"

    async with instances(server, LIVE) as (wire,):
        began = anyio.current_time()
        await wire.serve(wire.tool("tool"))
        assert text(await wire.until(lambda message: "result" in message)) == "nobody"
        assert anyio.current_time() - began == (limit or 3600.0)


async def bounded(ctx: Context) -> str:
    try:
        with anyio.fail_after(5):
            return str((await ctx.elicit("a", str)).unwrap())
    except TimeoutError:
        return "late"


@mock_clock
@pytest.mark.parametrize(("wait", "wanted"), [(4, "A"), (6, "late")])
async def test_a_time_out_around_it_bounds_the_wait_live(wait: float, wanted: str) -> None:
    server = Server("test")
    server.add_tool(bounded, name="tool")
    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            question = await wire.next()
            await anyio.sleep(wait)
            wire.answer(question, accept("A"))
        while "method" in (message := await wire.next()):
            pass
        assert text(message) == wanted


@mock_clock
async def test_and_does_nothing_where_there_is_no_wait() -> None:
    now = [1000.0]
    async with driver(clocked(bounded, False, now)) as wire:
        first = await wire.call("tool")
        await anyio.sleep(1000)
        now[0] += 1000
        assert text(await wire.call("tool", **retry(first, **{"elicit-1": accept("A")}))) == "A"


@asyncio_only
@pytest.mark.parametrize("how", ["live", "replayed", "rounds", "replicas", "stored"])
async def test_asyncio_timeout_is_no_obstacle(how: str) -> None:
    async def tool(ctx: Context) -> str:
        async with asyncio.timeout(1000):
            first = await ctx.elicit("a", str)
            second = await asyncio.wait_for(ctx.elicit("b", str), 1000)
        return f"{first.unwrap()} {second.unwrap()}"

    assert (await play(how, tool, obliging)).end == "<a> <b>"
