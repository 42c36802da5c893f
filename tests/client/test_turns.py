"""Whose turn it is: at most so many at once, and in order."""

import time
from collections.abc import Callable

import anyio
import pytest

from backchannel.client.turns import Turn, Turns
from tests.client import fake_time

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend


class Hall:
    """People who take turns, each until it is told to leave."""

    def __init__(self, limit: int):
        self.turns = Turns(limit)
        self.inside: list[int] = []
        self.begun: list[int] = []
        self._leave: dict[int, anyio.Event] = {}

    async def visit(self, number: int, turn: Turn) -> None:
        self._leave[number] = anyio.Event()
        async with turn:
            self.begun.append(number)
            self.inside.append(number)
            try:
                await self._leave[number].wait()
            finally:
                self.inside.remove(number)

    async def leave(self, number: int) -> None:
        self._leave[number].set()
        await anyio.wait_all_tasks_blocked()


@pytest.mark.case("B10")
async def test_no_more_than_the_limit_and_in_order() -> None:
    hall = Hall(3)
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(hall.visit, number, hall.turns.take())
        await anyio.wait_all_tasks_blocked()
        assert hall.inside == [0, 1, 2]
        await hall.leave(1)
        assert hall.inside == [0, 2, 3]
        for number in (0, 2, 3):
            await hall.leave(number)
        assert hall.inside == [4, 5, 6]
        for number in (4, 5, 6, 7):
            await hall.leave(number)
    assert hall.begun == list(range(8))


async def test_they_begin_in_order_however_the_tasks_are_scheduled() -> None:
    for _ in range(20):
        hall = Hall(100)
        async with anyio.create_task_group() as group:
            places = [hall.turns.take() for _ in range(30)]
            for number in reversed(range(30)):
                group.start_soon(hall.visit, number, places[number])
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert hall.begun == list(range(30))


async def test_what_is_not_counted_does_not_wait() -> None:
    hall = Hall(1)
    async with anyio.create_task_group() as group:
        group.start_soon(hall.visit, 0, hall.turns.take())
        group.start_soon(hall.visit, 1, hall.turns.take())
        group.start_soon(hall.visit, 2, hall.turns.take(counted=False))
        await anyio.wait_all_tasks_blocked()
        assert sorted(hall.inside) == [0, 2]
        await hall.leave(2)
        assert hall.inside == [0]
        await hall.leave(0)
        assert hall.inside == [1]
        group.cancel_scope.cancel()


@pytest.mark.case("B16")
@pytest.mark.parametrize("which", ["inside", "waiting"])
async def test_who_gives_up_leaves_no_gap(which: str) -> None:
    hall = Hall(1)
    scopes: list[anyio.CancelScope] = []

    async def visit(number: int, turn: Turn) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await hall.visit(number, turn)

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(visit, number, hall.turns.take())
            await anyio.wait_all_tasks_blocked()
        scopes[0 if which == "inside" else 1].cancel()
        await anyio.wait_all_tasks_blocked()
        assert hall.inside == ([1] if which == "inside" else [0])
        if which == "waiting":
            await hall.leave(0)
            assert hall.inside == [2]
        group.cancel_scope.cancel()


async def test_a_turn_that_is_called_and_given_up_before_it_begins_goes_to_the_next() -> None:
    hall = Hall(1)
    first, second = hall.turns.take(), hall.turns.take()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await hall.visit(0, first)
    assert hall.begun == []
    async with anyio.create_task_group() as group:
        group.start_soon(hall.visit, 1, second)
        await anyio.wait_all_tasks_blocked()
        assert hall.inside == [1]
        group.cancel_scope.cancel()


async def test_ten_thousand_that_give_up_at_once_take_no_time() -> None:
    turns = Turns(1)
    waiting = [turns.take() for _ in range(10_000)]
    before = time.process_time()
    for turn in reversed(waiting):
        turns.ended(turn)
    assert time.process_time() - before < 1
    async with turns.take():
        pass


async def test_an_error_inside_frees_the_place() -> None:
    turns = Turns(1)
    fail: Callable[[], float] = lambda: 1 / 0  # noqa: E731
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with turns.take():
                fail()
