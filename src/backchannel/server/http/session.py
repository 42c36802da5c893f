"""A legacy session over HTTP in one replica of the server: its place there, and the streams that can be resumed in it
(2025-11-25 basic/transports)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ...protocol.jsonrpc import ErrorObject, ErrorResponse, Malformed, Message, Response, decode, encode
from ...protocol.lifecycle import State
from ...protocol.versions import FEATURES
from ..exchange import Exchange, Principal
from ..session import Session
from ..streams import EventStream
from .fleet import EventStore

STANDING = "0"
_KEPT = 65536  # bytes that one connection read of a stream, over which it is not kept once it was read to its end
Record = dict[str, str | None]


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one place of a session tells the others: a message of the client that was not for it, or what has changed.
    With neither, the session has ended.

    place: whose word it is.  message: as JSON.
    """

    place: str
    message: str | None = None
    changes: Record | None = None


@dataclass(slots=True, eq=False)
class Reading:
    """A stream, and where to begin in it.

    name: the stream's part of event ids, where it has a session in which it can be resumed.  after: see
    EventStream.take.  reader: what `take` gave.
    """

    stream: EventStream
    session: HttpSession | None = None
    name: str = ""
    after: int | None = None
    reader: object = field(default=None, init=False)

    @property
    def event_id(self) -> str | None:
        """The id of the event that was sent last: "Event IDs SHOULD encode sufficient information to identify the
        originating stream" (2025-11-25 basic/transports, Resumability and Redelivery)."""
        return f"{self.name}-{self.stream.position}" if self.name else None

    @property
    def polled(self) -> bool:
        """Whether its client knows that a connection may be closed before the end of the stream."""
        return self.session is not None and self.session.polls

    def stop(self) -> None:
        """Let the connection end, and its client come back for the rest."""
        self.stream.leave(self.reader)


class HttpSession(Session):
    """A session, and its place in this replica.

    events: keeps its streams.  stream: the standing one.  mirror: it began in another place.  readings: the GETs that
    are open.  used: when it was used last.  seen: when its record was read last.  words: what the other places do not
    know yet.
    """

    def __init__(
        self,
        id: str,
        principal: Principal | None,
        events: EventStore,
        stream: EventStream | None = None,
        mirror: bool = False,
    ):
        self._place = secrets.token_hex(4) if mirror else ""
        super().__init__(stream if stream is not None else events.new(), id, principal, self._place)
        self.speaks = not mirror
        self.events = events
        self.readings: list[Reading] = []
        self.used = self.seen = 0.0
        self.words: tuple[Word, ...] = ()
        self._named = 0

    # Streams.

    @property
    def busy(self) -> bool:
        """Running calls, waiting questions and open streams are life."""
        return bool(self.peer.serving or self.peer.pending or self.readings)

    @property
    def standing(self) -> bool:
        return self.stream.attended

    @property
    def polls(self) -> bool:
        """Whether the client comes back for the rest of a stream whose connection the server closes."""
        return self.version is not None and FEATURES[self.version].polling

    def add(self, stream: EventStream) -> Reading:
        """Let the stream of a call be resumed, until some later ones have ended."""
        self._named += 1
        name = self._unique(self._named)
        if self.state is not State.CLOSED:
            self.events.add(self.id, name, stream)
        return Reading(stream, self, name)

    def sent(self, reading: Reading, size: int) -> None:
        """A connection has read so many bytes. What is large and was read to its end need not be resumed."""
        if reading.stream.over and size > _KEPT and reading.name != STANDING:
            self.events.drop(self.id, reading.name)

    async def find(self, event_id: str | None) -> Reading | None:
        """Where a GET reads: in the standing stream, or where a connection broke off after `event_id`. None if there
        was no such event in this session."""
        if not event_id:
            return Reading(self.stream, self, STANDING)
        name, _, number = event_id.partition("-")
        stream = self.stream if name == STANDING else await self.events.find(self.id, name)
        if stream is None or not number.isdecimal() or len(number) > 18 or int(number) > stream.last:
            return None
        return Reading(stream, self, name, int(number))

    # Other places.

    def speak(self) -> None:
        """What the server has to tell its clients goes out here from now on, as somebody listens here."""
        if not self.speaks:
            self.speaks = True
            self._changed("speaks", self._place)

    def begun(self, exchange: Exchange) -> Record:
        """Its record, as the exchange of `initialize` leaves it."""
        who = self.principal.key if self.principal is not None else None
        return {"initialize": bytes(exchange.request.params or b"{}").decode(), "principal": who}

    def learn(self, changes: Mapping[str, str | None]) -> None:
        """Take what another place has told, or the record."""
        for name, value in changes.items():
            if name == "level":
                self.log_level = value
            elif name == "speaks":
                self.speaks = value == self._place
            elif name == "ready" and not self.ready:
                self._get_ready()
            elif name.startswith("uri "):
                uri = name.removeprefix("uri ")
                (self.subscribed.discard if value is None else self.subscribed.add)(uri)

    def hear(self, word: Word) -> bool:
        """Take the word of another place. Returns whether the session goes on."""
        if word.place == self._place:
            # It has come round. Of two places that want to speak, the later one on the bus does, for all.
            self.speaks = self.speaks or "speaks" in (word.changes or ())
            return True
        if word.message is not None:
            message = decode(word.message.encode())
            if isinstance(message, Response | ErrorResponse):
                self.unanswered = 0
            self._take(self.peer.receive(message))
        if word.changes is not None:
            self.learn(word.changes)
        return word.message is not None or word.changes is not None

    @property
    def farewell(self) -> Word:
        """The word that the session has ended."""
        return Word(self._place)

    def _unique(self, number: int) -> str:
        return f"{self._place}.{number}" if self._place else str(number)

    def _hand_on(self, message: Message | Malformed) -> None:
        if isinstance(message, Malformed):
            if not message.is_response or message.id is None:
                return
            message = ErrorResponse(message.id, ErrorObject(message.code, message.message))
        self.words += (Word(self._place, message=encode(message).decode()),)

    def _changed(self, name: str, value: str | None) -> None:
        self.words += (Word(self._place, changes={name: value}),)
