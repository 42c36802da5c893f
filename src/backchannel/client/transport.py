"""The seam between the client and the wire, and how every wire turns frames into messages and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from ..errors import INVALID_PARAMS, ConnectionFailed, LocalProtocolError
from ..protocol.jsonrpc import Malformed, Message, Outcome, Request, decode, encode, scan
from ..protocol.lines import Oversized
from ..protocol.oversized import stand_in
from ..protocol.versions import FEATURES, Version

Receive = Callable[[Message | Malformed], None]
"""Takes each message that comes from the server, in order. It does not block and does not raise."""
Lost = Callable[[Exception], None]
"""Called once when the connection has ended and no message can come any more, with the exception that says why; and
with SessionGone, any number of times, when the session alone is gone."""
AtOnce = Callable[[Request], Outcome | Malformed | Awaitable[None]]
"""Sends a request. Returns its response, if that is there without waiting; else what is to be awaited, as `send`."""


class SessionGone(ConnectionFailed):
    """The server does not know the session any more, so what was sent certainly did not run. A new session may begin
    over the same transport, with the next `initialize`; where requests have no streams of their own, none of those that
    were in flight is answered."""


class Transport(Protocol):
    """Carries messages to one server and back.

    `request_streams`: each request has a response stream of its own, whose closing cancels it (streamable HTTP). Then
    `send` of a request reads that stream: it returns when the response has been received, gives what comes before from
    its own task, and abandons the stream when it is cancelled.

    A transport that can answer without waiting has `at_once` besides, an `AtOnce`, which is given every request.
    """

    @property
    def request_streams(self) -> bool:
        """Whether each request has a response stream of its own."""

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Connect. Raises: ConnectionFailed that names host or command and the cause."""

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Send one message. Safe to call from several tasks at once.

        headers: to send with it, where the wire has headers. It is given only where there are some.

        Raises: ConnectionFailed if certainly nothing of it has reached the server, so that it may be sent again;
        SessionGone; ConnectionLost if it may have, or its response stream ended without the response.
        RemoteProtocolError for an HTTP status that is no JSON-RPC answer, AuthRequired for 401.
        """

    def negotiated(self, version: Version) -> None:
        """Tell the transport which version is spoken from now on."""

    async def listen(self) -> None:
        """Begin to receive what belongs to no request (the GET stream of a legacy HTTP session). Returns at once where
        there is nothing to do."""

    async def close(self) -> None:
        """Disconnect and free everything. May be called in another task than `open`, and more than once."""


def encoded(message: Message) -> bytes:
    """A message as UTF-8 JSON.

    Raises: LocalProtocolError where its params or result hold what JSON in UTF-8 cannot.
    """
    try:
        return encode(message)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        what = getattr(message, "method", "the response")
        raise LocalProtocolError(INVALID_PARAMS, f"{what} cannot be sent as JSON: {error}") from error


_batch = msgspec.json.Decoder(list[msgspec.Raw])


def read(data: bytes, version: Version | None) -> list[Message | Malformed]:
    """The messages in one frame: one, or those of a batch, where `version` has batches ("Implementations MUST support
    receiving JSON-RPC batches", 2025-03-26 basic/index)."""
    if version is not None and FEATURES[version].batches and data.lstrip()[:1] == b"[":
        try:
            return [decode(bytes(part)) for part in _batch.decode(data)]
        except (msgspec.DecodeError, RecursionError):
            pass
    return [decode(data)]


def is_junk(message: Message | Malformed, data: bytes) -> bool:
    """Whether `data`, read as `message`, is no attempt at a JSON-RPC message at all, such as the output of a print."""
    if not isinstance(message, Malformed) or message.id is not None or message.is_response:
        return False
    return data.lstrip()[:1] != b"{" or "method" not in scan(data)[1]


def too_large(part: Oversized) -> Malformed:
    """What stands for a message over the limit, so that the waiter for it fails."""
    text = f"a message of {part.size} bytes is over the limit of {part.limit} (max_message)"
    return stand_in(part, text)
