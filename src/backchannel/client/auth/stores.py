"""Where tokens and registrations are kept, and the store that forgets them with the process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import anyio


class Store(Protocol):
    """Keeps secrets under names. What it keeps is never shown."""

    async def load(self, key: str) -> bytes | None:
        """What is kept under this name."""

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep this, in place of what was there; None: forget it."""

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """For the time of the block, nobody else who uses this store obtains tokens under this name."""


class MemoryStore:
    """Keeps them for as long as it lives. Give one to several clients, and they log in once."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._locks: dict[str, tuple[anyio.Lock, int]] = {}

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._kept)} kept)"

    async def load(self, key: str) -> bytes | None:
        """What is kept under this name."""
        return self._kept.get(key)

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep this; None: forget it."""
        if value is None:
            self._kept.pop(key, None)
        else:
            self._kept[key] = value

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """One at a time. A lock is only there while somebody has it or waits for it."""
        lock, users = self._locks.get(key) or (anyio.Lock(), 0)
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = lock, users - 1
