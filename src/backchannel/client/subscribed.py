"""The resources that a legacy session is subscribed to (2025-11-25 server/resources, Subscriptions)."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial

import anyio

from ..errors import RemoteProtocolError
from .connection import Connection
from .delivery import deliver

logger = logging.getLogger("backchannel.client")
_SUBSCRIBE = "resources/subscribe"


class Subscribed:
    """Each once, however many readers want it."""

    def __init__(self, connection: Connection, timeout: float | None):
        self._connection = connection
        self._timeout = timeout
        self._readers: Counter[str] = Counter()
        self._lock = anyio.Lock()

    async def add(self, uri: str) -> None:
        """One more reader. Raises: RemoteProtocolError, ConnectionLost, RequestTimeout."""
        async with self._lock:
            if not self._readers[uri]:
                await self._ask(_SUBSCRIBE, uri)
            self._readers[uri] += 1

    async def remove(self, uri: str) -> None:
        """One reader less. Raises: as `add`."""
        async with self._lock:
            self._readers[uri] -= 1
            if not self._readers[uri]:
                del self._readers[uri]
                await self._ask("resources/unsubscribe", uri)

    @property
    def uris(self) -> list[str]:
        """What the session is subscribed to."""
        return [uri for uri, readers in self._readers.items() if readers]

    async def restore(self) -> None:
        """Subscribe to all of them in a new session. It takes no lock: one that is being added may wait for just that
        session. Raises: ConnectionLost, RequestTimeout."""
        for uri in self.uris:
            with self._connection.call(_SUBSCRIBE, self._timeout) as call:
                try:
                    await self._connection.request(_SUBSCRIBE, {"uri": uri}, call)
                except RemoteProtocolError as error:
                    logger.warning("the server tells nothing of %s any more: %s", uri[:200], error)

    async def _ask(self, method: str, uri: str) -> None:
        with self._connection.call(method, self._timeout) as call:
            request = partial(self._connection.request, method, {"uri": uri}, call)
            await deliver(self._connection, call, request, may_repeat=True)
