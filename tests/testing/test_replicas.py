"""Replay on every transport, and instances behind a balancer."""

import itertools
from dataclasses import dataclass

import anyio
import pytest

from backchannel import Client, Context, Server
from backchannel.server.state import Binding, Flow
from backchannel.testing import Transcript, connect, replaying
from backchannel.testing.replicas import instances

server = Server("shop")
charged: list[int] = []
flips = itertools.count()


@dataclass
class Day:
    date: str


def charge(amount: int) -> int:
    charged.append(amount)
    return amount


@server.tool
async def book(ctx: Context, city: str) -> str:
    day, slogan = await ctx.gather(ctx.elicit(f"Which day in {city}?", Day), ctx.sample("A slogan"))
    total = await ctx.step("charge", charge, 42)
    roots = await ctx.roots()
    return f"{day.unwrap().date} {slogan.text} {total} {len(roots)} {ctx.round}"


@server.tool
def book_in_a_thread(ctx: Context) -> str:
    return f"{ctx.elicit('Which day?', Day).wait().unwrap().date} {ctx.round}"


@server.tool
async def flip(ctx: Context) -> str:
    asked = "heads?" if next(flips) % 2 == 0 else "tails?"
    await ctx.elicit(asked, str)
    return asked


def client(server: Server, version: str) -> Client:
    def answer(question: object) -> dict[str, str]:
        return {"date": "2026-12-24", "value": "yes"}

    return Client(server, elicit=answer, sample=lambda _: "Go!", roots=["/tmp"], version=version)


@pytest.mark.anyio
@pytest.mark.rule("P10")
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2026-07-28"])
async def test_a_handler_gives_the_same_when_it_is_replayed(version: str) -> None:
    charged.clear()
    async with client(replaying(server), version) as replayed:
        assert (await replayed.call_tool("book", {"city": "Oslo"})).text == "2026-12-24 Go! 42 1 3"
        assert (await replayed.call_tool("book_in_a_thread")).text == "2026-12-24 2"
    assert charged == [42]


@pytest.mark.anyio
@pytest.mark.rule("P10")
async def test_the_legacy_wire_itself_does_not_replay() -> None:
    charged.clear()
    async with client(server, "2025-11-25") as direct:
        assert (await direct.call_tool("book", {"city": "Oslo"})).text == "2026-12-24 Go! 42 1 1"
        assert not (await direct.call_tool("flip")).is_error
    assert charged == [42]


@pytest.mark.anyio
@pytest.mark.rule("P10")
async def test_a_handler_that_is_not_deterministic_is_found_out() -> None:
    async with client(replaying(server), "2025-11-25") as replayed:
        with pytest.raises(Exception, match="another way"):
            await replayed.call_tool("flip")


def test_instances_share_handlers_and_keys_and_nothing_else() -> None:
    first, second = instances(server, 2)
    assert first.tools is second.tools is server.tools
    assert len({id(one.state) for one in (server, first, second)}) == 3
    flow, binding = Flow("call", 1, server.state.clock(), b"[]"), Binding("tools/call", "book", b"", None)
    assert second.state.open(first.state.seal(flow, binding, "shop"), binding, "shop") == flow
    assert first.notify is server.notify is not second.notify


@pytest.mark.anyio
async def test_a_cancellation_goes_to_the_instance_that_serves_the_call() -> None:
    stopped = anyio.Event()
    slow = Server("slow")

    @slow.tool
    async def stay(ctx: Context) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    transcript = Transcript()
    async with connect(slow, era="modern", replicas=3, transcript=transcript) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "stay")
                await anyio.wait_all_tasks_blocked()
                await client.discover()
                scope.cancel()
        with anyio.fail_after(5):
            await stopped.wait()
    sent = [(type(one.message).__name__, one.instance) for one in transcript.messages if one.sender == "client"]
    call, cancelled = sent[1], sent[-1]
    assert cancelled == ("Notification", call[1])
