"""The numbers of a client: what goes on in it now."""

from __future__ import annotations

from dataclasses import dataclass

from .answers import Answers
from .connection import Connection
from .subscriptions import Subscriptions


@dataclass(frozen=True, slots=True)
class Gauges:
    """What goes on in a client.

    calls: requests that wait for their result, over all their rounds.  questions: those that are answered, or wait for
    their turn.  streams: responses over HTTP that are waited for or read.  subscriptions: `listen` blocks that are
    open.  Over all of the present connection: reconnects: streams that were taken up again and sessions that were
    begun anew.  dropped: messages from the server that nobody waited for, that were none, or that came faster than they
    could be taken.
    """

    calls: int = 0
    questions: int = 0
    streams: int = 0
    subscriptions: int = 0
    reconnects: int = 0
    dropped: int = 0


def read(connection: Connection, answers: Answers, subscriptions: Subscriptions | None) -> Gauges:
    """Each is read where it is kept."""
    transport = getattr(connection.transport, "current", connection.transport)
    renewals = connection.renewal.done if connection.renewal is not None else 0
    return Gauges(
        calls=connection.calls,
        questions=answers.open,
        streams=getattr(transport, "streams", 0),
        subscriptions=len(subscriptions.open) if subscriptions is not None else 0,
        reconnects=getattr(transport, "reconnects", 0) + renewals,
        dropped=connection.dropped + getattr(transport, "dropped", 0),
    )
