"""The numbers of a server: what goes on in it now.

How it works: what has a place of its own (sessions, questions, listeners, jobs) is counted where it lies, when somebody
asks. Of what has none, a Tally keeps count, one for each time that the server was started; it leaves with its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..nursery import Nursery
from ..protocol.lifecycle import State
from .steps import run_job

if TYPE_CHECKING:
    from .session import Session


@dataclass(frozen=True, slots=True)
class Gauges:
    """What goes on in a server of this process, on all transports that serve it.

    sessions: legacy sessions that are open.  calls: requests that are being served, subscriptions aside.  questions:
    requests to clients that wait for their answer.  listeners: subscriptions, and sessions that hear of changes.
    streams: connections that read what the server sends: pipes, and event streams over HTTP.  jobs: work in the
    background.  outbox: messages in the standing streams of connections and sessions that wait to be read.
    dropped: in all, messages that had no room or no reader; those of one call count once it has ended.
    """

    sessions: int = 0
    calls: int = 0
    questions: int = 0
    listeners: int = 0
    streams: int = 0
    jobs: int = 0
    outbox: int = 0
    dropped: int = 0


class Tally:
    """Kept by one start of a server.

    calls, streams: there are now.  dropped: of streams that have ended.  connections: where sessions lie; those that
    hold them add and remove what they hold.
    """

    def __init__(self, nursery: Nursery):
        self.nursery = nursery
        self.calls = self.streams = self.dropped = 0
        self.connections: list[Iterable[Session]] = []

    @contextmanager
    def connected(self, session: Session) -> Iterator[None]:
        """For the time of the block, this is a connection that is read, and may have a session."""
        held = (session,)
        self.connections.append(held)
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
            self.connections.remove(held)
            self.ended(session)

    def ended(self, session: Session) -> None:
        """This one is not among the connections any more."""
        self.dropped += session.stream.dropped

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """For the time of the block, somebody reads an event stream."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    @property
    def sessions(self) -> list[Session]:
        """What is connected."""
        return [session for held in list(self.connections) for session in held]


def read(tallies: Sequence[Tally], listeners: int, dropped: int) -> Gauges:
    """listeners: of the server.  dropped: by starts of it that have ended."""
    sessions = [session for tally in tallies for session in tally.sessions]
    return Gauges(
        sessions=sum(session.state in (State.INITIALIZING, State.READY) for session in sessions),
        calls=sum(tally.calls for tally in tallies),
        questions=sum(session.peer.pending for session in sessions),
        listeners=listeners,
        streams=sum(tally.streams for tally in tallies),
        jobs=sum(tally.nursery.count(run_job) for tally in tallies),
        outbox=sum(len(session.stream) for session in sessions),
        dropped=dropped + sum(tally.dropped for tally in tallies) + sum(session.stream.dropped for session in sessions),
    )
