"""The legacy sessions of one app, by their ids (2025-11-25 basic/transports, Session Management)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from ..exchange import Principal
from ..limits import Limits
from ..session import Session
from ..streams import EventStream


class Sessions:
    """Opens, finds and ends sessions. An id that is unknown and one that is somebody else's look the same."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic):
        self._limits = limits
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._used: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def new(self, principal: Principal | None) -> Session | None:
        """A session that has no place here yet; None when there are too many."""
        self.expire()
        if len(self._sessions) >= self._limits.sessions:
            return None
        return Session(EventStream(), secrets.token_urlsafe(24), principal)

    def keep(self, session: Session) -> None:
        """Give a session its place, once it is initialized."""
        self._sessions[session.id] = session
        self._used[session.id] = self._clock()

    def find(self, id: str, principal: Principal | None) -> Session | None:
        """The session of this id, if it is there and belongs to this principal."""
        session = self._sessions.get(id)
        if session is None or session.principal != principal:
            return None
        self._used[id] = self._clock()
        return session

    def remove(self, session: Session) -> None:
        """End a session: its handlers are cancelled, its streams close."""
        self._sessions.pop(session.id, None)
        self._used.pop(session.id, None)
        session.close()

    def expire(self) -> None:
        """End what has been idle for too long. Running calls and waiting questions are life."""
        oldest = self._clock() - self._limits.session_idle
        for id, used in list(self._used.items()):
            session = self._sessions[id]
            if used < oldest and not session.peer.serving and not session.peer.pending and not session.listeners:
                self.remove(session)

    def close(self) -> None:
        """End all."""
        for session in list(self._sessions.values()):
            self.remove(session)
