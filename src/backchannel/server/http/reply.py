"""The response to one POST: a JSON object if the first message is the response, else an event stream.

How it works: what a call sends goes into its stream. The first message, or a long silence, starts a writer, which is
the reader of that stream; a response that comes before that is sent as JSON, and no writer ever runs, unless the client
would rather have a stream. In a session the stream is a log that a client which lost its connection goes on reading by
GET, so the call does not mind, and may even dismiss the reader; elsewhere the stream ends with its connection.
"""

from __future__ import annotations

import asyncio
import logging

import anyio

from ...protocol.http import Accept
from ...protocol.jsonrpc import Answers, Outcome
from ..gauges import Tally
from ..streams import LIMIT, EventStream
from .responses import RawHeaders, Send, send_events, send_json
from .session import HttpSession, Reading

logger = logging.getLogger("backchannel.http")


class Reply:
    """Answers one request.

    accept: what the client can read.  tally: of the server; its nursery runs the writer.  keep_alive: seconds.
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
        limit = LIMIT if self.streams else 0
        self.stream = (
            session.events.new(self.begin, limit, self.streams and session.polls)
            if session is not None
            else EventStream(self.begin, limit)
        )
        self._send = send
        self._accept = accept
        self._tally = tally
        self._keep_alive = keep_alive
        self._session = session
        self._left = False
        self._scope: anyio.CancelScope | None = None
        self._written: asyncio.Event | None = None

    def begin(self) -> None:
        """Begin the event stream, where the client can read one and is still there."""
        if self._written is None and self._accept.sse and not self._left and not self._tally.nursery.closed:
            self._written = asyncio.Event()
            self._tally.nursery.start(self._write, self._written)

    async def _write(self, written: asyncio.Event) -> None:
        session, stream = self._session, self.stream
        reading = session.add(stream) if session is not None else Reading(stream)
        try:
            with self._tally.streaming(), anyio.CancelScope() as self._scope:
                if self._left:
                    self._scope.cancel()
                size = await send_events(self._send, reading, self._keep_alive, self.headers)
                if session is not None:
                    session.sent(reading, size)
        finally:
            written.set()

    async def finish(self, response: Outcome | Answers, status: int = 200) -> None:
        """Send the response, and end."""
        if (self._accept.sse_first or not self._accept.json) and status == 200:
            self.begin()
        if self._written is not None:
            self.stream.append(response)
        elif not self._left:
            await send_json(self._send, status, response, self.headers)
        await self._end()

    async def abandon(self) -> None:
        """End without a response: the request was cancelled."""
        self.begin()  # an empty event stream, as there has to be one or a JSON object (2025-11-25 basic/transports)
        if self._written is None and not self._left:
            await send_json(self._send, 202, None)
        await self._end()

    async def _end(self) -> None:
        self.stream.close()
        if self.stream.dropped:
            logger.info("%d messages of a call were dropped, as the client could not read them", self.stream.dropped)
        if self._written is not None:
            await self._written.wait()

    def leave(self) -> None:
        """The client has left. Only the stream of a session goes on, if the client knows of it."""
        self._left = True
        if self._scope is not None:
            self._scope.cancel()
        if self._session is None or self._written is None:
            self.stream.close()

    def close(self) -> None:
        """The request has ended, in whatever way."""
        self.leave()
        self.stream.close()
        self._tally.dropped += self.stream.dropped
