"""A document that is fetched when it is first needed, by one request at a time, and kept."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from .refusal import Unavailable

logger = logging.getLogger("backchannel.auth")
T = TypeVar("T")
FRESH = 600.0
"""Seconds for which a document is kept that does not say for how long."""
_SHORTEST, _LONGEST = 60.0, 3600.0  # bounds of what it says
_STALE = 86400.0  # seconds for which an old one serves where a new one cannot be had
_COOLDOWN = 10.0  # seconds between two that were asked for before their time
_PAUSE = 60.0  # the longest, after failures: 1 s, 2 s, 4 s, ...


class Kept(Generic[T]):
    """load: fetches it, and says for how many seconds it is good, or None. Raises Unavailable or OSError.

    How it works: who needs it first loads it, under a lock, and those who come meanwhile wait, or take the old one if
    there is one. Who is cancelled leaves the lock to the next. After a failure nobody tries again for a while.
    """

    def __init__(self, load: Callable[[], Awaitable[tuple[T, float | None]]], clock: Callable[[], float]):
        self._load = load
        self._clock = clock
        self._lock = anyio.Lock()
        self._value: T | None = None
        self._loaded = self._renewed = -math.inf
        self._until = self._retry = -math.inf
        self._failures = 0

    async def get(self) -> T:
        """The document. Raises: Unavailable if there is none."""
        value = self._value
        if value is not None and (self._clock() < self._until or (self._lock.locked() and not self._is_too_old())):
            return value
        async with self._lock:
            if self._value is None or self._clock() >= self._until:
                await self._refresh()
            return self._there()

    async def renew(self, old: T) -> T:
        """One that is newer than `old`, if that can be had now: what others may provoke is not done all the time.

        Raises: Unavailable if there is none.
        """
        async with self._lock:
            if self._value is old and self._clock() >= self._renewed + _COOLDOWN:
                self._renewed = self._clock()
                await self._refresh()
            return self._there()

    async def _refresh(self) -> None:
        now = self._clock()
        if now < self._retry:
            return
        try:
            self._value, seconds = await self._load()
        except (Unavailable, OSError) as error:
            self._retry = now + min(2.0**self._failures, _PAUSE)
            self._failures = min(self._failures + 1, 10)
            logger.error("what an authorization server publishes could not be fetched: %s", error)
            return
        self._failures, self._loaded = 0, now
        self._until = now + min(max(seconds if seconds is not None else FRESH, _SHORTEST), _LONGEST)

    def _there(self) -> T:
        if self._value is None or self._is_too_old():
            raise Unavailable("what an authorization server publishes cannot be fetched now")
        return self._value

    def _is_too_old(self) -> bool:
        return self._clock() >= max(self._until, self._loaded + _STALE)
