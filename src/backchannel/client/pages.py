"""The pages that a person has to visit before a call can be processed (2025-11-25 client/elicitation, URL Elicitation
Required Error). It is a round whose questions come in an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec

from ..errors import URL_ELICITATION_REQUIRED, RemoteProtocolError
from ..protocol.jsonrpc import Notification, encode
from ..protocol.versions import FEATURES
from .asked import Asked, Visited
from .connection import Connection


class _Completed(msgspec.Struct, rename="camel"):
    elicitation_id: str


def pages_of(connection: Connection, error: RemoteProtocolError) -> dict[str, Asked]:
    """The pages that an error wants visited; none if it is no such error, or the host takes no URLs."""
    version = connection.version
    if error.code != URL_ELICITATION_REQUIRED or version is None or not FEATURES[version].url_elicitation_id:
        return {}
    if "url" not in connection.answers.declared.get("elicitation", {}):
        return {}
    listed = error.data.get("elicitations") if isinstance(error.data, Mapping) else None
    if not isinstance(listed, list):
        return {}
    try:
        pages = [Asked.read("elicitation/create", encode(one)) for one in listed]
    except RemoteProtocolError:
        return {}
    # "Any elicitations returned in the error MUST be URL mode elicitations"
    return {str(number): page for number, page in enumerate(pages)} if all(map(_is_url, pages)) else {}


def _is_url(page: Asked) -> bool:
    return bool(page.params.mode == "url")


class Completions:
    """Which pages the server says are completed. Enter it before anybody is asked."""

    def __init__(self, connection: Connection, pages: Mapping[str, Asked]):
        self._heard = connection.heard
        self._pages = pages
        ids: list[Any] = [page.params.elicitation_id for page in pages.values()]
        self._open = {id: anyio.Event() for id in ids if id is not None}

    def __enter__(self) -> Completions:
        self._heard.append(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        self._heard.remove(self._hear)

    def _hear(self, notification: Notification) -> None:
        if notification.method != "notifications/elicitation/complete":
            return
        try:
            id = msgspec.json.decode(notification.params or b"{}", type=_Completed).elicitation_id
        except (msgspec.DecodeError, RecursionError):
            return
        # "Clients MUST ignore notifications referencing unknown or already-completed IDs"
        if id in self._open:
            self._open[id].set()

    async def wait(self, results: Mapping[str, Any], patience: float) -> None:
        """Until all are completed that have an id, and of which the host's handler has not said so itself; at most as
        many seconds, because the server need not say so."""
        awaited = [page.params.elicitation_id for key, page in self._pages.items() if not _is_done(results[key])]
        with anyio.move_on_after(patience):
            for id in awaited:
                if id is not None:
                    await self._open[id].wait()


def _is_done(result: Any) -> bool:
    return isinstance(result, Visited)
