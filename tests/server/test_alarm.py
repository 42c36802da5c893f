"""What is done after a time, on both event loops."""

import anyio
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
