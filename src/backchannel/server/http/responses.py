"""Writing HTTP responses: a JSON object, or an event stream; and noticing that the client has left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import anyio.lowlevel

from ...errors import LocalProtocolError
from ...protocol.jsonrpc import Answers, ErrorObject, ErrorResponse, Message, Request, encode_anyway
from ...protocol.sse import COMMENT, encode_event
from ..channel import encoded
from .session import Reading

logger = logging.getLogger("backchannel.http")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]
_CHUNK = 16384  # bytes that are sent at once, where there are many small messages
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
    fields = [(b"content-length", str(len(body)).encode()), *(headers or ())]
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
    try:
        await send({"type": "http.response.start", "status": 200, "headers": [*_SSE, *(headers or ())]})
        # "The server SHOULD immediately send an SSE event consisting of an event ID and an empty data field"
        # (2025-11-25 basic/transports, Sending Messages). One that reads on has the id of an event before.
        chunk = encode_event(b"", id=reading.event_id) if reading.polled and stream.prime() else b""
        while True:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if len(stream):
                await anyio.lowlevel.checkpoint()  # sending need not wait, and others want their turn
            with anyio.move_on_after(keep_alive) as quiet:
                message = await stream.next(reader)
            if quiet.cancelled_caught:
                chunk = COMMENT
            elif message is None:
                break
            else:
                chunk = await _events(message, reading, reader)
                size += len(chunk)
        # "If the server does close the connection prior to terminating the SSE stream, it SHOULD send an SSE event with
        # a standard retry field before closing the connection" (2025-11-25 basic/transports, Sending Messages)
        early = reading.polled and not stream.over
        await send({"type": "http.response.body", "body": _retry(stream.retry) if early else b""})
    except OSError:
        logger.debug("the client left before its event stream ended")
    finally:
        stream.leave(reader)
    return size


def _retry(seconds: float) -> bytes:
    """An event without an id: where to go on was said by those before it."""
    return encode_event(b"", retry=round(seconds * 1000))


async def _events(message: Message | None, reading: Reading, reader: object) -> bytes:
    """A message, and some that lie behind it, as events."""
    events, size = [], 0
    while message is not None:
        events.append(_event(message, reading))
        size += len(events[-1])
        message = await reading.stream.next(reader) if len(reading.stream) and size < _CHUNK else None
    return b"".join(events)


def _event(message: Message, reading: Reading) -> bytes:
    """One message as an event. One that JSON cannot carry is left out, and whoever asked with it is told."""
    try:
        return encode_event(encoded(message), id=reading.event_id)
    except LocalProtocolError as error:
        logger.error("a message was not sent: %s", error)
        if isinstance(message, Request) and reading.session is not None:
            reading.session.receive(ErrorResponse(message.id, ErrorObject(error.code, str(error))))
        return b""


class Watch:
    """Runs `gone` if the client leaves before `disarm`, and calls `quiet` once that many seconds have passed.

    It begins with the next turn of the event loop, so that a handler which never yields does not pay for it.
    """

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
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle = self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._wait())
        if self._quiet is not None:
            self._handle = self._loop.call_later(self._seconds, self._quiet)

    async def _wait(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except OSError:  # what a server may raise once the client has left
            logger.debug("the client left")
        await self._gone()

    def disarm(self) -> None:
        """Stop watching."""
        self._handle.cancel()
        if self._task is not None:
            self._task.cancel()
