"""How much a server takes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .options import number

_COUNTS = {"threads", "message", "sessions", "listeners", "page", "in_flight"}
_POSITIVE = {"threads", "message", "page", "in_flight", "keep_alive"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds, each with a default that suits most servers.

    ask_timeout: seconds for the client to answer a reverse call, where the question has no `timeout=` of its own.
    threads: how many synchronous handlers run at once; those that wait for an answer do not count.
    message: the largest message, and the largest HTTP body, in bytes.
    sessions: how many legacy HTTP sessions may be open.
    session_idle: seconds after which a legacy HTTP session that does nothing ends.
    away: seconds for the client of a legacy HTTP call to come back once its connection has broken, after which the call
    is cancelled; None lets it run.
    listeners: how many `subscriptions/listen` requests and legacy sessions may hear of changes, and of how many
    resources each.
    page: how many entries one page of a list has; None puts all on one page.
    in_flight: how many requests of one connection are served at once.
    keep_alive: seconds of silence before a comment is sent on an event stream, or a silent call becomes one.
    grace: seconds that the calls which run get to end when an HTTP server is stopped, or stdin has ended; and then the
    work that they left in the background.
    """

    ask_timeout: float | None = 3600.0
    threads: int = 40
    message: int = 16 * 1024 * 1024
    sessions: int = 10_000
    session_idle: float = 1800.0
    away: float | None = 300.0
    listeners: int = 10_000
    page: int | None = None
    in_flight: int = 1000
    keep_alive: float = 15.0
    grace: float = 1.0

    def __post_init__(self) -> None:
        """Raises: ConfigurationError that names the bound."""
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if value is not None or "None" not in str(field.type):
                number(f"Limits({name}=)", value, positive=name in _POSITIVE, whole=name in _COUNTS)
