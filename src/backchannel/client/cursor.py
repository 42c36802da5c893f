"""How far an event stream was read, over its connections, and when the next one is made."""

from __future__ import annotations

import random
from dataclasses import dataclass

_PAUSE = 1.0  # seconds, where the server does not say
_SHORTEST, _LONGEST = 0.01, 30.0
_JITTER = 0.25  # at most so much of a pause is added to it, so that the clients of a server do not all return at once

jitter = random.random


@dataclass
class Cursor:
    """session_id: of the session that the stream belongs to, whose event ids mean nothing in another one.  id: of the
    last event.  retry: milliseconds, as the server said.  events, connections: how many there were."""

    session_id: str | None = None
    id: str | None = None
    retry: int | None = None
    events: int = 0
    connections: int = 0

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures, one after the other: what the server said ("The client MUST respect
        the retry field", 2025-11-25 basic/transports), and twice as long after each failure, up to a limit."""
        asked = _PAUSE if self.retry is None else max(self.retry / 1000, _SHORTEST)
        if self.retry is not None and not failures:
            return asked
        pause: float = max(asked, min(asked * 2.0 ** min(failures, 16), _LONGEST))
        return pause * (1 + _JITTER * jitter())
