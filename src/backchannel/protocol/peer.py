"""Correlation: which response belongs to which request, in both directions of one connection.

How it works: a Peer keeps two flat tables. `_pending` has the requests of this side that wait for a response, each with
a waiter that the caller chose. `_serving` has the requests of the other side that are being served, each with a handle
that the caller chose. `receive` takes one message and says what happened as an event. A Peer does no I/O, knows no
clock, and does not know whether it is the client's or the server's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import INVALID_REQUEST
from .jsonrpc import ErrorObject, ErrorResponse, Malformed, Message, Notification, Outcome, Request, RequestId, Response
from .methods import METHODS
from .types.requests import CancelledParams, ProgressParams


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request to serve. Give it a handle with `serve`, and `finish` it."""

    request: Request


@dataclass(frozen=True, slots=True)
class Resolved:
    """The response that `waiter` waits for. A Malformed is a response that cannot be read."""

    waiter: Any
    outcome: Outcome | Malformed


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The other side no longer wants the request that `handle` serves."""

    handle: Any
    reason: str | None


@dataclass(frozen=True, slots=True)
class Progressed:
    """Progress of the request that `waiter` waits for."""

    waiter: Any
    params: ProgressParams


@dataclass(frozen=True, slots=True)
class Heard:
    """Any other notification."""

    notification: Notification


@dataclass(frozen=True, slots=True)
class Reply:
    """Nothing to serve: send `message` back."""

    message: Response | ErrorResponse


@dataclass(frozen=True, slots=True)
class Dropped:
    """Nothing to do: the message was late, repeated or meant for nobody."""

    why: str


Event = Incoming | Resolved | Cancelled | Progressed | Heard | Reply | Dropped


class Peer:
    """One end of a connection."""

    def __init__(self) -> None:
        self._next = 1
        self._pending: dict[RequestId, Any] = {}
        self._serving: dict[RequestId, tuple[str, Any]] = {}

    @property
    def pending(self) -> int:
        """How many requests of this side wait for a response."""
        return len(self._pending)

    @property
    def serving(self) -> int:
        """How many requests of the other side are being served."""
        return len(self._serving)

    def open(self, waiter: Any) -> int:
        """Register `waiter` and return the id for its request. It is registered before a byte is written, so that an
        instant reply finds it."""
        id = self._next
        self._next = id + 1
        self._pending[id] = waiter
        return id

    def close(self, id: RequestId, reason: str | None = None) -> Notification | None:
        """Stop waiting for request `id`. Returns the cancellation to send, or None if it was answered already."""
        if self._pending.pop(id, None) is None:
            return None
        return Notification("notifications/cancelled", CancelledParams(id, reason))

    def serve(self, id: RequestId, handle: Any) -> None:
        """Say what serves the request `id` that came in."""
        method, _ = self._serving[id]
        self._serving[id] = (method, handle)

    def finish(self, id: RequestId) -> bool:
        """The request `id` was served. Returns whether its response may be sent: not after a cancellation."""
        return self._serving.pop(id, None) is not None

    def end(self) -> tuple[list[Any], list[Any]]:
        """The connection is gone. Empties both tables; returns the waiters and the handles that were in them."""
        waiters = list(self._pending.values())
        handles = [handle for _, handle in self._serving.values() if handle is not None]
        self._pending.clear()
        self._serving.clear()
        return waiters, handles

    def receive(self, message: Message | Malformed) -> Event:
        """Take one message that came in and say what it means."""
        if isinstance(message, Request):
            return self._request(message)
        if isinstance(message, Notification):
            return self._notification(message)
        if isinstance(message, Malformed) and not message.is_response:
            return Reply(message.reply())
        waiter = self._pending.pop(message.id, None) if message.id is not None else None
        if waiter is None:
            return Dropped(f"a response to {message.id!r}, which nobody waits for")
        return Resolved(waiter, message)

    def _request(self, request: Request) -> Event:
        if request.method == "ping":
            return Reply(Response(request.id, {}))
        if request.id in self._serving:
            error = ErrorObject(INVALID_REQUEST, f"Invalid Request: id {request.id!r} is in use by a request in flight")
            return Reply(ErrorResponse(request.id, error))
        self._serving[request.id] = (request.method, None)
        return Incoming(request)

    def _notification(self, notification: Notification) -> Event:
        try:
            if notification.method == "notifications/cancelled":
                return self._cancelled(_read(notification, CancelledParams))
            if notification.method == "notifications/progress":
                return self._progress(_read(notification, ProgressParams))
        except (msgspec.DecodeError, RecursionError):
            return Dropped(f"{notification.method} with malformed params")
        return Heard(notification)

    def _cancelled(self, params: CancelledParams) -> Event:
        method, handle = self._serving.get(params.request_id, ("", None))
        if not method or not METHODS.get(method, METHODS["ping"]).cancellable:
            return Dropped(f"a cancellation of {params.request_id!r}, which is not running or cannot be cancelled")
        del self._serving[params.request_id]
        return Cancelled(handle, params.reason)

    def _progress(self, params: ProgressParams) -> Event:
        waiter = self._pending.get(params.progress_token)
        if waiter is None:
            return Dropped(f"progress of {params.progress_token!r}, which nobody waits for")
        return Progressed(waiter, params)


def _read(notification: Notification, type: Any) -> Any:
    """The params by type: raw from a wire, or already of that type in one process."""
    params = notification.params
    if isinstance(params, type):
        return params
    return msgspec.json.decode(params if params is not None else b"{}", type=type)
