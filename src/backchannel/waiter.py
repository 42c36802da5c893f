"""One value that one task waits for and another gives."""

from __future__ import annotations

from typing import Any

import anyio


class Waiter:
    """Resolved or failed once; what comes after the first is ignored."""

    __slots__ = ("_error", "_event", "_value")

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._value: Any = _NOTHING
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether `wait` returns at once."""
        return self._value is not _NOTHING or self._error is not None

    def resolve(self, value: Any) -> None:
        """Give the value."""
        if not self.done:
            self._value = value
            self._wake()

    def fail(self, error: BaseException) -> None:
        """Give an exception, which `wait` raises."""
        if not self.done:
            self._error = error
            self._wake()

    async def wait(self) -> Any:
        """The value. Raises: the exception that was given. Waits without a limit: its owner ends it."""
        if not self.done:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()


_NOTHING = object()
