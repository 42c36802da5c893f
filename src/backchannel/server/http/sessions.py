"""The legacy sessions of one app, by their ids (2025-11-25 basic/transports, Session Management)."""

from __future__ import annotations

import itertools
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.versions import FEATURES
from ..exchange import Principal
from ..limits import Limits
from ..session import Session
from ..streams import HIGH_WATER, EventStream

KEEP = HIGH_WATER
"""How many events of a stream that were sent are kept, for a client that missed them."""
_ENDED = 8  # streams of a session that have ended and are kept
_STANDING = "0"


@dataclass(frozen=True, slots=True)
class Reading:
    """A stream, and where to begin in it.

    name: the stream's part of event ids, where it has a session in which it can be resumed.  after: see
    EventStream.take.
    """

    stream: EventStream
    session: HttpSession | None = None
    name: str = ""
    after: int | None = None

    @property
    def event_id(self) -> str | None:
        """The id of the event that was sent last: "Event IDs SHOULD encode sufficient information to identify the
        originating stream" (2025-11-25 basic/transports, Resumability and Redelivery)."""
        return f"{self.name}-{self.stream.position}" if self.name else None

    @property
    def primed(self) -> bool:
        """Whether to begin with an event that has an id and nothing else: only versions that say so expect one."""
        version = self.session.version if self.session is not None else None
        return version is not None and FEATURES[version].priming


class HttpSession(Session):
    """A session, with the streams that can be resumed in it: the standing one, and those of calls.

    listeners: how many connections read the standing stream.  used: when it was used last.
    """

    def __init__(self, id: str, principal: Principal | None):
        super().__init__(EventStream(keep=KEEP), id, principal)
        self.listeners = 0
        self.used = 0.0
        self._streams = {_STANDING: self.stream}
        self._names = itertools.count(1)

    @property
    def busy(self) -> bool:
        """Running calls, waiting questions and open streams are life."""
        return bool(self.peer.serving or self.peer.pending or self.listeners)

    def add(self, stream: EventStream) -> Reading:
        """Let the stream of a call be resumed, until some later ones have ended."""
        ended = [name for name, one in self._streams.items() if one.closed]
        for name in ended[:-_ENDED]:
            del self._streams[name]
        name = str(next(self._names))
        self._streams[name] = stream
        return Reading(stream, self, name)

    def forget(self, reading: Reading) -> None:
        """The stream need not be resumed."""
        self._streams.pop(reading.name, None)

    def find(self, event_id: str | None) -> Reading | None:
        """Where a GET reads: in the standing stream, or where a connection broke off after `event_id`. None if there
        was no such event in this session."""
        if not event_id:
            return Reading(self.stream, self, _STANDING)
        name, _, number = event_id.partition("-")
        stream = self._streams.get(name)
        if stream is None or not number.isdecimal() or len(number) > 18 or int(number) > stream.last:
            return None
        return Reading(stream, self, name, int(number))


class Sessions:
    """Opens, finds and ends sessions. An id that is unknown and one that is somebody else's look the same."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic):
        self._limits = limits
        self._clock = clock
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()  # the one that was used last is last

    def __len__(self) -> int:
        return len(self._sessions)

    def new(self, principal: Principal | None) -> HttpSession | None:
        """A session that has no place here yet. Where all places are taken, the one that has been idle for longest
        makes room; None if none is idle."""
        self.expire()
        if len(self._sessions) >= self._limits.sessions:
            idle = next((session for session in self._sessions.values() if not session.busy), None)
            if idle is None:
                return None
            self.remove(idle)
        return HttpSession(secrets.token_urlsafe(24), principal)

    def keep(self, session: HttpSession) -> None:
        """Give a session its place, once it is initialized."""
        self._sessions[session.id] = session
        self.touch(session)

    def find(self, id: str, principal: Principal | None) -> HttpSession | None:
        """The session of this id, if it is there and belongs to this principal."""
        self.expire()
        session = self._sessions.get(id)
        if session is None or _key(session.principal) != _key(principal):
            return None
        self.touch(session)
        return session

    def touch(self, session: HttpSession) -> None:
        """It is used now."""
        if session.id in self._sessions:
            session.used = self._clock()
            self._sessions.move_to_end(session.id)

    def remove(self, session: HttpSession) -> None:
        """End a session: its handlers are cancelled, its streams close."""
        self._sessions.pop(session.id, None)
        session.close()

    def expire(self) -> None:
        """End what has been idle for too long."""
        oldest = self._clock() - self._limits.session_idle
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used >= oldest:
                return
            if session.busy:
                self.touch(session)
            else:
                self.remove(session)

    def hang_up(self) -> None:
        """End the standing streams. Calls go on."""
        for session in self._sessions.values():
            session.stream.close()

    def close(self) -> None:
        """End all."""
        for session in list(self._sessions.values()):
            self.remove(session)


def _key(principal: Principal | None) -> str | None:
    return principal.key if principal is not None else None
