"""Tasks that outlive the task that opened their owner."""

import asyncio
import logging
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

from backchannel.nursery import Nursery, current_task
from tests.client import fake_time

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
colour: ContextVar[str] = ContextVar("colour", default="none")


async def run_in_a_task(function: object, *args: object) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(function, *args)  # type: ignore[arg-type]


@pytest.mark.case("G01")
async def test_opened_in_one_task_and_closed_in_another() -> None:
    nursery = Nursery()
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)

    async def start(name: str) -> None:
        nursery.start(work, name)

    await run_in_a_task(start, "a")
    await run_in_a_task(start, "b")
    await anyio.wait_all_tasks_blocked()
    assert nursery.running == 2
    await run_in_a_task(nursery.close)
    assert sorted(ended) == ["a", "b"]
    assert nursery.running == 0


@pytest.mark.case("G01")
async def test_three_closed_in_open_order() -> None:
    nurseries = [Nursery() for _ in range(3)]
    for nursery in nurseries:
        nursery.start(anyio.sleep_forever)
    await anyio.wait_all_tasks_blocked()
    for nursery in nurseries:
        await nursery.close()
        assert nursery.running == 0


async def test_the_task_is_not_cancelled_with_the_one_that_started_it() -> None:
    nursery = Nursery()
    done = anyio.Event()
    go = anyio.Event()

    async def work() -> None:
        await go.wait()
        done.set()

    with anyio.CancelScope() as scope:
        nursery.start(work)
        scope.cancel()
        await anyio.sleep_forever()
    go.set()
    with anyio.fail_after(5):
        await done.wait()
    await nursery.close()


async def test_close_twice_at_once_and_without_a_task() -> None:
    nursery = Nursery()
    await nursery.close()
    await nursery.close()
    with pytest.raises(RuntimeError, match="closed"):
        nursery.start(anyio.sleep_forever)
    other = Nursery()
    other.start(anyio.sleep_forever)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(other.close)
    assert other.running == 0


async def test_close_waits_for_the_end_even_where_it_is_cancelled() -> None:
    nursery = Nursery()
    ended = False

    async def work() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            ended = True

    nursery.start(work)
    await anyio.wait_all_tasks_blocked()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await nursery.close()
        assert ended


async def test_close_does_not_wait_longer_than_its_grace() -> None:
    nursery = Nursery()
    go = anyio.Event()

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            await go.wait()

    nursery.start(stubborn)
    await anyio.wait_all_tasks_blocked()
    began = anyio.current_time()
    await nursery.close(2)
    assert anyio.current_time() - began == pytest.approx(2)
    assert nursery.running == 1
    go.set()
    await nursery.close()
    assert nursery.running == 0


async def test_one_of_its_own_tasks_may_close_it() -> None:
    nursery = Nursery()
    closed = anyio.Event()

    async def work() -> None:
        await nursery.close(1)
        closed.set()

    nursery.start(work)
    with anyio.fail_after(10):
        await closed.wait()
    await nursery.close()


async def test_a_task_that_fails_is_logged_and_does_not_disturb_the_others(caplog: pytest.LogCaptureFixture) -> None:
    nursery = Nursery()
    go = anyio.Event()
    done = anyio.Event()

    async def fail() -> None:
        raise ValueError("broken")

    async def work() -> None:
        await go.wait()
        done.set()

    nursery.start(work)
    nursery.start(fail)
    await anyio.wait_all_tasks_blocked()
    assert [(record.levelno, "broken" in (record.exc_text or "")) for record in caplog.records] == [
        (logging.ERROR, True)
    ]
    assert nursery.running == 1
    go.set()
    with anyio.fail_after(5):
        await done.wait()
    await nursery.close()


async def test_a_task_has_the_context_variables_of_who_started_it() -> None:
    nursery = Nursery()
    seen: list[str] = []

    async def look() -> None:
        seen.append(colour.get())

    async def start(name: str) -> None:
        colour.set(name)
        nursery.start(look)

    for name in ("red", "green"):
        await run_in_a_task(start, name)
        await anyio.wait_all_tasks_blocked()
    nursery.start(look)
    await anyio.wait_all_tasks_blocked()
    assert seen == ["red", "green", "none"]
    await nursery.close()


async def test_tasks_started_and_closed_at_once_still_run_their_clean_up() -> None:
    nursery = Nursery()
    ended = 0

    async def work() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            ended += 1

    for _ in range(3):
        nursery.start(work)
    await nursery.close()
    assert ended == 3


async def test_the_current_task_has_one_identity() -> None:
    mine = current_task()
    assert current_task() is mine
    others: list[object] = []

    async def look() -> None:
        others.append(current_task())

    await run_in_a_task(look)
    assert others[0] is not mine


def test_it_is_made_outside_an_event_loop_and_ends_with_it() -> None:
    """A program that forgets to close it ends all the same."""
    nursery = Nursery()

    async def main() -> None:
        nursery.start(anyio.sleep_forever)
        await anyio.wait_all_tasks_blocked()

    asyncio.run(main())
    assert nursery.running == 0


async def test_how_many_run_a_function() -> None:
    nursery, stop = Nursery(), anyio.Event()

    async def fail() -> None:
        await stop.wait()
        raise ValueError

    async def wait(number: int) -> None:
        await anyio.sleep_forever()

    for number in range(3):
        nursery.start(wait, number)
    nursery.start(fail)
    assert (nursery.count(wait), nursery.count(fail), nursery.count(anyio.sleep), nursery.running) == (3, 1, 0, 4)
    stop.set()
    await anyio.wait_all_tasks_blocked()
    assert (nursery.count(wait), nursery.count(fail), nursery.running) == (3, 0, 3)
    await nursery.close()
    assert (nursery.count(wait), nursery.running, len(nursery._functions)) == (0, 0, 0)


async def test_one_that_is_retired_ends_with_its_last_task() -> None:
    nursery, stop, ended = Nursery(), anyio.Event(), []

    async def work() -> None:
        await stop.wait()
        ended.append("work")

    nursery.start(work)
    nursery.retire()
    with pytest.raises(RuntimeError):
        nursery.start(work)
    await anyio.wait_all_tasks_blocked()
    assert not nursery._ended.is_set()
    stop.set()
    with anyio.fail_after(10):
        await nursery._ended.wait()
    assert ended == ["work"]
    await nursery.close()
    idle = Nursery()
    idle.retire()
    await idle.close()


@pytest.mark.parametrize("begun", [False, True])
def test_a_callback_of_the_event_loop_starts_a_task(begun: bool) -> None:
    """No task runs then, and where asyncio was started without anyio, that knows no event loop."""
    seen = []

    async def main() -> None:
        nursery, ran = Nursery(), anyio.Event()

        async def work() -> None:
            seen.append(colour.get())
            ran.set()

        if begun:
            nursery.start(anyio.sleep_forever)
            await anyio.lowlevel.checkpoint()
        colour.set("green")
        asyncio.get_running_loop().call_later(0, nursery.start, work)
        with anyio.fail_after(10):
            await ran.wait()
        await nursery.close()
        assert nursery.running == 0

    asyncio.run(main())
    assert seen == ["green"]
