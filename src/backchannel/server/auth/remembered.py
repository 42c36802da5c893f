"""What was found out about tokens, for a short time, so that not every request has to find it out again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

import anyio

from ..exchange import Principal
from .refusal import TokenRefused, Unavailable

Verdict = Principal | TokenRefused | Unavailable
_MOST = 4096


class Remembered:
    """Verdicts by the digest of their token, which itself is not kept. clock: in seconds."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._turns: WeakValueDictionary[bytes, anyio.Lock] = WeakValueDictionary()
        self._verdicts: OrderedDict[bytes, tuple[Verdict, float]] = OrderedDict()

    def get(self, token: str) -> Principal | None:
        """Who sends this token, if that is known. Raises: TokenRefused, if it is known to be no good; Unavailable, if
        that could not be found out a moment ago."""
        key = _digest(token)
        verdict, until = self._verdicts.get(key, (None, 0.0))
        if verdict is None:
            return None
        if self._clock() >= until:
            del self._verdicts[key]
            return None
        self._verdicts.move_to_end(key)  # what is used stays, however many tokens are made up
        if isinstance(verdict, Principal):
            return verdict
        raise type(verdict)(str(verdict))

    def turn(self, token: str) -> anyio.Lock:
        """Held while something is found out about a token, so that what many need at a time is found out once."""
        key = _digest(token)
        lock = self._turns.get(key)
        if lock is None:
            lock = self._turns[key] = anyio.Lock()
        return lock

    def put(self, token: str, verdict: Verdict, until: float) -> None:
        """Keep a verdict until then, or until there are too many that were used later."""
        self._verdicts[_digest(token)] = verdict, until
        if len(self._verdicts) > _MOST:
            self._verdicts.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
