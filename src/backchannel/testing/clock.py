"""A clock for tests: nothing waits, and an hour passes as soon as there is nothing else to do.

How it works: on asyncio, an event loop whose time stands still while anything happens, and jumps to the next deadline
where the loop would wait for it; on trio, trio's own MockClock. The event loop cannot see whether a thread or a peer
outside is at work, so it first waits for `patience` seconds of real time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from ..errors import ConfigurationError

T = TypeVar("T")


class FakeClock:
    """Time for an event loop, and for the states of multi round-trip calls.

    start: what it shows at first, in seconds since the epoch.  patience: seconds of real time in which nothing happens
    before it jumps; more of it if there are threads that take long.

    It drives all that the event loop times: `after=` of answers, time limits of tools, questions and calls,
    `anyio.sleep`. Given to `connect`, it also drives the expiry of states and the deadlines in them. It does not drive
    `time.time()` or `time.sleep()`, nor when an idle HTTP session ends.
    """

    def __init__(self, start: float = 1_800_000_000.0, *, patience: float = 0.01):
        self.start = start
        self.patience = patience
        self._asyncio: _Selector | None = None
        self._trio: Any = None

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self.start + self.passed

    @property
    def passed(self) -> float:
        """Seconds since the event loop began."""
        if self._trio is not None:
            return float(self._trio.current_time()) - self._trio_start
        return self._asyncio.now if self._asyncio is not None else 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass at once, from inside the event loop. `await anyio.sleep(seconds)` lets what is due in between
        happen in its order.

        Raises: ConfigurationError outside the event loop.
        """
        if seconds < 0:
            raise ConfigurationError("time does not go back")
        self.require()
        if self._trio is not None:
            self._trio.jump(seconds)
        elif self._asyncio is not None:
            self._asyncio.now += seconds

    def backend(self, name: str = "asyncio") -> tuple[str, dict[str, Any]]:
        """What anyio takes for an event loop that runs on this clock: the value of a fixture `anyio_backend`.

        name: "asyncio" or "trio".  Raises: ConfigurationError.
        """
        if name == "asyncio":
            return name, {"loop_factory": self._loop}
        if name == "trio":
            from trio.testing import MockClock

            self._trio = MockClock(autojump_threshold=self.patience)
            self._trio_start = float(self._trio.current_time())
            return name, {"clock": self._trio}
        raise ConfigurationError(f'there is no event loop {name!r}: give "asyncio" or "trio"')

    def run(self, function: Callable[..., Awaitable[T]], *args: Any, backend: str = "asyncio") -> T:
        """`anyio.run` on this clock."""
        name, options = self.backend(backend)
        return anyio.run(function, *args, backend=name, backend_options=options)

    def require(self) -> None:
        """Raises: ConfigurationError if the event loop that runs here is not on this clock."""
        try:
            clock = getattr(asyncio.get_running_loop(), "clock", None)
        except RuntimeError:
            import trio

            clock = self if trio.lowlevel.current_clock() is self._trio else None
        if clock is not self:
            raise ConfigurationError(
                "the event loop does not run on this FakeClock: use clock.run(main), or a fixture anyio_backend that "
                "returns clock.backend()"
            )

    def _loop(self) -> asyncio.AbstractEventLoop:
        self._trio = None
        self._asyncio = _Selector(self.patience)
        return _Loop(self, self._asyncio)


class _Selector(selectors.DefaultSelector):
    """Where the loop would wait until a time, its clock is put forward instead."""

    def __init__(self, patience: float) -> None:
        super().__init__()
        self.now = 0.0
        self._patience = patience

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(min(timeout, self._patience))
        if not events:
            self.now += timeout
        return events


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock, selector: _Selector) -> None:
        self.clock = clock
        self._fake = selector
        super().__init__(selector)

    def time(self) -> float:
        return self._fake.now
