"""Callbacks of the host: in order, and not in the way."""

import logging

import anyio
import pytest

from backchannel.client.listener import MOST, Listener
from backchannel.nursery import Nursery
from tests.client import fake_time

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend


async def test_a_plain_function_is_called_at_once() -> None:
    seen: list[int] = []
    nursery = Nursery()
    listener = Listener(seen.append, nursery)
    for number in range(3):
        listener(number)
        assert seen[-1] == number
    await listener.drained()
    assert nursery.running == 0


async def test_a_coroutine_function_gets_one_after_the_other() -> None:
    seen: list[str] = []
    go = anyio.Event()

    async def callback(number: int) -> None:
        seen.append(f"begin {number}")
        await go.wait()
        seen.append(f"end {number}")

    nursery = Nursery()
    listener = Listener(callback, nursery)
    for number in range(3):
        listener(number)
    await anyio.wait_all_tasks_blocked()
    assert seen == ["begin 0"]
    go.set()
    await listener.drained()
    assert seen == ["begin 0", "end 0", "begin 1", "end 1", "begin 2", "end 2"]
    listener(3)
    await listener.drained()
    assert seen[-1] == "end 3"
    await nursery.close()


async def test_a_function_that_is_sometimes_a_coroutine_keeps_the_order() -> None:
    seen: list[int] = []

    async def later(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(number)

    def callback(number: int) -> object:
        return later(number) if number % 2 else seen.append(number)

    nursery = Nursery()
    listener = Listener(callback, nursery)
    for number in range(7):
        listener(number)
    await listener.drained()
    assert seen == list(range(7))
    await nursery.close()


async def test_a_failing_callback_is_logged_and_gets_the_next_value(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def plain(number: int) -> None:
        seen.append(number)
        raise ValueError("plain")

    async def coroutine(number: int) -> None:
        seen.append(number)
        raise ValueError("coroutine")

    nursery = Nursery()
    for callback in (plain, coroutine):
        listener = Listener(callback, nursery)
        listener(1)
        listener(2)
        await listener.drained()
    assert seen == [1, 2, 1, 2]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 4
    await nursery.close()


async def test_of_what_waits_too_long_the_oldest_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    dropped: list[None] = []
    go = anyio.Event()

    async def callback(number: int) -> None:
        seen.append(number)
        await go.wait()

    nursery = Nursery()
    listener = Listener(callback, nursery, lambda: dropped.append(None))
    for number in range(MOST + 6):
        listener(number)
    go.set()
    await listener.drained()
    assert seen == [0, *range(6, MOST + 6)]
    assert len(dropped) == 5
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "once"
    await nursery.close()


@pytest.mark.parametrize("later", [False, True])
async def test_whatever_a_callback_raises_is_its_own_failure(later: bool, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[BaseException] = []

    def plain(error: BaseException) -> None:
        seen.append(error)
        raise error

    async def coroutine(error: BaseException) -> None:
        await anyio.lowlevel.checkpoint()
        plain(error)

    errors = [GeneratorExit(), anyio.get_cancelled_exc_class().__new__(anyio.get_cancelled_exc_class()), ValueError()]
    nursery = Nursery()
    listener = Listener(coroutine if later else plain, nursery)
    for error in errors:
        listener(error)
    await listener.drained()
    assert seen == errors
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3
    await nursery.close()


async def test_what_is_stopped_gets_no_more() -> None:
    seen: list[int] = []
    go = anyio.Event()

    async def callback(number: int) -> None:
        seen.append(number)
        await go.wait()

    nursery = Nursery()
    listener = Listener(callback, nursery)
    for number in range(3):
        listener(number)
    await anyio.wait_all_tasks_blocked()
    listener.stop()
    go.set()
    await listener.drained()
    assert seen == [0]
    await nursery.close()
