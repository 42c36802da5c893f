"""P10: the legacy wire does not replay, and the test kit can make it."""

from typing import Any

import anyio.lowlevel
import pytest

from backchannel import Context, Server
from backchannel.testing import connect
from tests.replay.wires import LIVE, ROUNDS, call, every_wire, instances, obliging

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P10")]


@every_wire
@pytest.mark.parametrize("sync", [False, True])
async def test_how_often_the_code_runs(how: str, sync: bool) -> None:
    runs: list[int] = []
    server = Server("test")

    def synchronous(ctx: Context) -> str:
        runs.append(1)
        for name in "abc":
            ctx.elicit(name, str).wait()
        return "done"

    async def asynchronous(ctx: Context) -> str:
        runs.append(1)
        for name in "abc":
            await ctx.elicit(name, str)
        return "done"

    server.add_tool(synchronous if sync else asynchronous, name="tool")
    async with instances(server, how) as wires:
        assert (await call(wires, obliging)).end == "done"
    assert len(runs) == (1 if how == LIVE else 4)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("replay", [None, "always"])
async def test_the_kit_replays_on_any_wire(era: str, replay: str | None) -> None:
    runs: list[int] = []
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        runs.append(1)
        await anyio.lowlevel.checkpoint()
        return f"{await ctx.confirm('a?')} {await ctx.confirm('b?')}"

    options: dict[str, Any] = {"replay": replay} if replay else {}
    async with connect(server, era=era, elicit=lambda question: {"value": True}, **options) as client:
        assert (await client.call_tool("tool", {})).text == "True True"
    assert len(runs) == (1 if era == "legacy" and replay is None else 3)


async def test_a_handler_that_is_not_deterministic_works_live_and_is_found_out_by_replay() -> None:
    ticks: list[int] = []
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        ticks.append(1)
        return str(await ctx.confirm(f"{len(ticks)}?"))

    for how in (LIVE, ROUNDS):
        async with instances(server, how) as wires:
            end = (await call(wires, obliging)).end
            assert end == "True" if how == LIVE else end["code"] == -32602
