"""What the replicas of one server share, so that each of them can serve any request of a legacy session.

How it works: a replica that gets a request of a session that it does not hold makes a place for it, from the session's
record. A record is what began the session and what has changed since. Each place answers for the calls that run in it;
what a client sends for another place (an answer, a cancellation) goes to all of them by the session's topic, and so
does what changes. The messages of the session lie in streams that every place can read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import anyio

from ...errors import INTERNAL_ERROR, LocalProtocolError
from ..streams import LIMIT, EventStream

logger = logging.getLogger("backchannel.http")
T = TypeVar("T")
Hear = Callable[[bytes], None]
PATIENCE = 5.0
"""Seconds that a store or bus gets for one step."""


class SessionStore(Protocol):
    """Records by session id, each for a time: a few texts with names. Ids and names are short."""

    async def read(self, id: str) -> Mapping[str, str]:
        """The record; empty if there is none, or its time is over."""

    async def write(self, id: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Set these texts of a record, None to forget one, and leave the others: in one step for all replicas. The
        record has `ttl` seconds from now on. Without changes a record that is not there does not come to be."""

    async def delete(self, id: str) -> None:
        """Forget a record, if there is one."""


class EventStore(Protocol):
    """The event streams of sessions, by name. It decides how much it keeps of those that have ended.

    Each replica has its own object for a stream, of a subclass of EventStream: what is done to it (`append`, `close`,
    `dismiss`, `take`, `leave`) goes into a log, and happens to every replica's object in the log's order, so all of
    them count alike. Nothing but `find` waits for anything; a message that could not be put into the log counts in
    `dropped`.
    """

    def new(self, on_first: Callable[[], None] | None = None, limit: int = LIMIT, polled: bool = False) -> EventStream:
        """A stream that nobody finds yet. Arguments: see EventStream."""

    def add(self, session: str, name: str, stream: EventStream) -> None:
        """Let all replicas find it by this name from now on."""

    async def find(self, session: str, name: str) -> EventStream | None:
        """The stream of this name, to be read and written."""

    def drop(self, session: str, name: str | None = None) -> None:
        """A stream of the session need not be kept any more; None: all of them."""


class Bus(Protocol):
    """Hands bytes to whoever listens to a topic. What nobody listens to is lost, and what is lost in between may be."""

    async def publish(self, topic: str, data: bytes) -> None:
        """Hand it to all that listen, the publisher's own process too, in one order for all."""

    async def subscribe(self, topic: str, hear: Hear) -> None:
        """Call `hear` in this event loop for what is published once this has returned."""

    def unsubscribe(self, topic: str, hear: Hear) -> None:
        """And no more. Does nothing if it did not listen."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The three things that replicas share. What they need to run, such as connections and tasks, is theirs: they start
    it when they are first used, and whoever made them ends it."""

    sessions: SessionStore
    events: EventStore
    bus: Bus


async def reach(step: Awaitable[T]) -> T:
    """One step of a store or bus. Raises: LocalProtocolError (503), also where it takes too long."""
    try:
        with anyio.fail_after(PATIENCE):
            return await step
    except Exception as error:
        logger.error("what the replicas of this server share cannot be reached: %s: %s", type(error).__name__, error)
        text = "the server cannot reach its sessions; try again"
        raise LocalProtocolError(INTERNAL_ERROR, text, status=503) from error
