"""What replicas share if they run in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ..streams import HIGH_WATER, LIMIT, EventStream
from .fleet import Hear
from .session import STANDING

KEEP = HIGH_WATER
"""How many events of a stream that were sent are kept, for a client that missed them."""
_ENDED = 8  # streams of a session that are kept although they were read to their end
_UNREAD = 64  # and of those that have ended, and whose client has not come back for the rest

_NO_STREAMS: tuple[dict[str, EventStream], dict[str, EventStream]] = ({}, {})


class MemorySessions:
    """A SessionStore for one process.

    clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._records: dict[str, tuple[dict[str, str], float]] = {}

    def __len__(self) -> int:
        return len(self._records)

    async def read(self, id: str) -> Mapping[str, str]:
        record, end = self._records.get(id, ({}, 0.0))
        return dict(record) if self._clock() < end else {}

    async def write(self, id: str, changes: Mapping[str, str | None], ttl: float) -> None:
        now = self._clock()
        while self._records and self._records[oldest := next(iter(self._records))][1] <= now:
            del self._records[oldest]
        record = {**self._records.pop(id, ({}, 0.0))[0], **changes}
        if record:
            self._records[id] = {name: value for name, value in record.items() if value is not None}, now + ttl

    async def delete(self, id: str) -> None:
        self._records.pop(id, None)


class MemoryEvents:
    """An EventStore for one process."""

    def __init__(self) -> None:
        self._standing: dict[str, EventStream] = {}  # each session has one, and most have no other
        self._others: dict[str, tuple[dict[str, EventStream], dict[str, EventStream]]] = {}  # those that ended apart

    def new(self, on_first: Callable[[], None] | None = None, limit: int = LIMIT, polled: bool = False) -> EventStream:
        return EventStream(on_first, limit, KEEP, polled)

    def add(self, session: str, name: str, stream: EventStream) -> None:
        if name == STANDING:
            self._standing[session] = stream
            return
        streams, ended = self._others.setdefault(session, ({}, {}))
        for other in [other for other, one in streams.items() if one.over]:
            ended[other] = streams.pop(other)
        while len(ended) > _ENDED:
            del ended[next(iter(ended))]
        if len(streams) > _UNREAD:
            unread = [other for other, one in streams.items() if one.closed]
            for old in unread[:-_UNREAD]:
                del streams[old]
        streams[name] = stream

    async def find(self, session: str, name: str) -> EventStream | None:
        if name == STANDING:
            return self._standing.get(session)
        streams, ended = self._others.get(session, _NO_STREAMS)
        return streams.get(name, ended.get(name))

    def drop(self, session: str, name: str | None = None) -> None:
        if name is None or name == STANDING:
            self._standing.pop(session, None)
        if name is None:
            self._others.pop(session, None)
        else:
            for streams in self._others.get(session, _NO_STREAMS):
                streams.pop(name, None)


class MemoryBus:
    """A Bus for one process."""

    def __init__(self) -> None:
        self._topics: dict[str, list[Hear]] = {}

    async def publish(self, topic: str, data: bytes) -> None:
        for hear in self._topics.get(topic, ())[:]:
            hear(data)

    async def subscribe(self, topic: str, hear: Hear) -> None:
        self._topics.setdefault(topic, []).append(hear)

    def unsubscribe(self, topic: str, hear: Hear) -> None:
        hearing = self._topics.get(topic, [])
        if hear in hearing:
            hearing.remove(hear)
        if not hearing:
            self._topics.pop(topic, None)
