"""Looking out for whether a page that the person opened is completed, which the client cannot see (2025-11-25
client/elicitation, Completion Notifications for URL Mode Elicitation)."""

from __future__ import annotations

from typing import Any

import anyio

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


async def watch(session: Session, page: ElicitUrl, id: str) -> None:
    """The same once the call has ended, as long as its session lasts: the client may call again by itself."""
    with anyio.move_on_after(WATCH):
        while session.state is not State.CLOSED:
            if await page.settled(Accepted(None)):
                session.stream.append(Notification(_COMPLETE, ElicitationCompleteParams(id)))
                return
            await anyio.sleep(POLL_INTERVAL)
