"""A new session in place of one that the server has lost: "it MUST start a new session by sending a new
InitializeRequest" (2025-11-25 basic/transports, Session Management)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import Context

from ..errors import BackchannelError, ConnectionFailed, ConnectionLost, RequestTimeout
from ..nursery import Nursery
from ..one_line import one_line
from ..waiter import Waiter
from .transport import SessionGone

logger = logging.getLogger("backchannel.client")


class Renewal:
    """Begins new sessions, one at a time, however many calls find out that the old one is gone.

    begin: brings the connection up again.  `session`: the number of the one in use; 0 is the first.  `done`: how many
    have begun after that.
    """

    def __init__(self, nursery: Nursery, begin: Callable[[], Awaitable[None]]):
        self.session = self.done = 0
        self._nursery = nursery
        self._begin = begin
        self._needed = False
        self._under_way: Waiter | None = None

    def lose(self, session: int) -> None:
        """This session is gone. It may be an old one, which some call was slow to hear of."""
        self._needed = self._needed or session == self.session

    def start(self) -> Waiter:
        """Begin a new one, in a task of its own, so that it goes on whatever becomes of those who wait for it."""
        if self._under_way is None:
            self._under_way = Waiter()
            if self._nursery.closed:
                self._under_way.fail(ConnectionLost("the connection was closed"))
            else:
                # None of the caller's context: what it begins, such as the stream of the session, belongs to no call.
                Context().run(self._nursery.start, self._run, self._under_way)
        return self._under_way

    @property
    def needed(self) -> bool:
        """Whether a new one has to begin, or is beginning, before anything can be sent."""
        return self._needed or self._under_way is not None

    async def wait(self) -> None:
        """Begin a new one, or wait until it has begun.

        Raises: ConnectionFailed where the server could not be reached, SessionGone where it does not know the new
        session either, and any other BackchannelError that is neither.
        """
        try:
            await self.start().wait()
        except (SessionGone, ConnectionFailed, ConnectionLost, RequestTimeout) as error:
            # Each who waits gets an exception of its own, which carries its call.
            kind = SessionGone if isinstance(error, SessionGone) else ConnectionFailed
            raise kind(f"the session was lost, and no new one has begun: {error}") from error

    async def _run(self, waiter: Waiter) -> None:
        self.session += 1
        self._needed = False
        failure: BackchannelError = ConnectionLost("the connection was closed")
        try:
            await self._begin()
            self.done += 1
            logger.info("the server had lost the session; a new one has begun")
            waiter.resolve(None)
        except BackchannelError as error:
            logger.warning("the server has lost the session, and no new one has begun: %s", one_line(error))
            failure = error
        finally:
            self._under_way = None
            self._needed = self._needed or not waiter.done
            waiter.fail(failure)
