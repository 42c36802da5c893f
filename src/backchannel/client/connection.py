"""One connection to one server: requests out, responses in, and the server's questions answered, in either era.

How it works: the Peer knows ids and waiters. The transport gives every message that comes in to `_receive`, which never
blocks: responses wake their waiters, questions are answered in tasks of their own.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from ..errors import (
    INTERNAL_ERROR,
    BackchannelError,
    ConnectionLost,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
)
from ..nursery import Nursery
from ..protocol.jsonrpc import (
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)
from ..protocol.peer import Cancelled, Heard, Incoming, Peer, Progressed, Reply, Resolved
from ..protocol.types.base import Implementation
from ..protocol.types.requests import ProgressParams
from ..protocol.versions import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL, META_VERSION, Version
from ..waiter import Waiter
from .answers import Answers
from .transport import Transport

logger = logging.getLogger("backchannel.client")
Progress = Callable[[ProgressParams], Any]


class Clock:
    """The two time limits of one call, in seconds: `idle` stops while a person is asked and starts again on progress,
    `total` never stops."""

    def __init__(self, idle: float | None, total: float | None):
        self._idle = idle if idle is not None else math.inf
        self._held = 0
        self._total = anyio.current_time() + total if total is not None else math.inf
        self.scope = anyio.CancelScope()
        self.restart()

    def restart(self) -> None:
        """Something happened: the idle clock starts again."""
        idle = math.inf if self._held else anyio.current_time() + self._idle
        self.scope.deadline = min(self._total, idle)

    def hold(self) -> None:
        """A person is asked."""
        self._held += 1
        self.restart()

    def resume(self) -> None:
        """The person answered."""
        self._held -= 1
        self.restart()

    @property
    def which(self) -> str:
        """Which of the two ran out."""
        return "total" if anyio.current_time() >= self._total else "idle"


class _Call(Waiter):
    """A request that waits for its response."""

    __slots__ = ("clock", "progress")

    def __init__(self, clock: Clock, progress: Progress | None):
        super().__init__()
        self.clock = clock
        self.progress = progress


class Connection:
    """Speaks one protocol version, once `version` is set."""

    def __init__(self, transport: Transport, answers: Answers, info: Implementation, log_level: str | None = None):
        self.transport = transport
        self.answers = answers
        self.info = info
        self.version: Version | None = None
        self.heard: list[Callable[[Notification], None]] = []
        self._log_level = log_level
        self._peer = Peer()
        self._nursery = Nursery()
        self._calls: set[_Call] = set()
        self._lost: Exception | None = None

    async def open(self) -> None:
        """Connect. Raises: ConnectionFailed."""
        await self.transport.open(self._receive, self._end)

    def use(self, version: Version) -> None:
        """Speak this version from now on."""
        self.version = version
        self.transport.negotiated(version)

    def envelope(self, version: Version) -> dict[str, Any]:
        """What every request carries in `_meta` at this version (basic/index, Per-request protocol fields)."""
        if not version.is_modern:
            return {}
        meta: dict[str, Any] = {
            META_VERSION: version.value,
            META_CLIENT_INFO: self.info,
            META_CLIENT_CAPABILITIES: self.answers.capabilities(),
        }
        if self._log_level is not None:
            meta[META_LOG_LEVEL] = self._log_level
        return meta

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        clock: Clock,
        *,
        progress: Progress | None = None,
        version: Version | None = None,
    ) -> msgspec.Raw:
        """Send a request and return its raw result. `params` is not changed.

        Raises: RemoteProtocolError, RequestTimeout, ConnectionLost.
        """
        if self._lost is not None:
            raise ConnectionLost(str(self._lost)) from self._lost
        call = _Call(clock, progress)
        id = self._peer.open(call)
        self._calls.add(call)
        request = Request(id, method, self._complete(params, id, progress, version or self.version) or None)
        clock.restart()
        try:
            with clock.scope:
                await self.transport.send(request)
                outcome = await call.wait()
                return _unpack(outcome)
        finally:
            self._calls.discard(call)
            await self._abandon(id)
        raise RequestTimeout(f"no response to {method} in time ({clock.which} time limit)", clock.which)

    def _complete(
        self, params: dict[str, Any], id: RequestId, progress: Progress | None, version: Version | None
    ) -> dict[str, Any]:
        meta = {**(params.get("_meta") or {}), **(self.envelope(version) if version is not None else {})}
        if progress is not None:
            meta["progressToken"] = id
        return {**params, "_meta": meta} if meta else dict(params)

    async def _abandon(self, id: RequestId) -> None:
        """If the request has not been answered, tell the server that nobody waits any more."""
        cancelled = self._peer.close(id)
        modern = self.version is not None and self.version.is_modern
        if cancelled is None or self._lost is not None or (modern and self.transport.request_streams):
            return
        with anyio.move_on_after(1, shield=True):
            try:
                await self.transport.send(cancelled)
            except BackchannelError as error:
                logger.debug("the cancellation of a request was not delivered: %s", type(error).__name__)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        await self.transport.send(Notification(method, params))

    async def close(self) -> None:
        """Disconnect: calls in flight fail, questions under way are cancelled."""
        self._end(ConnectionLost("the connection was closed"))
        await self._nursery.close()
        await self.transport.close()

    def _end(self, error: Exception) -> None:
        if self._lost is not None:
            return
        self._lost = error
        waiters, scopes = self._peer.end()
        for waiter in waiters:
            waiter.fail(error)
        for scope in scopes:
            scope.cancel()

    def _receive(self, message: Message | Malformed) -> None:
        event = self._peer.receive(message)
        if isinstance(event, Resolved):
            event.waiter.resolve(event.outcome)
        elif isinstance(event, Incoming):
            self._start(event.request)
        elif isinstance(event, Reply):
            self._post(event.message)
        elif isinstance(event, Cancelled):
            if event.handle is not None:
                event.handle.cancel()
        elif isinstance(event, Progressed):
            self._progress(event.waiter, event.params)
        elif isinstance(event, Heard):
            for listener in self.heard:
                _guarded(listener, event.notification)

    def _progress(self, call: _Call, params: ProgressParams) -> None:
        call.clock.restart()
        if call.progress is not None:
            _guarded(call.progress, params)

    def _post(self, message: Message) -> None:
        if not self._nursery.closed:
            self._nursery.start(self._deliver, message)

    async def _deliver(self, message: Message) -> None:
        try:
            await self.transport.send(message)
        except BackchannelError as error:
            logger.warning("an answer to the server was not delivered: %s", error)

    def _start(self, request: Request) -> None:
        scope = anyio.CancelScope()
        self._peer.serve(request.id, scope)
        if not self._nursery.closed:
            self._nursery.start(self._serve, request, scope)

    async def _serve(self, request: Request, scope: anyio.CancelScope) -> None:
        """Answer a reverse call. The idle clocks stand still: which call it belongs to, the wire does not say."""
        held = list(self._calls)
        for call in held:
            call.clock.hold()
        reply: Message | None = None
        try:
            with scope:
                reply = await self._reply(request)
        finally:
            for call in held:
                call.clock.resume()
        if reply is not None and self._peer.finish(request.id):
            await self._deliver(reply)

    async def _reply(self, request: Request) -> Message:
        try:
            if self.version is None or self.version.is_modern:
                raise RemoteProtocolError(-32601, "servers send no requests at this protocol version")
            return Response(request.id, await self.answers(request.method, request.params))
        except ProtocolError as error:
            return ErrorResponse(request.id, ErrorObject(error.code, error.message, error.data))


def _unpack(outcome: Any) -> msgspec.Raw:
    """The raw result of a response. Raises: RemoteProtocolError."""
    if isinstance(outcome, Response):
        result: msgspec.Raw = outcome.result
        return result
    if isinstance(outcome, ErrorResponse):
        raise RemoteProtocolError(outcome.error.code, outcome.error.message, outcome.error.data)
    raise RemoteProtocolError(INTERNAL_ERROR, f"the server's response cannot be read: {outcome.message}")


def _guarded(callback: Callable[[Any], Any], value: Any) -> None:
    try:
        callback(value)
    except Exception:
        logger.exception("a callback failed: %r", callback)
