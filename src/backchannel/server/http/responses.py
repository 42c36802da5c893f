"""Writing HTTP responses: a JSON object, or an event stream; and noticing that the client has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ...protocol.jsonrpc import Message, encode_anyway
from ...protocol.sse import COMMENT, encode_event
from ..streams import EventStream

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]
_JSON = (b"content-type", b"application/json")
_SSE: RawHeaders = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


async def send_json(send: Send, status: int, message: Message | None, headers: RawHeaders | None = None) -> None:
    """A whole response: one message, or no body at all."""
    body = encode_anyway(message) if message is not None else b""
    fields = [(b"content-length", str(len(body)).encode()), *(headers or ())]
    if message is not None:
        fields.append(_JSON)
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def send_events(send: Send, stream: EventStream, keep_alive: float, headers: RawHeaders | None = None) -> None:
    """An event stream until `stream` ends: one event a message, a comment after `keep_alive` seconds of silence."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_SSE, *(headers or ())]})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    while True:
        try:
            async with asyncio.timeout(keep_alive):
                message = await stream.next()
        except TimeoutError:
            await send({"type": "http.response.body", "body": COMMENT, "more_body": True})
            continue
        if message is None:
            break
        event = encode_event(encode_anyway(message))
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Watch:
    """Calls `gone` if the client leaves before `disarm`.

    It begins with the next turn of the event loop, so that a handler which never yields does not pay for it.
    """

    def __init__(self, receive: Receive, gone: Callable[[], None]):
        self._receive = receive
        self._gone = gone
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def disarm(self) -> None:
        """Stop watching."""
        self._handle.cancel()
        if self._task is not None:
            self._task.cancel()
