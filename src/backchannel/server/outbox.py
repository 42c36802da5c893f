"""What is sent on a channel."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import msgspec

from ..errors import INTERNAL_ERROR, LocalProtocolError
from ..protocol.jsonrpc import Answers, ErrorObject, ErrorResponse, Message, Request, Response, encode_anyway
from .streams import EventStream

if TYPE_CHECKING:
    from .channel import Channel

logger = logging.getLogger("backchannel.server")
_PIECE = 65536  # bytes after which no more messages are added to what is written at once


class Outbox(EventStream):
    """The stream of a channel, and what writes it there.

    How it works: a task of its own writes. But whoever reads the channel holds it back while it serves what has come,
    and flushes before it waits for more: so the answers go out in one piece, and no task is woken for them.

    refused: takes the error that a request is answered with which has no JSON form.
    held: whoever set it calls `flush` or `release` before it waits for anything.
    """

    def __init__(self, channel: Channel, refused: Callable[[ErrorResponse], object]):
        super().__init__()
        self._log, self._sizes = deque(), deque()
        self._channel = channel
        self._refused = refused
        self._stuck = False
        self._idle: anyio.Event | None = None
        self.held = False

    def append(self, message: Message | Answers) -> bool:
        if self.held and isinstance(message, Response) and not self.closed:  # it has room, and wakes nobody
            self._log.append(message)
            self._sizes.append(0)
            return True
        return super().append(message)

    def flush(self) -> int:
        """Write what can be written at once, and let the task do the rest. Returns how many messages are left."""
        self.held = False
        if self._log and not self._stuck:
            self._write()
        if self._stuck or self._log:
            self._wake()
        return len(self._log)

    def release(self) -> None:
        """Hold the task back no more."""
        self.held = False
        if self._stuck or self._log:
            self._wake()

    async def run(self) -> None:
        """Write until the stream is closed. Raises: anyio.BrokenResourceError if nobody reads any more."""
        while True:
            if self._stuck:
                await self._channel.flush()
                self._stuck = False
            elif self._log:
                self._write()
            elif self.closed:
                return
            else:
                self._idle = anyio.Event()
                await self._idle.wait()

    def _write(self) -> None:
        """Write a piece."""
        lines, size = list[bytes](), 0
        while self._log and size < _PIECE:
            message = self._log.popleft()
            self._unread_bytes -= self._sizes.popleft()
            self._forgotten += 1
            try:
                line = encoded(message)
            except LocalProtocolError as error:
                logger.error("a message was not sent: %s", error)
                if isinstance(message, Request):  # whoever asked waits for an answer
                    self._refused(ErrorResponse(message.id, ErrorObject(error.code, str(error))))
                continue
            lines.append(line)
            size += len(line)
        if self._changed is not None and not self._crowded:  # somebody waits in `drain`
            super()._wake()
        self._stuck = bool(lines) and not self._channel.write(lines)

    def _wake(self) -> None:
        super()._wake()
        if self._idle is not None and not self.held:
            idle, self._idle = self._idle, None
            idle.set()


def encoded(message: Message | Answers) -> bytes:
    """A message as UTF-8 JSON without line ends.

    Raises: LocalProtocolError for a request or notification that JSON cannot carry. A response becomes an error.
    """
    try:
        data = encode_anyway(message)
        if b"\n" in data or b"\r" in data:  # raw JSON inside it is pretty-printed
            data = msgspec.json.format(data, indent=-1)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        what = getattr(message, "method", "a response")
        raise LocalProtocolError(INTERNAL_ERROR, f"{what} cannot be written as JSON: {error}") from error
    return data
