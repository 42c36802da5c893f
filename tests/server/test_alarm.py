"""What is done after a time, on both event loops."""

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel.server.alarm import Alarm
from backchannel.testing import FakeClock


def test_its_time_counts_from_when_it_is_made() -> None:
    """On trio a task waits for it, which begins only later."""
    rung: list[str] = []

    async def main() -> None:
        Alarm(5, lambda: rung.append("first"))
        clock.advance(5)
        await anyio.sleep(1)
        assert rung == ["first"]

    clock = FakeClock()
    clock.run(main, backend="trio")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_rings_once_after_its_time_unless_it_is_stopped(backend: str) -> None:
    rung: list[str] = []

    async def main() -> None:
        Alarm(5, lambda: rung.append("first"))
        late = Alarm(60, lambda: rung.append("late"))
        stopped = Alarm(5, lambda: rung.append("stopped"))
        stopped.stop()
        stopped.stop()
        await anyio.sleep(4)
        assert rung == []
        await anyio.sleep(2)
        assert rung == ["first"]
        late.stop()
        await anyio.sleep(60)

    FakeClock().run(main, backend=backend)
    assert rung == ["first"]


def test_a_short_one_is_not_late() -> None:
    rung: list[float] = []

    async def main() -> None:
        Alarm(0.001, lambda: rung.append(clock.passed))
        Alarm(0.5, lambda: rung.append(clock.passed))
        await anyio.sleep(1)

    clock = FakeClock()
    clock.run(main)
    assert rung == [pytest.approx(0.001), pytest.approx(0.5)]


def test_each_event_loop_has_its_own() -> None:
    rung: list[str] = []

    async def main(name: str) -> None:
        Alarm(5, lambda: rung.append(name))

    async def wait(name: str) -> None:
        await main(name)
        await anyio.sleep(6)

    FakeClock().run(main, "over before it is set")
    FakeClock().run(wait, "the next")
    assert rung == ["the next"]


def test_one_timer_serves_for_those_that_are_stopped_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        real = loop.call_at

        def call_at(when: float, *args: Any, **named: Any) -> Any:
            timers.append(when)
            return real(when, *args, **named)

        monkeypatch.setattr(loop, "call_at", call_at)
        for alarm in [Alarm(60, timers.clear) for _ in range(10)]:
            alarm.stop()
        await anyio.lowlevel.checkpoint()

    FakeClock().run(main)
    assert len(timers) == 1
