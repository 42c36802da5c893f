"""P11: a step is done at least once, and `call_id` is what makes that no more than once downstream."""

from typing import Any

import pytest

from backchannel import Context, InputRequired, MemoryStateStore, RequestState, Server
from backchannel.server.asks import Elicit
from tests.replay.wires import KEY, call, every_wire, instances, obliging
from tests.server.replay import YES, accept, driver, retry, text

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P11")]
MORE = Elicit("more", str)


@every_wire
@pytest.mark.parametrize("sync", [False, True])
async def test_one_id_for_all_of_a_call_and_another_for_another_call(how: str, sync: bool) -> None:
    """Over rounds, instances and steps, and over rounds of questions that were returned."""
    seen: list[tuple[int, str]] = []
    server = Server("test")

    def synchronous(ctx: Context) -> str | InputRequired:
        seen.append((ctx.round, ctx.call_id))
        seen.append((0, ctx.step("id", lambda: ctx.call_id).wait()))
        ctx.confirm("a?").wait()
        seen.append((ctx.round, ctx.call_id))
        return InputRequired({"more": MORE}) if ctx.answers.read("more", MORE) is None else "done"

    async def asynchronous(ctx: Context) -> str | InputRequired:
        seen.append((ctx.round, ctx.call_id))
        seen.append((0, await ctx.step("id", lambda: ctx.call_id)))
        await ctx.confirm("a?")
        seen.append((ctx.round, ctx.call_id))
        return InputRequired({"more": MORE}) if ctx.answers.read("more", MORE) is None else "done"

    server.add_tool(synchronous if sync else asynchronous, name="tool")
    ids = []
    async with instances(server, how) as wires:
        for _ in range(2):
            seen.clear()
            assert (await call(wires, obliging)).end == "done"
            assert len({id for _, id in seen}) == 1 and seen[0][0] == 1
            ids.append(seen[0][1])
    assert len(set(ids)) == 2 and all(len(id) >= 16 and id.isascii() for id in ids)


@pytest.mark.parametrize("store", [False, True])
async def test_a_state_that_is_presented_twice(store: bool) -> None:
    """It has one id, under which somebody downstream does it once."""
    done: dict[str, int] = {}
    runs: list[str] = []
    server = Server("test", state=RequestState([KEY], store=MemoryStateStore() if store else None))

    def charge(id: str, amount: int) -> int:
        runs.append(id)
        return done.setdefault(id, len(done) + 1)

    @server.tool
    async def pay(ctx: Context) -> str:
        await ctx.confirm("sure?")
        receipt = await ctx.step("charge", charge, ctx.call_id, 42)
        return f"receipt {receipt} {await ctx.confirm('again?')}"

    async with driver(server) as wire:
        again: dict[str, Any] = retry(await wire.call("pay"), **{"elicit-1": YES})
        second = [await wire.call("pay", **again) for _ in range(2)]
        last = [text(await wire.call("pay", **retry(one, **{"elicit-3": accept(True)}))) for one in second]
    assert last == ["receipt 1 True"] * 2
    assert len(runs) == (1 if store else 2) and len(set(runs)) == len(done) == 1
