"""Looking out for whether a page that the person opened is completed, which the client cannot see (2025-11-25
client/elicitation, Completion Notifications for URL Mode Elicitation)."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import anyio

from ..nursery import Nursery
from ..protocol.jsonrpc import Notification
from ..protocol.lifecycle import State
from ..protocol.types.elicitation import ElicitationCompleteParams
from ..protocol.versions import FEATURES
from .asks import Ask, ElicitUrl
from .exchange import Exchange
from .outcomes import Accepted
from .session import Session

POLL_INTERVAL = 1.0
"""Seconds between two looks."""
ROUND = 15.0
"""Seconds for which a round of the stateless protocol looks out. Then the client comes back, and nobody is asked."""
WATCH = 3600.0
"""Seconds for which it is looked out once the call has ended."""
PAGES = 100
"""How many pages of a session are looked out for at once, and of how many calls that named the same one."""
logger = logging.getLogger("backchannel.server")
_COMPLETE = "notifications/elicitation/complete"


async def settled(exchange: Exchange, ask: Ask[Any], answer: Any, limit: float | None = None) -> bool:
    """Wait, while the call's clock stands still, until its author says that an answer is final. limit: seconds.
    Returns whether it is."""
    exchange.hold()
    try:
        with anyio.move_on_after(limit):
            while not await ask.settled(answer):  # noqa: ASYNC110  what the author's function looks at has no event
                await anyio.sleep(POLL_INTERVAL)
            return True
    finally:
        exchange.resume()
    return False


async def completed(exchange: Exchange, ask: Ask[Any], answer: Any, id: str) -> None:
    """Wait until an answer is final, and tell the client that the page `id` is completed."""
    await settled(exchange, ask, answer)
    if isinstance(answer, Accepted) and FEATURES[exchange.version].url_elicitation_id:
        exchange.notify(_COMPLETE, ElicitationCompleteParams(id))


class Watch:
    """The same once the call has ended, as long as its session lasts: the client may call again by itself. A page has
    one in a session, which goes on for each call that names it again.
    """

    def __init__(self, session: Session, page: ElicitUrl):
        self._session = session
        self._page = page
        self._ids: deque[str] = deque(maxlen=PAGES)
        self._scope = anyio.CancelScope()

    def extend(self, page: ElicitUrl, id: str) -> None:
        """Go on for a call that knows the page as `id`."""
        self._page = page
        self._ids.append(id)
        self._scope.deadline = anyio.current_time() + WATCH

    def end(self) -> None:
        """Look out no more."""
        self._scope.cancel()

    async def run(self) -> None:
        """Look out, and tell the client for each call."""
        try:
            with self._scope:
                while not await self._page.settled(Accepted(None)):  # noqa: ASYNC110  as above
                    await anyio.sleep(POLL_INTERVAL)
                for id in self._ids:
                    self._session.stream.append(Notification(_COMPLETE, ElicitationCompleteParams(id)))
        finally:
            self._session.watched.pop(self._page.url, None)


def watch(session: Session, page: ElicitUrl, id: str, nursery: Nursery) -> None:
    """Look out for a page of a call that has ended, which knows it as `id`."""
    if session.state is State.CLOSED:
        return
    one = session.watched.get(page.url)
    if one is None:
        if len(session.watched) >= PAGES:
            return logger.warning("a session has %d pages open; no more are looked out for in it", PAGES)
        one = session.watched[page.url] = Watch(session, page)
        nursery.start(one.run)
    one.extend(page, id)
