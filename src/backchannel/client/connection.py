"""One connection to one server: requests out, responses in, and the server's questions answered, in either era.

How it works: the Peer knows ids and waiters. The transport gives every message that comes in to `_receive`, which never
blocks: responses wake their waiters, questions are answered in tasks of their own (`reverse`). A Call cuts off what its
caller is doing when time is up or the connection is lost, whether that is sending, waiting, or asking the host.

On a legacy HTTP session the response may come on another stream than the request's own, which its caller reads: then
that reading is cut off.

A server may lose the session, or end and be started again, while the connection goes on: the transport says so with
SessionGone, and where there is a `renewal`, it begins a new session.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from ..errors import (
    INTERNAL_ERROR,
    BackchannelError,
    ConnectionLost,
    RemoteProtocolError,
)
from ..nursery import Nursery
from ..one_line import one_line
from ..protocol.jsonrpc import (
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Outcome,
    Request,
    RequestId,
    Response,
    encode,
)
from ..protocol.peer import Cancelled, Dropped, Heard, Incoming, Peer, Progressed, Reply, Resolved
from ..protocol.types.base import Implementation
from ..protocol.types.requests import ProgressParams
from ..protocol.versions import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL, META_VERSION, Version
from ..waiter import Waiter
from .answers import Answers
from .call import Call
from .listener import Listener
from .refusal import error_of
from .renewal import Renewal
from .reverse import ReverseCalls
from .transport import AtOnce, SessionGone, Transport

logger = logging.getLogger("backchannel.client")
Progress = Callable[[ProgressParams], Any]

_GRACE = 1.0
"""Seconds that handlers get to end when the connection is closed, and that a cancellation gets to be sent."""
_sending: ContextVar[Call | None] = ContextVar("sending", default=None)
"""The call whose request is being sent here, and on HTTP, whose stream is being read."""


class _Waiting(Waiter):
    """A request that waits for its response."""

    __slots__ = ("call", "progress", "reading")

    def __init__(self, call: Call, progress: Listener | None):
        super().__init__()
        self.call = call
        self.progress = progress
        self.reading: anyio.CancelScope | None = None

    def answered(self, outcome: Any) -> None:
        """Its response has come. If that was on another stream than its own, nobody reads that one any more."""
        self.resolve(outcome)
        if self.reading is not None and _sending.get() is not self.call:
            self.reading.cancel("the response came on another stream")


class Connection:
    """Speaks one protocol version, once `version` is set; `modern`: it is one of the stateless protocol.

    log_level: of the log messages that are wanted.  strict: refuse what the server asks while no call is in flight.
    `heard` has functions that are called with every notification that is no progress, and `ended` has those that are
    called once with the reason when the connection is lost; they do not raise.  `renewal`: begins a new session where
    the server has lost the old one; None: then the connection is lost.
    """

    def __init__(
        self,
        transport: Transport,
        answers: Answers,
        info: Implementation,
        log_level: str | None = None,
        strict: bool = False,
    ):
        self.transport = transport
        self.answers = answers
        self.info = info
        self.version: Version | None = None
        self.modern = False
        self.heard: list[Callable[[Notification], None]] = []
        self.ended: list[Callable[[Exception], None]] = []
        self.nursery = Nursery()
        self.log_level = log_level
        self.renewal: Renewal | None = None
        self.dropped = 0
        self._peer = Peer()
        self._reverse = ReverseCalls(self._peer, answers, transport, self.nursery, strict, self._drop)
        # One of its own: a transport around another must see what passes.
        self._at_once: AtOnce | None = (
            getattr(transport, "at_once", None) if hasattr(type(transport), "at_once") else None
        )
        self._calls: set[Call] = set()
        self._lost: Exception | None = None
        self._new_scope: Callable[[], anyio.CancelScope] = anyio.CancelScope
        self._envelopes: dict[Version, tuple[Any, ...]] = {}

    @property
    def lost(self) -> Exception | None:
        """Why nothing can be sent or received any more, or None."""
        return self._lost

    async def open(self) -> None:
        """Connect. Raises: ConnectionFailed."""
        self._new_scope = type(anyio.CancelScope())  # this event loop's, which anyio looks for anew each time
        await self.transport.open(self._receive, self._end)

    async def close(self) -> None:
        """Disconnect: calls in flight fail, questions under way are cancelled. It goes on if the caller is cancelled,
        and does not wait long for a handler that does not end, or that is the caller itself."""
        self._end(ConnectionLost("the connection was closed"))
        with anyio.CancelScope(shield=True):
            try:
                await self.nursery.close(_GRACE)
            finally:
                await self.transport.close()

    def use(self, version: Version) -> None:
        """Speak this version from now on."""
        self.version = self.answers.version = version
        self.modern = version.is_modern
        self.transport.negotiated(version)

    def call(
        self,
        method: str,
        idle: float | None = None,
        total: float | None = None,
        *,
        by_hand: bool = False,
        lazy: bool = False,
    ) -> Call:
        """A call to the server, which is in flight until the end of its block. idle, total: seconds.  by_hand: its
        caller answers what it asks.  lazy: nothing in its block waits but for `request`, and under `held`.

        Raises: ConnectionLost, and at the end of the block RequestTimeout.
        """
        if self._lost is not None:
            raise ConnectionLost(str(self._lost)) from self._lost
        nested, among = self.answers.nested, self._calls
        return Call(
            method, idle, total, nested=nested, by_hand=by_hand, among=among, new_scope=self._new_scope, lazy=lazy
        )

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        call: Call,
        *,
        progress: Progress | None = None,
        version: Version | None = None,
        headers: Mapping[str, str] | None = None,
        started: Callable[[RequestId], None] | None = None,
    ) -> msgspec.Raw:
        """Send one request of a call that is in flight, and return its raw result. `params` is not changed.

        headers: to send with it, where the wire has headers.  started: called with its id before it is sent.

        Raises: RemoteProtocolError, ConnectionLost, and what ends the call.
        """
        id = self._peer.new_id()
        if started is not None:
            started(id)
        token = id if progress is not None else None
        request = Request(id, method, self._complete(params, token, version, call.by_hand))
        came = self._at_once(request) if self._at_once is not None else None
        if came is None or not isinstance(came, (Response, ErrorResponse, Malformed)):
            call.begin()
            waiting = _Waiting(call, self.listener(progress) if progress is not None else None)
            came = await self._wait(request, waiting, came or self._send(request, waiting, headers))
        if not isinstance(came, Response):
            raise _failure(came)
        result: msgspec.Raw = came.result
        return result

    def _send(self, request: Request, waiting: _Waiting, headers: Mapping[str, str] | None) -> Awaitable[None]:
        if not self.modern and self.transport.request_streams:
            return self._follow(request, waiting, headers)
        return self.transport.send(request, headers) if headers else self.transport.send(request)

    async def _wait(self, request: Request, waiting: _Waiting, sending: Awaitable[None]) -> Outcome | Malformed:
        """The response to a request. `sending` sends it."""
        id, listener = request.id, waiting.progress
        self._peer.open(waiting, request.method, id)
        try:
            await sending
            outcome: Outcome | Malformed = await waiting.wait()
            if listener is not None:
                await listener.drained()
            return outcome
        except anyio.get_cancelled_exc_class():
            await self._abandon(id)
            raise
        finally:
            self._peer.close(id)
            if listener is not None:
                listener.stop()

    async def _follow(self, request: Request, waiting: _Waiting, headers: Mapping[str, str] | None) -> None:
        """Send a request and read its stream, until the response has come, be it on another stream."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        token = _sending.set(waiting.call)
        try:
            with self._new_scope() as waiting.reading:
                await (self.transport.send(request, headers) if headers else self.transport.send(request))
        except Exception:  # whatever it is, it belongs to the caller
            if not waiting.done:
                raise
        finally:
            waiting.reading = None
            _sending.reset(token)

    def listener(self, callback: Callable[[Any], Any]) -> Listener:
        """For a callback of the host's. What it is too slow for is counted."""
        return Listener(callback, self.nursery, self._drop)

    def _drop(self) -> None:
        self.dropped += 1

    def forget(self, id: RequestId) -> None:
        """The server has ended request `id` itself: it need not be told that nobody waits for it."""
        self._peer.close(id)

    async def notify(self, method: str, params: Any = None, timeout: float | None = None) -> None:
        """Send a notification. Raises: ConnectionLost, RequestTimeout."""
        if self._lost is not None:
            raise ConnectionLost(str(self._lost)) from self._lost
        with Call(method, timeout):
            await self.transport.send(Notification(method, params))

    def _complete(
        self, params: dict[str, Any], token: RequestId | None, version: Version | None, by_hand: bool
    ) -> dict[str, Any] | None:
        """The params as they are sent: the caller's, and what every request carries in `_meta` at this version
        (basic/index, Per-request protocol fields). Progress tokens are ours alone, or they would not be unique."""
        version = version or self.version
        envelope = self._envelope(version, by_hand) if version is not None and version.is_modern else None
        if "_meta" not in params and token is None:  # as almost always
            return {**params, "_meta": envelope[1]} if envelope is not None else params or None
        meta = {name: value for name, value in (params.get("_meta") or {}).items() if name != "progressToken"}
        if envelope is not None:
            level = {META_LOG_LEVEL: meta[META_LOG_LEVEL]} if META_LOG_LEVEL in meta else {}
            meta = {**meta, **envelope[0], **level}
        if token is not None:
            meta["progressToken"] = token
        rest = {name: value for name, value in params.items() if name != "_meta"}
        return ({**rest, "_meta": meta} if meta else rest) or None

    def _envelope(self, version: Version, by_hand: bool) -> tuple[dict[str, Any], msgspec.Raw]:
        """What every modern request carries in `_meta`, and the same as JSON. It is made again when it has changed."""
        declared, level = self.answers.declare(version, by_hand=by_hand), self.log_level
        known = self._envelopes.get(version)
        if known is None or known[2] is not declared or known[3] is not level:
            members: dict[str, Any] = {
                META_VERSION: version.value,
                META_CLIENT_INFO: self.info,
                META_CLIENT_CAPABILITIES: declared,
            }
            if level is not None:
                members[META_LOG_LEVEL] = level
            known = self._envelopes[version] = members, msgspec.Raw(encode(members)), declared, level
        return known[0], known[1]

    async def _abandon(self, id: RequestId) -> None:
        """Nobody waits any more: tell the server, if it has not answered and can be told."""
        cancelled = self._peer.close(id, "nobody waits for it any more")
        if cancelled is None:
            return
        # "The `initialize` request MUST NOT be cancelled by clients" (2025-11-25 basic/utilities/cancellation); nor is
        # the probe before it, for a server that knows neither. On modern HTTP the closed stream says it all.
        if self.version is None or (self.modern and self.transport.request_streams):
            return
        with anyio.move_on_after(_GRACE, shield=True):
            try:
                await self.transport.send(cancelled)
            except BackchannelError as error:
                logger.debug("the cancellation of a request was not delivered: %s", type(error).__name__)

    def _end(self, error: Exception) -> None:
        """The connection is lost: so is every call, and no question needs an answer. If only the session is, a new one
        begins."""
        if self._lost is not None:
            return
        if isinstance(error, SessionGone):
            if self.renewal is not None:
                return self._begin_again(self.renewal, error)
            error = ConnectionLost(str(error))
            self.nursery.start(self.transport.close)
        self._lost = error
        self._peer.end_pending()
        self.withdraw_questions()
        for call in self._calls:
            call.lose(error)
        for ended in tuple(self.ended):
            ended(error)

    def _begin_again(self, renewal: Renewal, error: Exception) -> None:
        renewal.lose(renewal.session)
        renewal.start()
        if not self.transport.request_streams:  # else the streams of requests say by themselves what has become of them
            for waiter in self._peer.end_pending():
                waiter.fail(ConnectionLost(str(error)))

    def withdraw_questions(self) -> None:
        """The server that has asked waits for no answer any more; in a new session its ids mean other questions."""
        for scope in self._peer.end_serving():
            scope.cancel()

    @property
    def calls(self) -> int:
        """How many calls are in flight."""
        return len(self._calls)

    def _receive(self, message: Message | Malformed) -> None:
        if self._lost is not None:
            return
        event = self._peer.receive(message)
        if isinstance(event, Resolved):
            event.waiter.answered(event.outcome)
        elif isinstance(event, Incoming | Reply) and self.modern:
            self._ignore(event)
        elif isinstance(event, Incoming):
            asking = _sending.get() if self.transport.request_streams else None
            if asking not in self._calls:  # of another client, in whose handler this one was opened
                asking = None
            self._reverse.take(event.request, self.version, asking, self._calls)
        elif isinstance(event, Reply):
            self._reverse.reply(event.message)
        elif isinstance(event, Cancelled):
            event.handle.cancel()
        elif isinstance(event, Progressed):
            event.waiter.call.restart()
            if event.waiter.progress is not None:
                event.waiter.progress(event.params)
        elif isinstance(event, Heard):
            self.hear(event.notification)
        elif isinstance(event, Dropped):
            self._drop()
            logger.debug("dropped: %s", one_line(event.why))
            if isinstance(message, Notification) and message.method == "notifications/cancelled":
                self.hear(message)  # it may be about a subscription of ours (basic/patterns/cancellation)

    def hear(self, notification: Notification) -> None:
        """Tell all listeners of it."""
        for listener in tuple(self.heard):
            listener(notification)

    def _ignore(self, event: Incoming | Reply) -> None:
        """Nothing is sent back: "The client MUST NOT write JSON-RPC responses" (basic/transports/stdio; so does
        streamable-http)."""
        logger.warning("the server sent a request, which protocol version %s does not have", self.version)
        if isinstance(event, Incoming):
            self._peer.finish(event.request.id)


def _failure(outcome: ErrorResponse | Malformed) -> RemoteProtocolError:
    """What a response says that is no result."""
    if isinstance(outcome, ErrorResponse):
        return error_of(outcome)
    return RemoteProtocolError(INTERNAL_ERROR, f"the server's response cannot be read: {outcome.message}")
