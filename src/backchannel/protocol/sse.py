r"""Server-Sent Events as MCP uses them: one event is exactly one JSON-RPC message.

The rules are WHATWG's (https://html.spec.whatwg.org/multipage/server-sent-events.html), with three differences.
Lines end at \n and \r\n, not at a lone \r. An event with an id or a retry but no data is given to the caller, with
empty data, because servers of 2025-11-25 prime resumption with one. And an id that no header can carry, or that is very
long, is ignored. What the stream leaves unfinished is discarded.
"""

import re
from dataclasses import dataclass

from .lines import EDGE, Bounded, LineDecoder, Oversized

# "Any line beginning with a colon is a comment" (2026-07-28/basic/transports/streamable-http#receiving-messages)
COMMENT = b":\n\n"
"""The keep-alive, to be written between events."""

_BOM = b"\xef\xbb\xbf"
_OVERHEAD = len(_BOM) + len(b"data: ") + 1  # beyond the data; with the one, a line that is dropped is an event dropped
_LONGEST_ID = 1000  # bytes
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_USUAL = re.compile(rb"(?:id: ([!-~]{1,%d})\r?\n)?(?:event: message\r?\n)?data: ([^\r\n]*+)\r?\n\r?\n" % _LONGEST_ID)
"""A chunk that is one whole event of one line, as most are."""
_RETRY_DIGITS = 18  # a longer number is ignored: int() refuses the very long, and no one waits millions of years


@dataclass(frozen=True, slots=True)
class Event:
    """One event: `data` is a message or empty; `id` and `retry` (milliseconds) are None if this event has none."""

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


def encode_event(data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None) -> bytes:
    r"""Frame one encoded message as one event.

    `data` is JSON text in UTF-8, or empty to prime resumption. A raw \n, \r\n or \r in JSON is white space; it becomes
    a break between `data:` lines. `id` is the cursor that comes back as `Last-Event-ID`, `event` the type, `retry` the
    wait before reconnecting, in milliseconds.

    Raises: ValueError where `id` or `event` holds \n, \r or NUL, or `retry` is negative.
    Specification: 2025-11-25/basic/transports#resumability-and-redelivery,
    2026-07-28/basic/transports/streamable-http#receiving-messages.
    """
    if retry is not None and retry < 0:
        raise ValueError(f"retry is a number of milliseconds, at least 0, not {retry}")
    head = f"id: {id}\n" if id is not None else ""
    if event is not None:
        head += f"event: {event}\n"
    if retry is not None:
        head += f"retry: {retry}\n"
    for name, value in (("id", id), ("event", event)):
        if value is not None and not value.isprintable() and any(char in value for char in "\n\r\0"):
            raise ValueError(f"the {name} of an event may not hold a newline or NUL: {value!r}")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    return b"%bdata: %b\n\n" % (head.encode(), data)


class SSEDecoder:
    """Decodes the event stream of one connection, however it is cut into chunks.

    `limit` is the most bytes of data that an event may have; of a longer one only the edges of its data are kept as it
    streams in, and it is given as `Oversized`. Time is linear; memory is at most a small multiple of `limit`.

    Raises: ValueError where `limit` is less than 1.
    Specification: 2025-11-25/basic/transports#resumability-and-redelivery,
    2026-07-28/basic/transports/streamable-http#receiving-messages.
    """

    def __init__(self, limit: int) -> None:
        self.last_event_id: str | None = None
        """Where to resume: the id of the newest complete event that has one; None if there is none or it is empty."""
        self.retry: int | None = None
        """The wait before reconnecting that the server asked for last, in milliseconds."""
        self._lines = LineDecoder(max(limit, EDGE) + _OVERHEAD, blanks=True)
        self._at_start = True
        self._amid = False  # whether an event was begun
        self._data = Bounded(limit)
        self._has_data = False
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[Event | Oversized]:
        """Take the next bytes; return the events they complete, in order, those over `limit` as `Oversized`."""
        if not self._amid and (usual := _USUAL.fullmatch(data)) is not None and len(usual[2]) <= self._data.limit:
            self._at_start = False
            id = usual[1].decode() if usual[1] is not None else None
            self.last_event_id = id or self.last_event_id
            return [Event(usual[2], "message", id)]
        events: list[Event | Oversized] = []
        self._amid = not data.endswith((b"\n\n", b"\n\r\n"))
        for line in self._lines.feed(data):
            if self._at_start:
                self._at_start = False
                line = line.removeprefix(_BOM) if isinstance(line, bytes) else _without(line, _BOM)
            if isinstance(line, Oversized):
                self._long_field(line)
            elif line:
                self._field(line)
            else:
                self._dispatch(events)
        return events

    def _field(self, line: bytes) -> None:
        colon = line.find(b":")
        name, start = (line, len(line)) if colon < 0 else (line[:colon], colon + 1)
        value = line[start + line.startswith(b" ", start) :]
        if name == b"data":
            self._next_data_line()
            self._data.add(value)
        elif name == b"id" and len(value) <= _LONGEST_ID and _CONTROL.search(value) is None:
            # "If the field value does not contain U+0000 NULL", says WHATWG; nor anything else that the header
            # Last-Event-ID could not carry.
            self._id = value.decode("utf-8", "replace")
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            # "The client MUST respect the retry field" (2025-11-25/basic/transports): even if this event is cut off.
            self.retry = self._retry = int(value)

    def _long_field(self, line: Oversized) -> None:
        """Note a line that was dropped, if it is data; a comment or an id that no header could carry is passed over."""
        if line.head.startswith(b"data:"):
            self._next_data_line()
            self._data.add_dropped(_without(line, b"data: " if line.head.startswith(b"data: ") else b"data:"))

    def _next_data_line(self) -> None:
        if self._has_data:
            self._data.add(b"\n")
        self._has_data = True

    def _dispatch(self, events: list[Event | Oversized]) -> None:
        if self._id is not None:
            # A dropped event counts as received, else each resumption would bring it again.
            self.last_event_id = self._id or None
        if self._has_data or self._id is not None or self._retry is not None:
            data = self._data.take()
            if isinstance(data, bytes):
                events.append(Event(data, self._event or "message", self._id, self._retry))
            else:
                events.append(data)
        self._has_data, self._event, self._id, self._retry = False, "", None, None


def _without(line: Oversized, prefix: bytes) -> Oversized:
    """Take `prefix` off a dropped line, if it begins with it."""
    cut = len(prefix) if line.head.startswith(prefix) else 0
    return Oversized(line.size - cut, line.limit, line.head[cut:], line.tail[cut - line.size :])
