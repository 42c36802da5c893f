"""Time that jumps to the next deadline when nothing else can happen, on both event loops. A module of tests that use no
threads and no sockets takes it by

    anyio_backend = fake_time.anyio_backend

so that none of its tests waits, and a test that would hang fails at once. Plain handlers run at once, and not in a
thread, for which such time would not wait.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

import pytest
from trio.testing import MockClock

from backchannel.client import answers


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Where the loop would wait, its clock is put forward instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0 if timeout is None or timeout > 0 else timeout)
        if not events and timeout is None:
            return super().select(None)
        if not events and timeout is not None and timeout > 0:
            self.now += timeout
        return events


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._fake = _Selector()
        super().__init__(self._fake)

    def time(self) -> float:
        return self._fake.now


FAKE_TIME = [
    pytest.param(("asyncio", {"loop_factory": _Loop}), id="asyncio"),
    pytest.param(("trio", {"clock": MockClock(autojump_threshold=0)}), id="trio"),
]


async def _at_once(function: Callable[[], Any]) -> Any:
    return function()


@pytest.fixture(params=FAKE_TIME)
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The event loop under an async test."""
    monkeypatch.setattr(answers, "in_thread", _at_once)
    return request.param
