"""The response to one POST: a JSON object if the first message is the response, else an event stream.

How it works: what a call sends goes into its stream. The first message, or a long silence, starts a writer, which is
the reader of that stream; a response that comes before that is sent as JSON, and no writer ever runs, unless the client
would rather have a stream. In a session the stream is a log that a client which lost its connection goes on reading by
GET, so the call does not mind, and may even dismiss the reader; elsewhere the stream ends with its connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ...protocol.http import Accept
from ...protocol.jsonrpc import Answers, Message, Outcome
from ...waiter import Waiter
from ..gauges import Tally
from ..streams import LIMIT, EventStream
from .responses import RawHeaders, Send, send_events, send_json
from .session import HttpSession, Reading

logger = logging.getLogger("backchannel.http")


class Reply:
    """Answers one request, and is the stream of what it sends before.

    accept: what the client can read.  tally: of the server.  keep_alive: seconds.
    session: where the stream can be resumed.  single: nothing may come before the response.
    """

    def __init__(
        self,
        send: Send,
        accept: Accept,
        tally: Tally,
        keep_alive: float,
        session: HttpSession | None = None,
        single: bool = False,
    ):
        self.streams = accept.sse and not single
        self.headers: RawHeaders = []
        self._stream: EventStream | None = None
        self._send = send
        self._accept = accept
        self._tally = tally
        self._keep_alive = keep_alive
        self._session = session
        self._left = False
        self._writer: asyncio.Task[None] | None = None

    # What a call sends before its response: see Stream.

    @property
    def stream(self) -> EventStream:
        """The log of what is sent. It is made when something is, or somebody waits for it."""
        if self._stream is None:
            limit = LIMIT if self.streams else 0
            self._stream = (
                self._session.events.new(self.begin, limit, self.streams and self._session.polls)
                if self._session is not None
                else EventStream(self.begin, limit)
            )
            if self._left and not self._resumable:
                self._stream.close()
        return self._stream

    def append(self, message: Message) -> bool:
        """See Stream."""
        return self.stream.append(message)

    async def drain(self) -> None:
        """See Stream."""
        await self.stream.drain()

    def dismiss(self, retry: float) -> None:
        """See Stream."""
        self.stream.dismiss(retry)

    # The response.

    @property
    def _resumable(self) -> bool:
        return self._session is not None and self._writer is not None

    def begin(self) -> None:
        """Begin the event stream, where the client can read one and is still there."""
        if self._writer is None and self._accept.sse and not self._left:
            session, stream = self._session, self.stream
            reading = session.add(stream) if session is not None else Reading(stream)
            self._writer = asyncio.get_running_loop().create_task(self._write(reading))

    async def _write(self, reading: Reading) -> None:
        self._tally.streams += 1
        try:
            size = await send_events(self._send, reading, self._keep_alive, self.headers)
        finally:
            self._tally.streams -= 1
        if reading.session is not None:
            reading.session.sent(reading, size)

    def finish(self, response: Outcome | Answers, status: int = 200) -> Coroutine[Any, Any, None]:
        """Send the response, and end; to be awaited."""
        if (self._accept.sse_first or not self._accept.json) and status == 200:
            self.begin()
        if self._writer is None and self._stream is None and not self._left:
            return send_json(self._send, status, response, self.headers)
        return self._finish(response, status)

    async def _finish(self, response: Outcome | Answers, status: int) -> None:
        if self._writer is not None:
            self.stream.append(response)
        elif not self._left:
            await send_json(self._send, status, response, self.headers)
        await self._end(self.stream)

    async def abandon(self) -> None:
        """End without a response: the request was cancelled."""
        self.begin()  # an empty event stream, as there has to be one or a JSON object (2025-11-25 basic/transports)
        if self._writer is None and not self._left:
            await send_json(self._send, 202, None)
        await self._end(self.stream)

    async def _end(self, stream: EventStream) -> None:
        stream.close()
        if stream.dropped:
            logger.info("%d messages of a call were dropped, as the client could not read them", stream.dropped)
        if self._writer is not None:
            ended = Waiter()
            self._writer.add_done_callback(ended.resolve)  # whatever ends it
            await ended.wait()
            if not self._writer.cancelled() and (error := self._writer.exception()) is not None:
                logger.error("an event stream broke off", exc_info=error)

    def leave(self) -> None:
        """The client has left. Only the stream of a session goes on, if the client knows of it."""
        self._left = True
        if self._writer is not None:
            self._writer.cancel()
        if self._stream is not None and not self._resumable:
            self._stream.close()

    def close(self) -> None:
        """The request has ended, in whatever way."""
        if self._stream is None:
            self._left = True
            return
        self.leave()
        self._stream.close()
        self._tally.dropped += self._stream.dropped
