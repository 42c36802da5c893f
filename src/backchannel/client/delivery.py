"""One round on its way: what happens when the connection drops under it, or the server has lost the session.

How it works: a transport raises ConnectionFailed where nothing has reached the server, and SessionGone where the server
has refused it unseen. Such a request is sent again, whatever it does. One that may have arrived is sent again only if
it may run twice, and if nobody was asked by it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from ..errors import ConnectionFailed, ConnectionLost, RemoteProtocolError
from ..one_line import one_line
from .call import Call
from .connection import Connection
from .transport import SessionGone

logger = logging.getLogger("backchannel.client")
T = TypeVar("T")

PAUSES = (0.1, 0.5, 2.0)
"""Seconds before a request is sent again, each time."""
_GATEWAY = frozenset({502, 504})
"""What a gateway answers that has lost the server, or does not reach it."""


async def deliver(connection: Connection, call: Call, send: Callable[[], Awaitable[T]], *, may_repeat: bool) -> T:
    """The result of `send`, which sends the same message each time. may_repeat: it may run twice.

    Raises: OutcomeUnknown; ConnectionFailed or ConnectionLost for what could not be delivered in a few tries, and for a
    session that is lost again as soon as it has begun; and what `send` raises.
    """
    renewal, renewed = connection.renewal, False
    pauses = iter(PAUSES)
    while True:
        session = renewal.session if renewal is not None else 0
        try:
            if renewal is not None and renewal.needed:
                with call.held():
                    await renewal.wait()
                session = renewal.session
            call.at_risk = not may_repeat
            result = await send()
            call.at_risk = False
            return result
        except SessionGone as error:
            call.at_risk = False
            if renewal is None or renewed:
                raise
            logger.info("%s is sent again in a new session: %s", one_line(call.method), one_line(error))
            renewal.lose(session)
            renewed = True
            continue
        except (ConnectionFailed, ConnectionLost, RemoteProtocolError) as error:
            call.at_risk = False
            if not _dropped(error):
                raise
            arrived = not isinstance(error, ConnectionFailed)
            if arrived and not may_repeat:
                raise call.unknown(error) from error
            pause = next(pauses, None)
            if pause is None or connection.lost is not None or (arrived and call.asked):
                raise
            logger.info("%s is sent again: %s", one_line(call.method), one_line(error))
        with call.held():
            await anyio.sleep(pause)


def _dropped(error: Any) -> bool:
    """Whether this is the loss of a request, or its response, on the way."""
    return not isinstance(error, RemoteProtocolError) or (error.code == 0 and error.status in _GATEWAY)
