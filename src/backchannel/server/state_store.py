"""StateStore: where a server keeps what it does not want to give to the client, shared by all its instances."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from ..errors import ConfigurationError


class StateStore(Protocol):
    """Values by key, each for a time. Keys are short ASCII, values bytes, times seconds.

    With it a requestState is usable once: a round that is presented again gets the result that it got before, and two
    that are presented at once run the handler once. And states above RequestState's `store_above` stay here.
    """

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Put a value where none is. False, and nothing, if there is one: that has to be one step for all instances."""

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Put a value, whatever was there."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None if there is none, or its time is over."""

    async def delete(self, key: str) -> None:
        """Forget a value, if there is one."""


class MemoryStateStore:
    """A StateStore for one process.

    max_size: bytes of all values. Above that the oldest states go, and the calls that they belong to cannot go on; what
    says that a state was used stays for its time, and where only that is left, nothing more is taken.
    clock: in seconds.
    """

    def __init__(self, *, max_size: int = 64 * 1024 * 1024, clock: Callable[[], float] = time.time):
        if max_size <= 0:
            raise ConfigurationError("max_size of a MemoryStateStore must be positive")
        self.max_size = max_size
        self.size = 0
        self._clock = clock
        self._values: dict[str, tuple[bytes, float]] = {}
        self._swept = -math.inf

    def __len__(self) -> int:
        return len(self._values)

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        if await self.get(key) is not None:
            return False
        await self.put(key, value, ttl)
        return True

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        self._drop(key)
        if self.size + len(value) > self.max_size:
            self._shrink(self.max_size - len(value))
        self._values[key] = value, self._clock() + ttl
        self.size += len(value)

    async def get(self, key: str) -> bytes | None:
        value, expires = self._values.get(key, (None, 0.0))
        if value is not None and self._clock() >= expires:
            self._drop(key)
            return None
        return value

    async def delete(self, key: str) -> None:
        self._drop(key)

    def _drop(self, key: str) -> None:
        value, _ = self._values.pop(key, (b"", 0.0))
        self.size -= len(value)

    def _shrink(self, size: int) -> None:
        """Make room, down to `size` bytes. Raises: MemoryError if that cannot be."""
        now = self._clock()
        if now >= self._swept + 1.0:
            self._swept = now
            for key in [key for key, (_, expires) in self._values.items() if now >= expires]:
                self._drop(key)
        for key in [key for key in self._values if key.startswith("journal:")]:
            if self.size <= size:
                return
            self._drop(key)
        if self.size > size:
            raise MemoryError("the store is full")
