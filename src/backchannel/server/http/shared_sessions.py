"""The sessions of a fleet, of which each replica has those that it was asked for."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, LocalProtocolError
from ...protocol.jsonrpc import Request
from ..channel import read
from ..dispatch import Dispatcher
from ..exchange import Exchange, Principal
from .fleet import Fleet, Hear, reach
from .session import STANDING, HttpSession, Reading, Record, Word
from .sessions import Sessions, key_of

logger = logging.getLogger("backchannel.http")
FRESH = 10.0
"""Seconds after which a session is looked up again, for words that were lost and for its time."""


class _Change(msgspec.Struct, frozen=True):
    """Something that a replica has told its listeners."""

    replica: str
    method: str
    uri: str | None


class SharedSessions(Sessions):
    """Sessions that live as long as their records.

    clock: in seconds.
    """

    def __init__(self, dispatcher: Dispatcher, fleet: Fleet, clock: Callable[[], float] = time.monotonic):
        super().__init__(dispatcher.server.limits, clock, fleet.events)
        self._dispatcher = dispatcher
        self._server = dispatcher.server
        self._store, self._bus = fleet.sessions, fleet.bus
        self._hearing: dict[str, Hear] = {}
        self._replica = secrets.token_hex(8)
        self._changes = f"changes/{self._server.name}"
        self._listens = False
        self._server.notify.elsewhere.append(self._tell_change)

    async def keep(self, session: HttpSession, exchange: Exchange) -> None:
        await self._write(session, session.begun(exchange))
        self._hearing[session.id] = await self._listen(session)
        await super().keep(session, exchange)

    async def find(self, id: str, principal: Principal | None) -> HttpSession | None:
        session = self._sessions.get(id)
        if session is None or self._clock() - session.seen >= FRESH:
            await self._look_up(id, principal)
        return await super().find(id, principal)

    async def open(self, session: HttpSession, last_event_id: str | None) -> Reading | None:
        reading = await reach(session.find(last_event_id))
        if reading is not None and reading.name == STANDING:
            session.speak()
            await self.tell(session)
        return reading

    async def tell(self, session: HttpSession) -> None:
        words, session.words = session.words, ()
        for word in words if session.id in self._sessions else ():
            if word.changes is not None:
                await self._write(session, word.changes)
            await self._say(session.id, word)

    async def remove(self, session: HttpSession) -> None:
        await reach(self._store.delete(session.id))
        await self._say(session.id, session.farewell)
        self._end(session)

    async def tend(self) -> None:
        """Renew the time of what is busy, and end what has none left."""
        try:
            await self._hear_changes()
            for session in list(self._sessions.values()):
                if session.busy:
                    await self._write(session, {})
                elif not await self._read(session.id):
                    self._end(session)
        except LocalProtocolError:
            logger.debug("the next turn may reach it")
        await super().tend()

    def close(self) -> None:
        self._server.notify.elsewhere.remove(self._tell_change)
        self._bus.unsubscribe(self._changes, self._on_change)
        for session in list(self._sessions.values()):
            self._give_up(session)

    def _give_up(self, session: HttpSession) -> None:
        """The session lives on without this place."""
        self._forget(session)
        session.leave()

    def _end(self, session: HttpSession) -> None:
        self._forget(session)
        super()._end(session)

    def _forget(self, session: HttpSession) -> None:
        self._leave(session)
        if (hear := self._hearing.pop(session.id, None)) is not None:
            self._bus.unsubscribe(session.id, hear)

    # The record, and the place that a session gets here.

    async def _look_up(self, id: str, principal: Principal | None) -> None:
        """Have the session here, as its record says.

        Raises: LocalProtocolError (503) if it is not here, and cannot be looked up or placed.
        """
        session = self._sessions.get(id)
        try:
            record = await self._read(id)
            if record and record.get("principal") == key_of(principal):
                if session is None:
                    session = await self._mirror(id, principal)
                session.learn(record)
                self.touch(session)
                await self._write(session, {})
            elif session is not None and not record:
                self._end(session)
        except LocalProtocolError:
            if id not in self._sessions:
                raise
            self._sessions[id].seen = self._clock()  # what is here goes on

    async def _mirror(self, id: str, principal: Principal | None) -> HttpSession:
        """Make a place for a session that began elsewhere."""
        stream = await reach(self._events.find(id, STANDING))
        session = HttpSession(id, principal, self._events, stream, mirror=True)
        hear = await self._listen(session)
        try:
            record = await self._read(id)  # again, for what was changed before it listened
            if id in self._sessions:  # by another request, in the meantime
                return self._sessions[id]
            if not record:
                raise LocalProtocolError(INVALID_REQUEST, "Session not found", status=404)
            if not self._make_room():
                raise LocalProtocolError(INTERNAL_ERROR, "too many sessions are open on this server", status=503)
            request = Request(0, "initialize", msgspec.Raw(record["initialize"].encode()))
            await self._dispatcher.restore(read(request, session, session.stream, self._server.methods))
            self._sessions[id], self._hearing[id] = session, hear
        finally:
            if self._hearing.get(id) is not hear:
                self._bus.unsubscribe(id, hear)
        if stream is None:
            self._events.add(id, STANDING, session.stream)
        session.learn(record)
        return session

    async def _read(self, id: str) -> Mapping[str, str]:
        record = await reach(self._store.read(id))
        return record if "initialize" in record else {}  # a change may come after the end

    async def _write(self, session: HttpSession, changes: Record) -> None:
        await reach(self._store.write(session.id, changes, self._limits.session_idle + FRESH))
        session.seen = self._clock()

    # Words.

    async def _listen(self, session: HttpSession) -> Hear:
        hear = partial(self._on_word, session)
        await reach(self._bus.subscribe(session.id, hear))
        return hear

    async def _say(self, topic: str, word: Word | _Change) -> None:
        await reach(self._bus.publish(topic, msgspec.json.encode(word)))

    def _on_word(self, session: HttpSession, data: bytes) -> None:
        try:
            word = msgspec.json.decode(data, type=Word)
        except (msgspec.DecodeError, RecursionError) as error:
            return logger.error("the bus gave something unreadable: %s", error)
        if not session.hear(word):
            self._end(session)

    async def _hear_changes(self) -> None:
        if not self._listens:
            await reach(self._bus.subscribe(self._changes, self._on_change))
            self._listens = True

    async def _tell_change(self, method: str, uri: str | None) -> None:
        with contextlib.suppress(LocalProtocolError):  # it was logged, and those who are here have heard
            await self._say(self._changes, _Change(self._replica, method, uri))

    def _on_change(self, data: bytes) -> None:
        try:
            change = msgspec.json.decode(data, type=_Change)
        except (msgspec.DecodeError, RecursionError) as error:
            return logger.error("the bus gave something unreadable: %s", error)
        if change.replica != self._replica:
            self._server.notify.tell_here(change.method, change.uri)
