"""A kit for testing servers."""

from __future__ import annotations

import copy

from .server.server import Server


def replaying(server: Server) -> Server:
    """The same server, with every handler run from the top after each of its questions, also where the session could be
    asked directly.

    It shows whether a handler is deterministic: `async with Client(replaying(server), version="legacy") as client:` gives
    what the plain server gives, and runs each step once, or a question at a place where another one was asked fails with
    JournalMismatch.
    """
    other = copy.copy(server)
    other.always_replay = True
    return other
