"""The legacy sessions of one app, by their ids (2025-11-25 basic/transports, Session Management)."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator

from ..exchange import Exchange, Principal
from ..limits import Limits
from .fleet import EventStore
from .in_memory import MemoryEvents
from .session import STANDING, HttpSession, Reading


class Sessions:
    """Opens, finds and ends sessions. An id that is unknown and one that is somebody else's look the same.

    events: keeps their streams.  on_end: called with each that leaves.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic, events: EventStore | None = None):
        self._limits = limits
        self._clock = clock
        self._events = events if events is not None else MemoryEvents()
        self.on_end: Callable[[HttpSession], None] = _nothing
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()  # the one that was used last is last

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._sessions.values()))

    def new(self, principal: Principal | None) -> HttpSession | None:
        """A session that has no place here yet. Where all places are taken, the one that has been idle for longest
        makes room; None if none is idle."""
        self.expire()
        return HttpSession(secrets.token_urlsafe(24), principal, self._events) if self._make_room() else None

    async def keep(self, session: HttpSession, exchange: Exchange) -> None:
        """Give a session its place, once `exchange` has initialized it."""
        self._events.add(session.id, STANDING, session.stream)
        self._sessions[session.id] = session
        self.touch(session)

    async def find(self, id: str, principal: Principal | None) -> HttpSession | None:
        """The session of this id, if it is there and belongs to this principal."""
        self.expire()
        session = self._sessions.get(id)
        if session is None or (session.principal is not principal and not same(session.principal, principal)):
            return None
        self.touch(session)
        return session

    def touch(self, session: HttpSession) -> None:
        """It is used now."""
        if session.id in self._sessions:
            session.used = self._clock()
            self._sessions.move_to_end(session.id)

    async def open(self, session: HttpSession, last_event_id: str | None) -> Reading | None:
        """What a GET reads; see HttpSession.find."""
        return await session.find(last_event_id)

    async def tell(self, session: HttpSession) -> None:
        """Hand on the words of a session to its other places."""
        session.words = ()  # there are none

    async def remove(self, session: HttpSession) -> None:
        """End a session: its handlers are cancelled, its streams close."""
        self._end(session)

    async def tend(self) -> None:
        """What is to be done from time to time."""
        self.expire()

    def expire(self) -> None:
        """Give up what has been idle for too long."""
        oldest = self._clock() - self._limits.session_idle
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used >= oldest:
                return
            if session.busy:
                self.touch(session)
            else:
                self._give_up(session)

    def hang_up(self, running: Collection[object] = ()) -> None:
        """End the connections of GETs. running: streams of calls that run here, which go on.  Calls go on."""
        for session in self._sessions.values():
            for reading in session.readings:
                if not any(reading.stream is stream for stream in running):
                    reading.stop()

    def close(self) -> None:
        """End what runs in sessions here."""
        for session in list(self._sessions.values()):
            self._end(session)

    def _make_room(self) -> bool:
        if len(self._sessions) < self._limits.sessions:
            return True
        idle = next((session for session in self._sessions.values() if not session.busy), None)
        if idle is not None:
            self._give_up(idle)
        return idle is not None

    def _give_up(self, session: HttpSession) -> None:
        """Take its place from a session that does nothing here."""
        self._end(session)

    def _leave(self, session: HttpSession) -> None:
        if self._sessions.pop(session.id, None) is not None:
            self.on_end(session)

    def _end(self, session: HttpSession) -> None:
        self._leave(session)
        session.close()
        self._events.drop(session.id)


def _nothing(session: HttpSession) -> None:
    pass


def same(one: Principal | None, other: Principal | None) -> bool:
    """Whether what is bound to one of them is the other's too."""
    return one is other or key_of(one) == key_of(other)


def key_of(principal: Principal | None) -> str | None:
    """What a session is bound to."""
    return principal.key if principal is not None else None
