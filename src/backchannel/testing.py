"""A kit for testing servers."""

from __future__ import annotations

import copy

from .server.server import Server


def replaying(server: Server) -> Server:
    """The same server, with every handler run from the top after each of its questions, also where the session could be
    asked directly.

    It shows whether a handler is deterministic: a client of it, `Client(replaying(server), version="legacy")`, gets
    what a client of the plain server gets, and each step runs once. One that asks something else at the same place
    fails with JournalMismatch.
    """
    other = copy.copy(server)
    other.always_replay = True
    return other
