"""Correlation: which response belongs to which request, in both directions of one connection.

How it works: a Peer keeps two flat tables. `_pending` has the requests of this side that wait for a response, each with
a waiter that the caller chose. `_serving` has the requests of the other side that are being served, each with a handle
that the caller chose. `receive` takes one message and says what happened as an event. A Peer does no I/O, knows no
clock, and does not know whether it is the client's or the server's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import INVALID_REQUEST
from .jsonrpc import ErrorObject, ErrorResponse, Malformed, Message, Notification, Outcome, Request, RequestId, Response
from .methods import METHODS
from .types.requests import CancelledParams, ProgressParams, read_meta


class Incoming(msgspec.Struct, frozen=True):
    """A request to serve. Give it a handle with `serve`, and `finish` it."""

    request: Request


class Resolved(msgspec.Struct, frozen=True):
    """The response that `waiter` waits for. A Malformed is a response that cannot be read."""

    waiter: Any
    outcome: Outcome | Malformed


class Cancelled(msgspec.Struct, frozen=True):
    """The other side no longer wants the request that `handle` serves; None if it had no handle yet."""

    handle: Any
    reason: str | None


class Progressed(msgspec.Struct, frozen=True):
    """Progress of the request that `waiter` waits for."""

    waiter: Any
    params: ProgressParams


class Heard(msgspec.Struct, frozen=True):
    """Any other notification."""

    notification: Notification


class Reply(msgspec.Struct, frozen=True):
    """Nothing to serve: send `message` back."""

    message: Response | ErrorResponse


class Dropped(msgspec.Struct, frozen=True):
    """Nothing to do: the message was late, repeated or meant for nobody."""

    why: str


Event = Incoming | Resolved | Cancelled | Progressed | Heard | Reply | Dropped


class Peer:
    """One end of a connection.

    prefix: makes the ids of its requests unlike those of other Peers whose other end is the same.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._next = 1
        self._pending: dict[RequestId, tuple[str, Any]] = {}
        self._serving: dict[RequestId, tuple[str, Any]] = {}

    @property
    def pending(self) -> int:
        """How many requests of this side wait for a response."""
        return len(self._pending)

    @property
    def serving(self) -> int:
        """How many requests of the other side are being served."""
        return len(self._serving)

    @property
    def handles(self) -> list[Any]:
        """What serves the requests of the other side."""
        return [handle for _, handle in self._serving.values() if handle is not None]

    def new_id(self) -> RequestId:
        """An id for a request of this side."""
        number = self._next
        self._next = number + 1
        return f"{self._prefix}.{number}" if self._prefix else number

    def open(self, waiter: Any, method: str = "", id: RequestId | None = None) -> RequestId:
        """Register `waiter` and return the id for its request. It is registered before a byte is written, so that an
        instant reply finds it.

        method: of the request; `initialize` is never cancelled (2025-11-25 basic/utilities/cancellation).  id: a
        `new_id`.
        """
        if id is None:
            id = self.new_id()
        self._pending[id] = (method, waiter)
        return id

    def close(self, id: RequestId, reason: str | None = None) -> Notification | None:
        """Stop waiting for request `id`. Returns the cancellation to send; None if it was answered already, or may not
        be cancelled."""
        entry = self._pending.pop(id, None)
        if entry is None or not _cancellable(entry[0]):
            return None
        return Notification("notifications/cancelled", CancelledParams(id, reason))

    def serve(self, id: RequestId, handle: Any) -> bool:
        """Say what serves the request `id` that came in. False if it was cancelled since."""
        entry = self._serving.get(id)
        if entry is None:
            return False
        self._serving[id] = (entry[0], handle)
        return True

    def finish(self, id: RequestId, handle: Any = None) -> bool:
        """The request `id` was served. Returns whether its response may be sent: not after a cancellation.

        handle: what served it. A client may use the id of a request that it cancelled again; then the handle tells the
        two apart, and the response of the first is not taken for that of the second.
        """
        entry = self._serving.get(id)
        if entry is None or (handle is not None and handle is not entry[1]):
            return False
        del self._serving[id]
        return True

    def end_pending(self) -> list[Any]:
        """The other side answers nothing any more. Returns the waiters of what was open."""
        waiters = [waiter for _, waiter in self._pending.values()]
        self._pending.clear()
        return waiters

    def end_serving(self) -> list[Any]:
        """The other side waits for no response any more. Returns the handles of what was being served."""
        handles = self.handles
        self._serving.clear()
        return handles

    def end(self) -> tuple[list[Any], list[Any]]:
        """The connection is gone. Empties both tables; returns the waiters and the handles that were in them."""
        return self.end_pending(), self.end_serving()

    def receive(self, message: Message | Malformed) -> Event:
        """Take one message that came in and say what it means."""
        if isinstance(message, Request):
            return self._request(message)
        if isinstance(message, Notification):
            return self._notification(message)
        if isinstance(message, Malformed) and not message.is_response:
            if message.is_notification:
                return Dropped(f"a malformed notification: {message.message}")
            return Reply(message.reply())
        entry = self._pending.pop(message.id, None) if message.id is not None else None
        if entry is None:
            return Dropped(f"a response to {message.id!r}, which nobody waits for")
        return Resolved(entry[1], message)

    def _request(self, request: Request) -> Event:
        if request.id in self._serving:
            error = ErrorObject(INVALID_REQUEST, f"Invalid Request: id {request.id!r} is in use by a request in flight")
            return Reply(ErrorResponse(request.id, error))
        if request.method == "ping" and not _is_modern(request):
            return Reply(Response(request.id, {}))
        self._serving[request.id] = (request.method, None)
        return Incoming(request)

    def _notification(self, notification: Notification) -> Event:
        try:
            if notification.method == "notifications/cancelled":
                return self._cancelled(_params(notification, CancelledParams))
            if notification.method == "notifications/progress":
                return self._progress(_params(notification, ProgressParams))
        except (msgspec.DecodeError, RecursionError):
            return Dropped(f"{notification.method} with malformed params")
        return Heard(notification)

    def _cancelled(self, params: CancelledParams) -> Event:
        entry = self._serving.get(params.request_id)
        if entry is None or not _cancellable(entry[0]):
            return Dropped(f"a cancellation of {params.request_id!r}, which is not running or cannot be cancelled")
        del self._serving[params.request_id]
        return Cancelled(entry[1], params.reason)

    def _progress(self, params: ProgressParams) -> Event:
        entry = self._pending.get(params.progress_token)
        if entry is None:
            return Dropped(f"progress of {params.progress_token!r}, which nobody waits for")
        return Progressed(entry[1], params)


def _params(notification: Notification, type: Any) -> Any:
    return msgspec.json.decode(notification.params or b"{}", type=type)


def _cancellable(method: str) -> bool:
    known = METHODS.get(method)
    return known is None or known.cancellable


def _is_modern(ping: Request) -> bool:
    """Whether a ping claims a version of the stateless protocol, which has none; then it is a method like any other."""
    try:
        return read_meta(ping.params).version is not None
    except (msgspec.DecodeError, RecursionError):
        return False
