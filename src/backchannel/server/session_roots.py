"""SessionRoots: what a legacy session knows of the client's roots (2025-11-25 client/roots)."""

from __future__ import annotations

import contextlib
import logging

import msgspec

from ..errors import BackchannelError
from ..nursery import Nursery
from ..one_line import one_line
from ..protocol.types.roots import ListRootsResult
from ..waiter import Waiter
from .asks import Roots
from .exchange import Exchange
from .roots import RootList
from .session import Session
from .standing import StandingInputs

FETCH_LIMIT = 30.0
"""Seconds for the client to answer."""
logger = logging.getLogger("backchannel.server")


class SessionRoots:
    """Fetched once the session is there, and again when the client says that they changed; all changes that come while
    a fetch runs are one more. The calls of the session share what was fetched.

    exchange: that began the session.  known: the client's latest answer.  raw: the same as JSON. Both are None before
    the first; a fetch that fails changes nothing.
    """

    def __init__(self, exchange: Exchange, session: Session, nursery: Nursery):
        self.raw: msgspec.Raw | None = None
        self.known: RootList | None = None
        self._session = session
        self._nursery = nursery
        self._inputs = _Fetch(exchange.detached(session), nursery, FETCH_LIMIT, "roots")
        self._inputs.exchange.client = session.client
        self._stale = False
        self._fetch: Waiter | None = None

    @property
    def current(self) -> bool:
        """Whether what is known is what the client said last: no fetch runs."""
        return self.raw is not None and self._fetch is None

    @property
    def coming(self) -> bool:
        """Whether a fetch runs that the client gets to see."""
        return self._fetch is not None and self._session.standing

    def learn(self, raw: msgspec.Raw) -> None:
        """Take an answer of the client, if it is one, and nothing newer is here."""
        if not self.current:
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                self.known = Roots().read(raw)
                self.raw = msgspec.Raw(msgspec.json.encode(ListRootsResult(list(self.known))))

    async def settled(self) -> None:
        """Wait until no fetch runs: at most `FETCH_LIMIT`."""
        if self._fetch is not None:
            await self._fetch.wait()

    def refresh(self) -> None:
        """Fetch, now or after the fetch that runs."""
        self._stale = True
        if self._fetch is None and not self._nursery.closed:
            self._fetch = Waiter()
            self._nursery.start(self._run, self._fetch)

    async def _run(self, fetch: Waiter) -> None:
        try:
            while self._stale:
                self._stale = False
                try:
                    await self._inputs.ask(Roots(), ("", 0))
                except BackchannelError as error:
                    logger.info("the client's roots could not be fetched: %s", one_line(error))
        finally:
            self._fetch = None
            fetch.resolve(None)


class _Fetch(StandingInputs):
    """Asks although something is known. A client that this does not reach may answer other questions."""

    own = False
