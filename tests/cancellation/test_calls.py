"""A call is cancelled at every point, by its caller, on the wire and inside the server: nothing is left, the other side
was told, and the connection goes on."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from backchannel import Client, RemoteProtocolError
from backchannel.server.dispatch import Dispatcher
from tests.cancellation.shop import Shop
from tests.cancellation.stepping import MOST, Plan, Stepped, by_scope, by_task, by_turns

pytestmark = pytest.mark.anyio
Operation = Callable[[Client], Coroutine[Any, Any, Any]]

ASKING: dict[str, Operation] = {
    "asks": lambda client: client.call_tool("asks"),
    "gathers": lambda client: client.call_tool("gathers"),
    "begins": lambda client: client.call_tool("begins"),
    "fails": lambda client: client.call_tool("fails"),
    "returns": lambda client: client.call_tool("returns"),
    "insists": lambda client: client.call_tool("insists"),
    "twice": lambda client: client.call_tool("twice"),
    "prompt": lambda client: client.get_prompt("greeting"),
    "resource": lambda client: client.read("note://1"),
}
WORKING: dict[str, Operation] = {
    **ASKING,
    "works": lambda client: client.call_tool("works"),
    "progress": lambda client: client.call_tool("works", progress=lambda progress: None),
}
CALLS: dict[str, Operation] = {
    **WORKING,
    "plain": lambda client: client.call_tool("plain"),
    "list": lambda client: listed(client),
    "ping": lambda client: client.ping(),
}


async def listed(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


WAYS = {"scope": by_scope, "task": by_task, "turns": by_turns}
versions = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "replayed"])
asyncio_alone = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def through(shop: Shop, strike: Callable[[Client, int], Coroutine[Any, Any, bool]]) -> int:
    """Go through all points on one connection. Returns how many there are."""
    client, tap = shop.client()
    with anyio.fail_after(120):
        async with client:
            await shop.rest(client, tap)
            for point in range(1, MOST):
                tap.log.clear()
                if not await strike(client, point):
                    break
                await shop.rest(client, tap)
            else:
                raise AssertionError("the scenario has no end")
        assert not shop.server.gauges().sessions
    return point


def cancel_this_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@versions
@pytest.mark.parametrize(
    "way, name",
    [*itertools.product(["scope", "task"], CALLS), *itertools.product(["turns"], ["gathers", "begins", "returns"])],
)
@pytest.mark.rule("R7", "R41", "R42", "R55", "R56", "R57", "R58", "R62")
@pytest.mark.case("B16", "C01")
async def test_the_caller_gives_up(version: str, name: str, way: str, anyio_backend: str) -> None:
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)

    async def strike(client: Client, point: int) -> bool:
        return await WAYS[way](lambda: CALLS[name](client), point, shop.fall_silent)

    at_once = (version, name, anyio_backend) == ("2026-07-28", "plain", "asyncio")  # in process it waits nowhere
    assert at_once or await through(shop, strike) > 1


@versions
@pytest.mark.parametrize("name", ["gathers", "begins", "returns", "twice", "works"])
@pytest.mark.parametrize("where", ["plan", "serving_plan", "host_plan"])
@pytest.mark.rule("R41", "R42", "R56", "R57")
@pytest.mark.case("B16")
async def test_the_caller_gives_up_when_others_wait(
    version: str, name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler, its steps and jobs; the task that serves the call; the host's handlers."""
    shop = Shop(version)
    step_serving(shop, monkeypatch)

    async def strike(client: Client, point: int) -> bool:
        with anyio.CancelScope() as scope:
            plan = Plan(point, lambda: (scope.cancel(), shop.fall_silent()))
            setattr(shop, where, plan)
            await WORKING[name](client)
        plan.over = True
        return plan.struck

    assert await through(shop, strike) > (1 if where != "host_plan" or name in ASKING else 0)


@versions
@pytest.mark.parametrize("name", WORKING)
@pytest.mark.parametrize("where", ["plan", "serving_plan"])
@asyncio_alone
@pytest.mark.rule("R7", "R41", "R42")
async def test_a_task_of_the_server_is_cancelled_by_its_own_program(
    version: str, name: str, where: str, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is answered all the same, and its questions are withdrawn."""
    shop = Shop(version)
    step_serving(shop, monkeypatch)

    async def strike(client: Client, point: int) -> bool:
        plan = Plan(point, cancel_this_task)
        setattr(shop, where, plan)
        try:
            await WORKING[name](client)
        except RemoteProtocolError:
            assert plan.struck
        plan.over = True
        return plan.struck

    assert await through(shop, strike) > 1


@versions
@pytest.mark.parametrize("name", ["asks", "gathers", "begins"])
@asyncio_alone
async def test_a_task_of_the_host_is_cancelled_by_its_own_program(version: str, name: str, anyio_backend: str) -> None:
    shop = Shop(version)

    async def strike(client: Client, point: int) -> bool:
        async def call() -> None:
            shop.host_plan = plan
            await ASKING[name](client)

        plan = Plan(point, cancel_this_task)
        task = asyncio.ensure_future(call())
        await asyncio.wait([task])
        plan.over = True
        if not task.cancelled() and not isinstance(task.exception(), RemoteProtocolError):
            task.result()
        return plan.struck

    assert await through(shop, strike) > 1


@versions
@pytest.mark.parametrize("way", WAYS)
async def test_a_call_made_by_a_handler_of_the_host(version: str, way: str, anyio_backend: str) -> None:
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)

    async def strike(client: Client, point: int) -> bool:
        shop.host_calls = client
        return await WAYS[way](lambda: client.call_tool("gathers"), point)

    assert await through(shop, strike) > 1


@versions
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.rule("R9", "R41")
async def test_one_of_several_calls(version: str, way: str, anyio_backend: str) -> None:
    """The others, which ask meanwhile, get their answers."""
    if way == "task" and anyio_backend == "trio":
        return
    shop = Shop(version)

    async def strike(client: Client, point: int) -> bool:
        done: list[str] = []
        struck: list[bool] = []

        async def other(name: str) -> None:
            done.append((await client.call_tool(name)).text)

        async def one() -> None:
            struck.append(await WAYS[way](lambda: client.call_tool("asks"), point))

        async with anyio.create_task_group() as group:
            group.start_soon(other, "asks")
            group.start_soon(one)
            group.start_soon(other, "gathers")
        assert sorted(done) == ["1 Monday 2", "Monday 1 Buy!"]
        return struck[0]

    assert await through(shop, strike) > 1


@versions
@pytest.mark.parametrize("way", ["scope", "turns"])
async def test_a_handler_in_a_thread(version: str, way: str) -> None:
    shop = Shop(version)
    client, tap = shop.client()
    with anyio.fail_after(60):
        async with client:
            for point in range(1, 12):
                tap.log.clear()
                await WAYS[way](lambda: client.call_tool("in_a_thread"), point)
                assert (await client.call_tool("in_a_thread")).text == "Monday"
                await shop.threads_rest(client)
                await shop.rest(client, tap)


def step_serving(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tasks that serve calls be stepped."""
    serve = Dispatcher.__call__

    async def stepped(dispatcher: Dispatcher, exchange: Any) -> Any:
        asks = exchange.name in ("tools/call", "prompts/get", "resources/read")
        return await Stepped(serve(dispatcher, exchange), shop.serving_plan if asks else None)

    monkeypatch.setattr(Dispatcher, "__call__", stepped)
