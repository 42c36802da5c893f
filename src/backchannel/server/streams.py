"""A stream is a log of messages; a connection is a reader of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio

from ..protocol.jsonrpc import Message

HIGH_WATER = 256
"""How many unread messages make `drain` wait."""


class EventStream:
    """An ordered log of messages with one reader. What has been read is forgotten.

    on_first: called when the first message is appended, to start a reader only where one is needed.
    limit: how many messages may lie unread. It bounds memory when a reader is gone or slow.
    """

    def __init__(self, on_first: Callable[[], None] | None = None, limit: int = 10_000):
        self._messages: deque[Message] = deque()
        self._on_first = on_first
        self._limit = limit
        self._changed: anyio.Event | None = None
        self.started = False
        self.closed = False
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, message: Message) -> bool:
        """Add a message. Never blocks. Returns False, and counts it in `dropped`, if the stream is closed or full."""
        if self.closed or len(self._messages) >= self._limit:
            self.dropped += 1
            return False
        self._messages.append(message)
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

    async def next(self) -> Message | None:
        """The next message, waiting for it; None at the end."""
        while not self._messages:
            if self.closed:
                return None
            await self._change()
        message = self._messages.popleft()
        if len(self._messages) < HIGH_WATER:
            self._wake()
        return message

    async def drain(self) -> None:
        """Wait until the reader has caught up, so that a fast writer does not fill the memory."""
        while len(self._messages) >= HIGH_WATER and not self.closed:
            await self._change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            changed, self._changed = self._changed, None
            changed.set()
