"""Results that the server said may be used again for a while (server/utilities/caching).

One cache belongs to one Client, so to one authorization context: nothing is shared between principals, whatever the
scope of a result.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..protocol.jsonrpc import Notification
from ..protocol.versions import CACHEABLE

_CHANGES = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
    "notifications/resources/updated": ("resources/read",),
}
_RETRY = ("inputResponses", "requestState")
_LONGEST = 365 * 24 * 3600 * 1000
"""Milliseconds. What is good for longer is good for a year."""


class _Hints(msgspec.Struct, rename="camel"):
    result_type: str = "complete"
    ttl_ms: int | float = 0


class _Updated(msgspec.Struct):
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    uri: str
    expires: float
    raw: msgspec.Raw


class Cache:
    """Raw results by method and params.

    most: how many results are kept, and most_bytes: how large they are together; the ones that were not used for
    longest go first.  clock: seconds.
    """

    def __init__(
        self, most: int = 1000, clock: Callable[[], float] = time.monotonic, *, most_bytes: int = 64 * 1024 * 1024
    ):
        self._most = most
        self._most_bytes = most_bytes
        self._clock = clock
        self._entries: OrderedDict[tuple[str, bytes], _Entry] = OrderedDict()
        self._bytes = 0
        self.changes = 0
        """How often something has changed. Who sends a request notes it, and gives it to `put` with the result."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, method: str, params: Mapping[str, Any]) -> msgspec.Raw | None:
        """The result of this very request, if it is still fresh."""
        key = _key(method, params)
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() >= entry.expires:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.raw

    def put(self, method: str, params: Mapping[str, Any], raw: msgspec.Raw, *, changes: int | None = None) -> None:
        """Keep a complete result for as long as its `ttlMs` says.

        Never the result of a retry with answers, which are no part of the key, nor one that a change may have
        overtaken.  changes: what `self.changes` was when the request was sent.
        """
        if method not in CACHEABLE or any(params.get(name) is not None for name in _RETRY):
            return
        key = _key(method, params)
        self._drop(key)
        ttl = _ttl(raw)
        if ttl <= 0 or len(raw) > self._most_bytes or changes not in (None, self.changes):
            return
        self._entries[key] = _Entry(params.get("uri", ""), self._clock() + ttl / 1000, raw)
        self._bytes += len(raw)
        while len(self._entries) > self._most or self._bytes > self._most_bytes:
            self._drop(next(iter(self._entries)))

    def changed(self, notification: str, uri: str | None = None) -> None:
        """Something has changed: forget what may be stale.

        uri: of the resource that was updated, which may be a part of the one that was read.
        """
        if notification not in _CHANGES:
            return
        self.changes += 1
        for key, entry in list(self._entries.items()):
            if key[0] in _CHANGES[notification] and (uri is None or uri.startswith(entry.uri)):
                self._drop(key)

    def heard(self, notification: Notification) -> None:
        """A notification of the server's: if it says that something has changed, forget what may be stale ("should be
        considered immediately stale", server/utilities/caching, Interaction with Notifications)."""
        if notification.method in _CHANGES:
            try:
                uri = msgspec.json.decode(notification.params or b"{}", type=_Updated).uri
            except (msgspec.DecodeError, RecursionError):
                uri = None
            self.changed(notification.method, uri)

    def forget(self, method: str | None = None) -> None:
        """Forget all results of a method, say because a cursor is not valid any more; without one, everything, say
        because the credentials are another user's now."""
        self.changes += 1
        for key in [key for key in self._entries if method in (None, key[0])]:
            self._drop(key)

    def _drop(self, key: tuple[str, bytes]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.raw)


def _ttl(raw: msgspec.Raw) -> float:
    """Milliseconds. 0 for what is not complete or does not say ("absent: assume 0", Time-to-Live Field)."""
    try:
        hints = msgspec.json.decode(raw, type=_Hints)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return min(hints.ttl_ms, _LONGEST) if hints.result_type == "complete" else 0


def _key(method: str, params: Mapping[str, Any]) -> tuple[str, bytes]:
    """What identifies a result: the method and the params that affect it (server/utilities/caching, Cache Key)."""
    kept = {name: value for name, value in params.items() if name != "_meta" and value is not None}
    return method, msgspec.json.encode(kept, order="deterministic")
