"""The two clocks of a call, and its end with the connection."""

import math

import anyio
import pytest

from backchannel.client.call import Call, current
from backchannel.client.pending import Pending
from backchannel.errors import ConnectionFailed, ConnectionLost, OutcomeUnknown, RequestTimeout
from tests.client import fake_time

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend


async def test_without_limits_nothing_ends_it() -> None:
    with Call("tools/call"):
        await anyio.sleep(80_000)
    with Call("tools/call", math.inf, math.inf):
        await anyio.sleep(80_000)


@pytest.mark.case("B14")
async def test_the_idle_clock_ends_it_without_a_sign_of_life() -> None:
    began = anyio.current_time()
    with pytest.raises(RequestTimeout, match=r"no response to tools/call in time \(idle limit of 10 s\)") as caught:
        with Call("tools/call", 10):
            await anyio.sleep_forever()
    assert caught.value.clock == "idle"
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert anyio.current_time() - began == pytest.approx(10)


@pytest.mark.case("B14")
async def test_a_sign_of_life_starts_the_idle_clock_again() -> None:
    began = anyio.current_time()
    with pytest.raises(RequestTimeout):
        with Call("tools/call", 10) as call:
            for _ in range(5):
                await anyio.sleep(9)
                call.restart()
            await anyio.sleep_forever()
    assert anyio.current_time() - began == pytest.approx(55)


@pytest.mark.case("B14")
async def test_the_idle_clock_stands_still_while_one_question_at_least_is_open() -> None:
    with pytest.raises(RequestTimeout) as caught:
        with Call("tools/call", 1) as call:
            call.hold()
            await anyio.sleep(100)
            call.hold()
            call.restart()
            await anyio.sleep(100)
            call.resume()
            await anyio.sleep(100)
            call.resume()
            await anyio.sleep(0.9)
            answered = anyio.current_time()
            await anyio.sleep_forever()
    assert caught.value.clock == "idle"
    assert anyio.current_time() - answered == pytest.approx(0.1)


@pytest.mark.case("B14")
async def test_the_total_clock_never_stands_still() -> None:
    began = anyio.current_time()
    with pytest.raises(RequestTimeout, match=r"total limit of 4 s") as caught:
        with Call("tools/call", 1, 4) as call:
            call.hold()
            while True:
                await anyio.sleep(0.5)
                call.restart()
    assert caught.value.clock == "total"
    assert anyio.current_time() - began == pytest.approx(4)


@pytest.mark.parametrize("way", ["begin", "held"])
async def test_a_lazy_call_is_in_flight_from_its_first_wait_on(way: str) -> None:
    among: set[Call] = set()
    with pytest.raises(RequestTimeout) as caught:
        with Call("tools/call", 10, 100, among=among, lazy=True) as call:
            assert not among and current() is not call
            await anyio.sleep(1000)
            began = anyio.current_time()
            if way == "begin":
                call.begin()
                call.begin()
            else:
                with call.held():
                    await anyio.sleep(50)
            assert among == {call} and current() is call
            await anyio.sleep_forever()
    assert caught.value.clock == "idle"
    assert anyio.current_time() - began == pytest.approx(10 if way == "begin" else 60)
    assert not among and current() is not call


async def test_a_lazy_call_that_never_waits_has_no_scope() -> None:
    with pytest.raises(ValueError, match="mine"):
        with Call("tools/call", 10, new_scope=pytest.fail, lazy=True) as call:
            call.restart()
            raise ValueError("mine")


async def test_what_has_an_end_in_time_is_returned() -> None:
    with Call("tools/call", 1, 1) as call:
        await anyio.sleep(0.5)
    call.hold()
    call.resume()
    call.restart()
    await anyio.sleep(100)


async def test_the_loss_of_the_connection_ends_it() -> None:
    why = ConnectionLost("the server died")
    with pytest.raises(ConnectionLost, match="the server died") as caught:
        with Call("tools/call", 10) as call:
            call.lose(why)
            await anyio.sleep_forever()
    assert caught.value is not why, "each call has an exception of its own"
    assert caught.value.__cause__ is why


async def test_errors_and_cancellation_pass_through() -> None:
    with pytest.raises(ValueError, match="mine"):
        with Call("tools/call", 10):
            raise ValueError("mine")
    with anyio.CancelScope() as scope:
        with Call("tools/call", 10, 10):
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    with anyio.move_on_after(1) as outer:
        with Call("tools/call", 10, 10):
            await anyio.sleep_forever()
    assert outer.cancelled_caught


async def test_the_clock_is_held_for_the_time_of_a_block() -> None:
    with pytest.raises(RequestTimeout):
        with Call("tools/call", 1) as call:
            with call.held():
                await anyio.sleep(10)
            with pytest.raises(ValueError, match="mine"), call.held():
                await anyio.sleep(10)
                raise ValueError("mine")
            answered = anyio.current_time()
            await anyio.sleep_forever()
    assert anyio.current_time() - answered == pytest.approx(1)


@pytest.mark.rule("R116")
@pytest.mark.parametrize("at_risk", [False, True])
async def test_the_exceptions_that_leave_it_carry_it(at_risk: bool) -> None:
    pending = Pending.start("tools/call", {"name": "t"})
    with pytest.raises(ConnectionLost, match="the server died") as lost:
        with Call("tools/call") as call:
            call.pending, call.at_risk = pending, at_risk
            call.lose(ConnectionLost("the server died"))
            await anyio.sleep_forever()
    assert type(lost.value) is (OutcomeUnknown if at_risk else ConnectionLost)
    assert lost.value.pending is pending
    with pytest.raises(RequestTimeout) as late:
        with Call("tools/call", 1) as call:
            call.pending = pending
            await anyio.sleep_forever()
    assert late.value.pending is pending
    for error in (ConnectionFailed("x"), ConnectionLost("x")):
        with pytest.raises(type(error)), Call("tools/call") as call:
            call.pending = pending
            raise error
        assert error.pending is pending
    inner = ConnectionLost("of another call")
    inner.pending = Pending.start("tools/call", {"name": "inner"})
    with pytest.raises(ConnectionLost), Call("tools/call") as call:
        call.pending = pending
        raise inner
    assert inner.pending.params == {"name": "inner"}
    assert ConnectionLost("no call").pending is None
