"""The resources that a legacy session is subscribed to (2025-11-25 server/resources, Subscriptions)."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from functools import partial

import anyio

from ..errors import BackchannelError, RemoteProtocolError
from ..one_line import one_line
from .connection import Connection
from .delivery import deliver

logger = logging.getLogger("backchannel.client")
_SUBSCRIBE = "resources/subscribe"
_LAST_WORD = 1.0  # seconds for a subscription that was broken off to be taken back


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
                try:
                    await self._ask(_SUBSCRIBE, uri)
                except anyio.get_cancelled_exc_class():
                    await self._take_back(uri)
                    raise
            self._readers[uri] += 1

    async def remove(self, uri: str) -> None:
        """One reader less. Raises: as `add`."""
        async with self._lock:
            self._readers[uri] -= 1
            if not self._readers[uri]:
                del self._readers[uri]
                await self._ask("resources/unsubscribe", uri)

    async def _take_back(self, uri: str) -> None:
        """Whoever asked does not want it any more, and the server may have heard."""
        with anyio.move_on_after(_LAST_WORD, shield=True), contextlib.suppress(BackchannelError):
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
                    logger.warning("the server tells nothing of %s any more: %s", one_line(uri), one_line(error))

    async def _ask(self, method: str, uri: str) -> None:
        with self._connection.call(method, self._timeout) as call:
            request = partial(self._connection.request, method, {"uri": uri}, call)
            await deliver(self._connection, call, request, may_repeat=True)
