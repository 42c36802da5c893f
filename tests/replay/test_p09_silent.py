"""P9: what was told in one round is not told again, and progress never goes back."""

from typing import Any

import anyio
import pytest

from backchannel import Context, InputRequired, Server
from backchannel.server.asks import Elicit
from tests.replay.wires import LIVE, REPLICAS, call, every_wire, instances, obliging

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P9")]
TELL = {"_meta": {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}}
MORE = Elicit("returned", str)


async def inline(ctx: Context) -> str:
    for place, name in enumerate("abc"):
        await ctx.progress(place, total=3, message=name)
        await ctx.log("info", f"before {name}")
        await ctx.elicit(name, str)
        await ctx.log("info", f"after {name}")
    await ctx.progress(3)
    return "done"


async def in_helpers(ctx: Context) -> str:
    async def say(what: str, value: float) -> None:
        await ctx.log("info", what)
        await ctx.progress(value)

    for place, name in enumerate("abc"):
        await say(f"before {name}", place)
        await ctx.elicit(name, str)
        await say(f"after {name}", place + 0.5)
    return "done"


def in_a_thread(ctx: Context) -> str:
    for place, name in enumerate("abc"):
        ctx.progress(place).wait()
        ctx.log("info", f"before {name}").wait()
        try:
            ctx.elicit(name, str).wait()
        finally:
            ctx.log("info", f"after {name}").wait()
    return "done"


async def around_steps(ctx: Context) -> str:
    async def work(value: float) -> float:
        await ctx.log("info", f"working {value}")
        await ctx.progress(value)
        return value

    for place, name in enumerate("abc"):
        await ctx.step("work", work, place + 0.5)
        await ctx.elicit(name, str)
        await ctx.log("info", f"after {name}")
    return "done"


async def in_tasks(ctx: Context) -> str:
    async def one(name: str) -> None:
        await ctx.log("info", f"before {name}")
        await ctx.elicit(name, str, key=name)
        await ctx.log("info", f"after {name}")

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(one, name)
    return "done"


async def with_what_it_returns(ctx: Context) -> str | InputRequired:
    await ctx.log("info", "begin")
    await ctx.progress(1)
    await ctx.elicit("a", str)
    await ctx.log("info", "between")
    await ctx.progress(2)
    if ctx.answers.read("more", MORE) is None:
        await ctx.log("info", "asking")
        return InputRequired({"more": MORE})
    await ctx.progress(3)
    await ctx.log("info", "end")
    return "done"


@every_wire
@pytest.mark.rule("R60")
@pytest.mark.parametrize("handler", [inline, in_helpers, in_a_thread, around_steps, in_tasks, with_what_it_returns])
async def test_the_client_hears_on_every_wire_what_it_hears_live(handler: Any, how: str) -> None:
    heard: list[tuple[list[str], list[float]]] = []
    for each in (LIVE, how):
        server = Server("test")
        server.add_tool(handler, name="tool")
        async with instances(server, each) as wires:
            for wire in wires:
                wire.session.log_level = "debug"
            assert (await call(wires, obliging, **TELL)).end == "done"
            logs = [data for wire in wires for data in wire.logged]
            heard.append((logs, sorted(value for wire in wires for value in wire.progress)))
            for wire in wires:
                assert wire.progress == sorted(wire.progress)
    (logs, progress), (logs_there, progress_there) = heard
    assert len(set(logs)) == len(logs) and len(set(progress)) == len(progress)
    assert progress_there == progress and sorted(logs_there) == sorted(logs)
    if how != REPLICAS and handler is not in_tasks:
        assert logs_there == logs


@every_wire
async def test_a_client_that_wants_nothing_hears_nothing(how: str) -> None:
    server = Server("test")
    server.add_tool(inline, name="tool")
    async with instances(server, how) as wires:
        assert (await call(wires, obliging)).end == "done"
        assert [wire.told for wire in wires] == [[] for _ in wires]
