"""One value that tasks wait for and another gives."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio


class Waiter:
    """Resolved or failed once; what comes after the first is ignored."""

    __slots__ = ("_error", "_value", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None] | anyio.Event] = []
        self._value: Any = _NOTHING
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether `wait` returns at once."""
        return self._value is not _NOTHING or self._error is not None

    def resolve(self, value: Any) -> None:
        """Give the value."""
        if self._value is _NOTHING and self._error is None:
            self._value = value
            if self._waiting:
                self._wake()

    def fail(self, error: BaseException) -> None:
        """Give an exception, which `wait` raises."""
        if self._value is _NOTHING and self._error is None:
            self._error = error
            if self._waiting:
                self._wake()

    async def wait(self) -> Any:
        """The value. Raises: the exception that was given. Waits without a limit: its owner ends it."""
        if self._value is _NOTHING and self._error is None:
            try:
                future = asyncio.get_running_loop().create_future()  # half of what an event costs
            except RuntimeError:
                event = anyio.Event()
                self._waiting.append(event)
                await event.wait()
            else:
                self._waiting.append(future)
                await future
        if self._error is not None:
            raise self._error
        return self._value

    def _wake(self) -> None:
        for one in self._waiting:
            if isinstance(one, anyio.Event):
                one.set()
            elif not one.done():
                one.set_result(None)
        self._waiting.clear()


_NOTHING = object()
