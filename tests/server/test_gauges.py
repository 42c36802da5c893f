"""`server.gauges()`."""

from dataclasses import asdict
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Client, Context, Limits, Server
from backchannel.server.gauges import Gauges
from tests.server.replay import both_eras

pytestmark = pytest.mark.anyio
BUSY = {"sessions": 0, "calls": 0, "questions": 0, "listeners": 0, "streams": 0, "jobs": 0, "outbox": 0, "dropped": 0}


def gauges(server: Server, **rest: int) -> None:
    """Check all of them. Those that are not given are zero."""
    assert asdict(server.gauges()) == {**BUSY, **rest}


class Shop:
    """A server whose handlers stay where they are until they are let go."""

    def __init__(self) -> None:
        self.server = Server("shop", limits=Limits(grace=0.0))
        self.go_on, self.job_goes_on = anyio.Event(), anyio.Event()
        self.server.tool(self.wait)
        self.server.tool(self.asks)
        self.server.tool(self.begins)
        self.server.resource("note://1")(self.note)

    async def wait(self) -> str:
        await self.go_on.wait()
        return "done"

    async def asks(self, ctx: Context) -> str:
        a, b = await ctx.gather(ctx.elicit("One?", str), ctx.elicit("Two?", str))
        return a.unwrap() + b.unwrap()

    async def begins(self, ctx: Context, fails: bool = False) -> str:
        async def job() -> None:
            await self.job_goes_on.wait()
            if fails:
                raise ValueError

        ctx.background("job", job)
        return "begun"

    async def note(self) -> str:
        return "text"


async def test_nothing() -> None:
    server = Server("shop")
    assert server.gauges() == Gauges()
    gauges(server)


@both_eras
async def test_calls_and_sessions(version: str) -> None:
    shop, legacy = Shop(), int(version == "2025-11-25")
    async with Client(shop.server, version=version) as client, Client(shop.server, version=version):
        await anyio.wait_all_tasks_blocked()
        still = {"sessions": 2 * legacy, "listeners": 2 * legacy, "streams": 2}
        gauges(shop.server, **still)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.call_tool, "wait")
            await anyio.wait_all_tasks_blocked()
            gauges(shop.server, **still, calls=3)
            shop.go_on.set()
        gauges(shop.server, **still)
    gauges(shop.server)


@both_eras
async def test_questions(version: str) -> None:
    shop, legacy = Shop(), int(version == "2025-11-25")
    answered = anyio.Event()

    async def elicit(question: Any) -> dict[str, str]:
        await answered.wait()
        return {"value": "x"}

    async with Client(shop.server, version=version, elicit=elicit) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "asks")
            await anyio.wait_all_tasks_blocked()
            still = {"sessions": legacy, "listeners": legacy, "streams": 1}
            gauges(shop.server, **still, calls=legacy, questions=2 * legacy)
            answered.set()
        gauges(shop.server, **still)


@both_eras
@pytest.mark.parametrize("fails", [False, True])
async def test_jobs(version: str, fails: bool) -> None:
    shop = Shop()
    async with Client(shop.server, version=version) as client:
        for _ in range(2):
            await client.call_tool("begins", {"fails": fails})
        assert (shop.server.gauges().jobs, shop.server.gauges().calls) == (2, 0)
        shop.job_goes_on.set()
        await anyio.wait_all_tasks_blocked()
        assert shop.server.gauges().jobs == 0
        shop.job_goes_on = anyio.Event()
        await client.call_tool("begins", {"fails": fails})
    assert shop.server.gauges() == Gauges()


@both_eras
async def test_a_subscription_is_a_listener_and_no_call(version: str) -> None:
    shop = Shop()
    async with Client(shop.server, version=version) as client:
        async with client.listen(tools=True, resources=["note://1"]) as changes:
            assert (shop.server.gauges().listeners, shop.server.gauges().calls) == (1, 0)
            assert await shop.server.notify.tools_changed() == 1
            assert shop.server.gauges().outbox == 1
            assert (await anext(changes)).kind == "tools"
            assert shop.server.gauges().outbox == 0
        await anyio.wait_all_tasks_blocked()
        assert shop.server.gauges().listeners == int(version == "2025-11-25")
    gauges(shop.server)


@both_eras
async def test_calls_that_are_given_up_or_fail(version: str) -> None:
    shop = Shop()
    async with Client(shop.server, version=version, elicit=lambda question: {"value": "x"}) as client:
        await anyio.wait_all_tasks_blocked()
        still = shop.server.gauges()
        for _ in range(3):
            with anyio.move_on_after(0):
                await client.call_tool("wait")
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "wait")
                await anyio.wait_all_tasks_blocked()
                assert shop.server.gauges().calls == 1
                group.cancel_scope.cancel()
            await client.call_tool("begins", {"fails": 5})
        await anyio.wait_all_tasks_blocked()
        assert shop.server.gauges() == still
    gauges(shop.server)
