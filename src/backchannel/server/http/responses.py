"""Writing HTTP responses: a JSON object, or an event stream; and noticing that the client has left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ...errors import LocalProtocolError
from ...protocol.jsonrpc import Answers, ErrorObject, ErrorResponse, Message, Request, encode_anyway
from ...protocol.sse import COMMENT, encode_event
from ..alarm import Alarm
from ..outbox import encoded
from ..streams import EventStream
from .session import Reading

logger = logging.getLogger("backchannel.http")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]
_CHUNK = 16384  # bytes that are sent at once, where there are many small messages
_MOMENT = 0.02
"""Seconds before the watch for a client that leaves begins."""
_JSON = (b"content-type", b"application/json")
_SSE: RawHeaders = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # "servers SHOULD include the X-Accel-Buffering: no header" (basic/transports/streamable-http, Receiving Messages)
    (b"x-accel-buffering", b"no"),
]


async def send_json(
    send: Send, status: int, message: Message | Answers | None, headers: RawHeaders | None = None
) -> None:
    """A whole response: one message, or no body at all."""
    body = encode_anyway(message) if message is not None else b""
    fields = [(b"content-length", b"%d" % len(body))]
    if headers:
        fields += headers
    if message is not None:
        fields.append(_JSON)
    try:
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})
    except OSError:  # what a server may raise once the client has left
        logger.debug("the client left before it was answered")


async def send_events(send: Send, reading: Reading, keep_alive: float, headers: RawHeaders | None = None) -> int:
    """An event stream until its end, or until another connection reads it or this one is dismissed: one event a
    message, a comment after `keep_alive` seconds of silence. Returns how many bytes were sent."""
    stream, size = reading.stream, 0
    reader = reading.reader = stream.take(reading.after)
    silence = _Silence(stream, reader, keep_alive)
    try:
        await send({"type": "http.response.start", "status": 200, "headers": [*_SSE, *(headers or ())]})
        # "The server SHOULD immediately send an SSE event consisting of an event ID and an empty data field"
        # (2025-11-25 basic/transports, Sending Messages). One that reads on has the id of an event before.
        chunk = encode_event(b"", id=reading.event_id) if reading.polled and stream.prime() else b""
        while True:
            if len(stream):
                events = _events(reading, reader)
                chunk += events
                size += len(events)
            if stream.over or not stream.keeps(reader):
                break
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = b""
            if len(stream):
                await asyncio.sleep(0)  # sending need not wait, and others want their turn
            elif await silence.lasts():
                chunk = COMMENT
        # "If the server does close the connection prior to terminating the SSE stream, it SHOULD send an SSE event with
        # a standard retry field before closing the connection" (2025-11-25 basic/transports, Sending Messages)
        if not stream.over and reading.polled:
            chunk += _retry(stream.retry)
        await send({"type": "http.response.body", "body": chunk})
    except OSError:
        logger.debug("the client left before its event stream ended")
    finally:
        silence.stop()
        stream.leave(reader)
    return size


def _retry(seconds: float) -> bytes:
    """An event without an id: where to go on was said by those before it."""
    return encode_event(b"", retry=round(seconds * 1000))


class _Silence:
    """Waits for what a stream's reader can read, some seconds at most.

    How it works: one alarm lasts as long as the reader. When it rings it looks how long ago the wait began, and is set
    again for what is left.
    """

    def __init__(self, stream: EventStream, reader: object, seconds: float):
        self._stream = stream
        self._reader = reader
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._is_long = False
        self._alarm = Alarm(seconds, self._look)

    async def lasts(self) -> bool:
        """Wait for a message, or the end. Returns True if there was neither for so many seconds."""
        self._began, self._is_long = self._loop.time(), False
        while self._stream.idle(self._reader):
            if self._is_long:
                return True
            await self._stream.change()
        return False

    def _look(self) -> None:
        left = self._began + self._seconds - self._loop.time()
        if left <= 0:
            self._is_long, left = True, self._seconds
            self._stream.wake()
        self._alarm = Alarm(left, self._look)

    def stop(self) -> None:
        """The reader leaves."""
        self._alarm.stop()


def _events(reading: Reading, reader: object) -> bytes:
    """Some messages that are there, as events."""
    events = b""
    while len(events) < _CHUNK and (message := reading.stream.read(reader)) is not None:
        events += _event(message, reading)
    return events


def _event(message: Message, reading: Reading) -> bytes:
    """One message as an event. One that JSON cannot carry is left out, and whoever asked with it is told."""
    try:
        line = reading.stream.line(message)
        if not line or b"\n" in line or b"\r" in line:
            line = encoded(message)
        return encode_event(line, id=reading.event_id)
    except LocalProtocolError as error:
        logger.error("a message was not sent: %s", error)
        if isinstance(message, Request) and reading.session is not None:
            reading.session.receive(ErrorResponse(message.id, ErrorObject(error.code, str(error))))
        return b""


class Watch:
    """Runs `gone` if the client leaves before `disarm`, and calls `quiet` once that many seconds have passed."""

    __slots__ = ("_gone", "_handle", "_quiet", "_receive", "_seconds", "_task", "armed")

    def __init__(
        self,
        receive: Receive,
        gone: Callable[[], Awaitable[None]],
        quiet: Callable[[], None] | None = None,
        seconds: float = 0.0,
    ):
        self._receive = receive
        self._gone = gone
        self._quiet = quiet
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self._handle: asyncio.Handle | None = None
        self.armed = True

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin. It must not be over by now."""
        self._task = loop.create_task(self._wait())
        if self._quiet is not None:
            self._handle = loop.call_later(self._seconds, self._quiet)

    async def _wait(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except OSError:  # what a server may raise once the client has left
            logger.debug("the client left")
        await self._gone()

    def disarm(self) -> None:
        """Stop watching."""
        self.armed = False
        if self._handle is not None:
            self._handle.cancel()
        if self._task is not None:
            self._task.cancel()
            self._task = None  # which knows the watch


class Watches:
    """Begins watches a moment later, with one timer for all, so that calls which are answered at once pay for none."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Watch] = []

    def add(self, watch: Watch) -> Watch:
        """Have it begin soon."""
        if not self._waiting:
            self._loop.call_later(_MOMENT, self._begin)
        self._waiting.append(watch)
        return watch

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        for watch in waiting:
            if watch.armed:
                watch.begin(self._loop)
