"""A stream is a log of messages; a connection is a reader of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..protocol.jsonrpc import Answers, ErrorResponse, Message, Response, encode_anyway
from ..waiter import Waiter

HIGH_WATER = 256
HIGH_BYTES = 4 * 1024 * 1024
"""How many unread messages, or bytes of them, make `drain` wait."""
LIMIT = 10_000
ROOM = 64 * 1024 * 1024
"""How many messages, and bytes of them, may lie unread."""
KEPT = 1024 * 1024
"""Bytes of the messages that were read and are kept."""
RETRY = 1.0
"""Seconds after which a reader whose connection is closed comes back, where nobody says."""
_TURN = 32
_NOTHING: Any = ()
_ANSWERS = (Response, ErrorResponse, Answers)
_NO_LINE: tuple[object, bytes] = (None, b"")
_LONGEST = 86_400


class EventStream:
    """An ordered log of messages with one reader at a time.

    on_first: called when the first message is appended, to start a reader only where one is needed.
    limit: how many messages may lie unread, of `ROOM` bytes together. It bounds memory when a reader is gone or slow.
    Responses always find room: there are no more of them than requests.
    keep: how many messages that were read are kept, for a reader that comes back and missed them: of more than `KEPT`
    bytes together only the last.
    polled: whether a reader that is dismissed comes back.  retry: after how many seconds.
    """

    def __init__(
        self, on_first: Callable[[], None] | None = None, limit: int = LIMIT, keep: int = 0, polled: bool = False
    ):
        self._log: deque[Message] = _NOTHING  # an empty deque has 600 bytes, and most streams stay empty
        self._sizes: deque[int] = _NOTHING
        self._read = 0
        self._unread_bytes = self._read_bytes = 0
        self._forgotten = 0
        self._on_first = on_first
        self._limit = limit
        self._keep = keep
        self._reader: object = None
        self._deserted = False
        self._dismissed: int | None = None
        self._primed = False
        self._drained = 0
        self._changed: Waiter | None = None
        self._newest = _NO_LINE
        self.started = False
        self.closed = False
        self.dropped = 0
        self.polled = polled
        self.retry = RETRY

    def __len__(self) -> int:
        """How many messages lie unread."""
        return len(self._log) - self._read

    @property
    def position(self) -> int:
        """How many messages have been read: the number of the last one, from 1."""
        return self._forgotten + self._read

    @property
    def last(self) -> int:
        """How many messages there have been: the number of the newest one, from 1."""
        return self._forgotten + len(self._log)

    @property
    def attended(self) -> bool:
        """Whether somebody reads it."""
        return self._reader is not None and not self._deserted

    @property
    def over(self) -> bool:
        """Whether it is closed, and all of it has been read."""
        return self.closed and self._read == len(self._log)

    def append(self, message: Message | Answers) -> bool:
        """Add a message. Never blocks. Returns False, and counts it in `dropped`, if the stream is closed or full."""
        answers = isinstance(message, _ANSWERS)
        line = b"" if answers and not self._keep else _line(message)
        size = len(line)
        unread = len(self._log) - self._read
        full = unread >= self._limit or (unread > 0 and self._unread_bytes + size > ROOM)
        if self.closed or (full and not answers):
            self.dropped += 1
            return False
        if self._log is _NOTHING:
            self._log, self._sizes = deque(), deque()
        self._log.append(message)  # type: ignore[arg-type]  # nobody reads Answers but to write them
        self._sizes.append(size)
        self._unread_bytes += size
        if self._keep:
            self._newest = message, line
        self._start()
        return True

    def _start(self) -> None:
        if not self.started:
            self.started = True
            if self._on_first is not None:
                self._on_first()
                self._on_first = None  # which knows the stream
        self._wake()

    def close(self) -> None:
        """No more messages: the reader gets what is there, and then None."""
        self.closed = True
        self._on_first = None
        self._wake()

    def dismiss(self, retry: float = RETRY) -> None:
        """Have the reader stop once it has read what there is now, and come back `retry` seconds later for the rest;
        one that is still to start gets as far. Does nothing where no reader would come back, or none is there.

        Raises: ValueError if `retry` is negative or more than a day.
        """
        check_retry(retry)
        if self.polled and not self.closed and not self._deserted:
            self._dismissed, self.retry = self.last, retry
            self._start()

    def take(self, after: int | None = None) -> object:
        """Become the reader, in the place of the one before, whose `next` gives None from then on. Returns what `next`
        and `leave` take.

        after: go on after the message of this number, or with the oldest one that is kept; None: with what is unread.
        """
        if after is not None:
            self._read = min(max(after - self._forgotten, 0), len(self._log))
            sizes = list(self._sizes)
            self._read_bytes, self._unread_bytes = sum(sizes[: self._read]), sum(sizes[self._read :])
        if self._reader is not None:
            self._dismissed = None  # it was the one before who was to go
        self._reader, self._deserted = object(), False
        self._wake()
        return self._reader

    def leave(self, reader: object) -> None:
        """Stop reading, and nobody reads until the next `take`. Does nothing where another has taken over."""
        if self._reader is reader:
            self._reader, self._deserted = object(), True
            self._wake()

    def prime(self) -> bool:
        """Whether this is the beginning, of which nothing was sent yet. It is so once."""
        first, self._primed = not self._primed and not self.position, True
        return first

    async def abandoned(self, away: float) -> None:
        """Wait until nobody has read it for `away` seconds more than those after which its reader was to come back."""
        while True:
            with anyio.move_on_after(self.retry + away) as scope:
                while not self.attended:
                    await self.change()
            if scope.cancelled_caught:
                return
            while self.attended:
                await self.change()

    async def next(self, reader: object = None) -> Message | None:
        """The next message, waiting for it; None at the end, and for a reader that another has replaced or that was
        dismissed."""
        while self.idle(reader):
            await self.change()
        return self.read(reader)

    def read(self, reader: object = None) -> Message | None:
        """The same without waiting: None also where there is no message yet."""
        if self._read == len(self._log) or not self.keeps(reader):
            return None
        message = self._log[self._read]
        size = self._sizes[self._read]
        self._read += 1
        self._unread_bytes -= size
        self._read_bytes += size
        while self._read > self._keep or (self._read_bytes > KEPT and self._read > 1):
            self._log.popleft()
            self._read_bytes -= self._sizes.popleft()
            self._read -= 1
            self._forgotten += 1
        if self._changed is not None and not self._crowded:
            self._wake()
        return message

    def line(self, message: Message) -> bytes:
        """The JSON of the message that came last, which was written to know its size; b"" for others, and where it is
        not known. It is so once."""
        (newest, line), self._newest = self._newest, _NO_LINE
        return line if newest is message else b""

    def idle(self, reader: object = None) -> bool:
        """Whether `next` would wait."""
        return not self.closed and self._read == len(self._log) and self.keeps(reader)

    @property
    def _crowded(self) -> bool:
        return self._unread_bytes >= HIGH_BYTES or len(self._log) - self._read >= HIGH_WATER

    def keeps(self, reader: object) -> bool:
        """Whether this reader has been neither replaced nor dismissed."""
        if self._reader is not reader:
            return False
        return self._dismissed is None or self.position < self._dismissed

    async def drain(self) -> None:
        """Wait until the reader has caught up, so that a fast writer does not fill the memory. Where nobody reads there
        is nothing to wait for, but others get their turn all the same, and a cancellation gets through."""
        self._drained += 1
        await (checkpoint() if self._drained % _TURN == 0 else checkpoint_if_cancelled())
        while self._crowded and not self.closed and not self._deserted:
            await self.change()

    def change(self) -> Awaitable[None]:
        """Wait until something has happened to it; to be awaited."""
        if self._changed is None:
            self._changed = Waiter()
        return self._changed.wait()

    def wake(self) -> None:
        """End what waits for a change."""
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None:
            changed, self._changed = self._changed, None
            changed.resolve(None)


def check_retry(retry: float) -> None:
    """Raises: ValueError for what is no time after which a reader comes back."""
    if not 0 <= retry <= _LONGEST:
        raise ValueError(f"retry is a number of seconds from 0 to {_LONGEST} (a day), not {retry}")


def _line(message: Message | Answers) -> bytes:
    """A message as JSON; b"" for one that JSON cannot carry."""
    try:
        return encode_anyway(message)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return b""
