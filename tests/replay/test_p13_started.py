"""P13: what has started is finished and recorded before the round ends."""

import asyncio
import threading
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from backchannel import Context, InputRequired
from backchannel.server.asks import Elicit
from backchannel.server.question import Question
from tests.replay.wires import asyncio_only, every_wire, play, trio_only

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P13")]
charged: list[int] = []


@pytest.fixture(autouse=True)
def nothing_charged() -> None:
    charged.clear()


async def charge(amount: int) -> int:
    """It takes much longer than asking does."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()
    charged.append(amount)
    return amount


def charge_in_a_thread(amount: int) -> int:
    charged.append(amount)
    return amount


async def gathered(ctx: Context) -> str:
    return repr(await ctx.gather(ctx.step("charge", charge, 42), ctx.elicit("a", str)))


async def gathered_the_other_way(ctx: Context) -> str:
    return repr(await ctx.gather(ctx.elicit("a", str), ctx.gather(ctx.step("charge", charge, 42))))


async def made_and_left(ctx: Context) -> str:
    step = ctx.step("charge", charge, 42)
    answer = await ctx.elicit("a", str)
    return f"{answer} {await step}"


async def in_a_nursery(ctx: Context) -> str:
    got: dict[str, Any] = {}

    async def keep(name: str, question: Question[Any]) -> None:
        got[name] = await question

    async with anyio.create_task_group() as group:
        group.start_soon(keep, "step", ctx.step("charge", charge, 42))
        group.start_soon(keep, "ask", ctx.elicit("a", str))
    return repr(sorted(got.items()))


async def keyed_in_children(ctx: Context) -> str:
    got: dict[str, Any] = {}

    async def pay() -> None:
        got["paid"] = await ctx.step("charge", charge, 42, key="charge")
        got["then"] = await ctx.elicit("then", str, key="then")

    async def ask() -> None:
        got["asked"] = await ctx.elicit("a", str, key="a")

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(pay)
    return repr(sorted(got.items()))


async def while_another_task_runs(ctx: Context) -> str:
    """It asks while the step runs, and the step was begun by a task that goes on to wait for something else."""
    got: list[Any] = []

    async def pay() -> None:
        step = ctx.step("charge", charge, 42, key="charge")
        await anyio.lowlevel.checkpoint()
        got.append(await step)

    async with anyio.create_task_group() as group:
        group.start_soon(pay)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        answer = await ctx.elicit("a", str)
    return f"{answer} {got}"


async def under_a_timeout(ctx: Context) -> str:
    with anyio.fail_after(1000):
        return repr(await ctx.gather(ctx.step("charge", charge, 42), ctx.elicit("a", str)))


async def in_a_worker_thread(ctx: Context) -> str:
    return repr(await ctx.gather(ctx.step("charge", charge_in_a_thread, 42), ctx.elicit("a", str)))


def from_a_sync_tool(ctx: Context) -> str:
    step = ctx.step("charge", charge, 42)
    answer = ctx.elicit("a", str).wait()
    return f"{answer} {step.wait()}"


async def before_what_it_returns(ctx: Context) -> str | InputRequired:
    step = ctx.step("charge", charge, 42)
    answer = ctx.answers.read("a", Elicit("a", str))
    if answer is None:
        await anyio.lowlevel.checkpoint()
        asking = InputRequired({"a": Elicit("a", str)})
        await step
        return asking
    return f"{answer} {await step}"


async def swallowed(ctx: Context) -> str:
    step = ctx.step("charge", charge, 42)
    try:
        answer = await ctx.elicit("a", str)
    except BaseException:
        return "swallowed"
    return f"{answer} {await step}"


async def by_asyncio_gather(ctx: Context) -> str:
    return repr(await asyncio.gather(ctx.step("charge", charge, 42), ctx.elicit("a", str)))


async def by_asyncio_group(ctx: Context) -> str:
    async with asyncio.TaskGroup() as group:
        paid = group.create_task(ctx.step("charge", charge, 42))
        answer = group.create_task(ctx.elicit("a", str))
    return f"{paid.result()} {answer.result()}"


async def by_wait_for(ctx: Context) -> str:
    step = asyncio.create_task(ctx.step("charge", charge, 42))
    answer = await asyncio.wait_for(ctx.elicit("a", str), 1000)
    return f"{answer} {await step}"


async def by_trio(ctx: Context) -> str:
    import trio

    got: dict[str, Any] = {}

    async def keep(name: str, question: Question[Any]) -> None:
        got[name] = await question

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep, "ask", ctx.elicit("a", str))
        nursery.start_soon(keep, "step", ctx.step("charge", charge, 42))
    return repr(sorted(got.items()))


async def once(how: str, handler: Any) -> None:
    seen = await play(how, handler)
    assert charged == [42] and "42" in seen.end and "<a>" in seen.end, seen


@every_wire
@pytest.mark.parametrize(
    "handler",
    [
        gathered,
        gathered_the_other_way,
        made_and_left,
        in_a_nursery,
        keyed_in_children,
        while_another_task_runs,
        under_a_timeout,
        in_a_worker_thread,
        from_a_sync_tool,
        before_what_it_returns,
        swallowed,
    ],
)
async def test_what_has_started_is_charged_once(how: str, handler: Any) -> None:
    await once(how, handler)


@every_wire
@asyncio_only
@pytest.mark.parametrize("handler", [by_asyncio_gather, by_asyncio_group, by_wait_for])
async def test_what_has_started_is_charged_once_on_asyncio(how: str, handler: Any) -> None:
    await once(how, handler)


@every_wire
@trio_only
async def test_what_has_started_is_charged_once_on_trio(how: str) -> None:
    await once(how, by_trio)


@every_wire
async def test_a_step_that_fails_beside_a_question_fails_once(how: str) -> None:
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        async def fail() -> None:
            runs.append(1)
            await anyio.lowlevel.checkpoint()
            raise ValueError("no")

        step = ctx.step("fail", fail)
        answer = await ctx.elicit("a", str)
        try:
            await step
        except Exception as error:
            return f"{answer} {error}"
        return "never"

    assert "ValueError: no" in (await play(how, tool)).end and runs == [1]


@every_wire
async def test_a_step_in_a_thread_is_waited_for(how: str) -> None:
    """However long it takes."""
    go, runs = threading.Event(), []

    def work() -> str:
        go.wait()
        runs.append(1)
        return "worked"

    async def release() -> None:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        go.set()

    async def tool(ctx: Context) -> str:
        step = ctx.step("work", work)
        answer = await ctx.elicit("a", str)
        return f"{answer} {await step}"

    async with anyio.create_task_group() as group:
        group.start_soon(release)
        assert (await play(how, tool)).end.endswith("worked")
    assert runs == [1]
