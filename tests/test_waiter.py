"""One value, given once."""

import anyio
import pytest

from backchannel.waiter import Waiter
from tests.client import fake_time

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend


async def test_the_value_may_come_before_or_after_the_wait() -> None:
    early = Waiter()
    early.resolve(1)
    assert early.done
    assert await early.wait() == 1
    late = Waiter()
    async with anyio.create_task_group() as group:
        got: list[int] = []

        async def wait() -> None:
            got.append(await late.wait())

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not late.done
        late.resolve(2)
    assert got == [2]


async def test_none_is_a_value() -> None:
    waiter = Waiter()
    waiter.resolve(None)
    assert waiter.done
    assert await waiter.wait() is None


@pytest.mark.rule("R8")
async def test_what_comes_after_the_first_is_ignored() -> None:
    waiter = Waiter()
    waiter.resolve(1)
    waiter.resolve(2)
    waiter.fail(ValueError())
    assert await waiter.wait() == 1
    failed = Waiter()
    failed.fail(ValueError("first"))
    failed.fail(ValueError("second"))
    failed.resolve(1)
    with pytest.raises(ValueError, match="first"):
        await failed.wait()


async def test_an_error_that_is_given_while_one_waits() -> None:
    waiter = Waiter()
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            with pytest.raises(ValueError, match="late"):
                await waiter.wait()

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        waiter.fail(ValueError("late"))


async def test_who_waits_can_be_cancelled() -> None:
    waiter = Waiter()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await waiter.wait()
    assert scope.cancelled_caught
    waiter.resolve(3)
    assert await waiter.wait() == 3


def test_it_is_made_without_an_event_loop() -> None:
    waiter = Waiter()
    waiter.resolve(1)
    assert waiter.done
