"""Opening, closing and listening are cancelled at every point: nothing of the connection is left, or it goes on."""

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Client, ConnectionLost
from backchannel.server.gauges import Gauges
from tests.cancellation.shop import TURNS, Shop
from tests.cancellation.stepping import MOST, by_scope, by_task, by_turns
from tests.server.replay import both_eras

pytestmark = pytest.mark.anyio
WAYS = {"scope": by_scope, "task": by_task, "turns": by_turns}
ways = pytest.mark.parametrize("way", WAYS)


def tasks() -> int:
    """How many there are on this event loop."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio

        return trio.lowlevel.current_statistics().tasks_living


async def gone(shop: Shop, before: int) -> None:
    """Wait until nothing is left of any connection."""
    for _ in range(TURNS):
        if (tasks(), shop.server.gauges(), shop.asked, shop.working, shop.jobs) == (before, Gauges(), 0, 0, 0):
            return
        await anyio.lowlevel.checkpoint()
    raise AssertionError((tasks() - before, shop.server.gauges(), shop.asked, shop.working, shop.jobs))


async def warm_up(shop: Shop) -> int:
    """The tasks there are, once what the event loop keeps for itself is there."""
    client, tap = shop.client()
    async with client:
        await shop.rest(client, tap)
    await anyio.lowlevel.checkpoint()
    return tasks()


@both_eras
@ways
@pytest.mark.case("G04")
async def test_opening(version: str, way: str, anyio_backend: str) -> None:
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)
    with anyio.fail_after(60):
        before = await warm_up(shop)
        for point in range(1, MOST):
            client, tap = shop.client()
            struck = await WAYS[way](client.open, point)
            if struck:
                connection = client._connection
                if connection is None or connection.lost is not None:
                    await gone(shop, before)
                    with pytest.raises(ConnectionLost):
                        await client.call_tool("plain")
                else:
                    await shop.rest(client, tap)  # it was open already
            await client.close()
            await gone(shop, before)
            if not struck:
                break
        assert point > 2


@both_eras
@ways
async def test_opening_in_auto_mode(version: str, way: str, anyio_backend: str) -> None:
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)
    with anyio.fail_after(60):
        before = await warm_up(shop)
        for point in range(1, MOST):
            client, _ = shop.client(version="auto")
            struck = await WAYS[way](client.open, point)
            await client.close()
            await gone(shop, before)
            if not struck:
                break
        assert point > 2


@both_eras
@ways
@pytest.mark.parametrize("calls", [(), ("asks",), ("gathers", "begins", "works")])
@pytest.mark.rule("R48", "R51")
async def test_closing(version: str, way: str, calls: tuple[str, ...], anyio_backend: str) -> None:
    """Closing goes on although it is cancelled; calls in flight fail."""
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)
    with anyio.fail_after(60):
        before = await warm_up(shop)
        for point in range(1, MOST):
            client, _ = shop.client()
            await client.open()
            outcomes: list[Any] = []

            async def call(name: str, client: Client = client, outcomes: list[Any] = outcomes) -> None:
                try:
                    outcomes.append(await client.call_tool(name))
                except ConnectionLost as error:
                    outcomes.append(error)

            async with anyio.create_task_group() as group:
                for name in calls:
                    group.start_soon(call, name)
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
                struck = await WAYS[way](client.close, point)
            assert len(outcomes) == len(calls)
            await client.close()
            await gone(shop, before)
            if not struck:
                break
        assert point > 1


@both_eras
@ways
async def test_a_whole_life(version: str, way: str, anyio_backend: str) -> None:
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)

    async def life() -> None:
        client, _ = shop.client()
        async with client:
            await client.call_tool("gathers")
            await client.call_tool("begins")

    with anyio.fail_after(60):
        before = await warm_up(shop)
        for point in range(1, MOST):
            struck = await WAYS[way](life, point)
            await gone(shop, before)
            if not struck:
                break
        assert point > 10


@both_eras
@ways
async def test_listening(version: str, way: str, anyio_backend: str) -> None:
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)
    client, tap = shop.client()

    async def listen() -> None:
        async with client.listen(tools=True, resources=["note://1", "note://2"]) as changes:
            assert changes.honoured.tools
            await shop.server.notify.tools_changed()
            assert (await anext(changes)).kind == "tools"
            await shop.server.notify.resource_updated("note://2")
            assert (await anext(changes)).uri == "note://2"

    with anyio.fail_after(60):
        async with client:
            await shop.rest(client, tap)
            for point in range(1, MOST):
                tap.log.clear()
                struck = await WAYS[way](listen, point)
                await shop.rest(client, tap)
                if not struck:
                    break
            assert point > 3


@both_eras
@ways
async def test_one_of_two_that_listen(version: str, way: str, anyio_backend: str) -> None:
    """The other one goes on."""
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)
    client, _ = shop.client()

    async def listen() -> None:
        async with client.listen(resources=["note://1"]) as changes:
            await shop.server.notify.resource_updated("note://1")
            await anext(changes)

    with anyio.fail_after(60):
        async with client, client.listen(resources=["note://1"]) as others:
            for point in range(1, MOST):
                struck = await WAYS[way](listen, point)
                await client.call_tool("plain")
                await shop.server.notify.resource_updated("note://1")
                assert (await anext(others)).uri == "note://1"
                if not struck:
                    break
