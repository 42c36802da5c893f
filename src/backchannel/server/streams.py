"""A stream is a log of messages; a connection is a reader of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..protocol.jsonrpc import Answers, ErrorResponse, Message, Response

HIGH_WATER = 256
"""How many unread messages make `drain` wait."""
LIMIT = 10_000
_TURN = 32


class EventStream:
    """An ordered log of messages with one reader at a time.

    on_first: called when the first message is appended, to start a reader only where one is needed.
    limit: how many messages may lie unread. It bounds memory when a reader is gone or slow. Responses always find room:
    there are no more of them than requests.
    keep: how many messages that were read are kept, for a reader that comes back and missed them.
    """

    def __init__(self, on_first: Callable[[], None] | None = None, limit: int = LIMIT, keep: int = 0):
        self._log: deque[Message] = deque()
        self._read = 0
        self._forgotten = 0
        self._on_first = on_first
        self._limit = limit
        self._keep = keep
        self._reader: object = None
        self._deserted = False
        self._drained = 0
        self._changed: anyio.Event | None = None
        self.started = False
        self.closed = False
        self.dropped = 0

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

    def append(self, message: Message | Answers) -> bool:
        """Add a message. Never blocks. Returns False, and counts it in `dropped`, if the stream is closed or full."""
        full = len(self) >= self._limit and not isinstance(message, Response | ErrorResponse | Answers)
        if self.closed or full:
            self.dropped += 1
            return False
        self._log.append(message)  # type: ignore[arg-type]  # nobody reads Answers but to write them
        if not self.started:
            self.started = True
            if self._on_first is not None:
                self._on_first()
        self._wake()
        return True

    def close(self) -> None:
        """No more messages: the reader gets what is there, and then None."""
        self.closed = True
        self._wake()

    def take(self, after: int | None = None) -> object:
        """Become the reader, in the place of the one before, whose `next` gives None from then on. Returns what `next`
        and `leave` take.

        after: go on after the message of this number, or with the oldest one that is kept; None: with what is unread.
        """
        if after is not None:
            self._read = min(max(after - self._forgotten, 0), len(self._log))
        self._reader, self._deserted = object(), False
        self._wake()
        return self._reader

    def leave(self, reader: object) -> None:
        """Stop reading, and nobody reads until the next `take`. Does nothing where another has taken over."""
        if self._reader is reader:
            self._reader, self._deserted = object(), True
            self._wake()

    async def next(self, reader: object = None) -> Message | None:
        """The next message, waiting for it; None at the end, and for a reader that another has replaced."""
        while self._reader is reader and not len(self):
            if self.closed:
                return None
            await self._change()
        if self._reader is not reader:
            return None
        message = self._log[self._read]
        self._read += 1
        while self._read > self._keep:
            self._log.popleft()
            self._read -= 1
            self._forgotten += 1
        if len(self) < HIGH_WATER:
            self._wake()
        return message

    async def drain(self) -> None:
        """Wait until the reader has caught up, so that a fast writer does not fill the memory. Where nobody reads there
        is nothing to wait for, but others get their turn all the same, and a cancellation gets through."""
        self._drained += 1
        await (checkpoint() if self._drained % _TURN == 0 else checkpoint_if_cancelled())
        while len(self) >= HIGH_WATER and not self.closed and not self._deserted:
            await self._change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            changed, self._changed = self._changed, None
            changed.set()
