"""Serving one duplex channel of messages, both eras at once: stdio and in-process (basic/transports/stdio).

How it works: whoever reads a request serves it too, in the same task, for most handlers are done without waiting for
anything. When one does wait, another task takes over the reading just then. What is sent goes through the session's
stream, the `Outbox`. `initialize` keeps the reading until it is served, so that what is pipelined behind it finds the
session ready. When the other end has closed, open questions fail at once, for nobody answers any more; handlers may
still end and be answered, for what was asked for may be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextvars import copy_context
from typing import Protocol

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from ..apart import apart
from ..errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, LocalProtocolError, UnsupportedVersion
from ..nursery import being_cancelled, current_task
from ..protocol.jsonrpc import Answers, Batch, ErrorObject, ErrorResponse, Malformed, Message, Outcome, Request
from ..protocol.methods import METHODS, Direction, Method, lookup
from ..protocol.peer import Reply
from ..protocol.types.requests import RequestMeta, RequestParams, read_meta
from ..protocol.versions import LATEST_LEGACY, MODERN, Version, unsupported
from .batches import batch_of, serve_all, take
from .dispatch import Dispatcher
from .exchange import ClientInfo, Exchange, Principal, Stream, serving
from .failures import answer_cancelled
from .outbox import Outbox
from .session import Session


class Channel(Protocol):
    """Any duplex stream of messages."""

    async def receive(self) -> list[Message | Malformed]:
        """What has come since: at least one message. Raises: anyio.EndOfStream at the end."""

    def write(self, messages: list[bytes]) -> bool:
        """Send messages, as JSON without line ends. Never waits. False: `flush` does the rest, and comes next."""

    async def flush(self) -> None:
        """Wait until all is sent. Raises: anyio.BrokenResourceError if nobody reads any more."""


_LAST_WORDS = 0.25  # seconds for what is left to be written, once the handlers have ended
INTRODUCTION = 64 * 1024
"""Bytes of the params of `initialize`, which are kept as long as the session."""
_PAUSE = 5000  # messages that the other end has not read, at which no more of its messages are read


async def serve(
    dispatcher: Dispatcher,
    channel: Channel,
    principal: Principal | None = None,
    reading: anyio.CancelScope | None = None,
) -> None:
    """Serve a channel until its other end closes. Handlers that run then get `Limits.grace` seconds to end; after that
    they are cancelled.

    reading: cancel it to end at once. What stands until one side ends it gets to send its result all the same.
    """
    reading, grace = reading or anyio.CancelScope(), dispatcher.server.limits.grace
    outbox = Outbox(channel, lambda error: session.receive(error))
    session = Session(outbox, principal=principal)
    with dispatcher.tally.connected(session):
        async with anyio.create_task_group() as group:
            group.start_soon(_write, outbox, group.cancel_scope)
            try:
                async with anyio.create_task_group() as handlers:
                    reader = _Reader(dispatcher, session, outbox, channel, handlers)
                    with reading:
                        await reader.over.wait()
                    reader.stop()
                    session.hang_up()
                    left = _LAST_WORDS if reading.cancel_called else grace
                    handlers.cancel_scope.deadline = anyio.current_time() + left
            finally:
                session.close()
            group.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS


async def _write(outbox: Outbox, scope: anyio.CancelScope) -> None:
    try:
        await outbox.run()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel("nobody reads what is sent")


class _Reader:
    """Reads a channel, and serves what comes, in the tasks of `group`.

    over: set when nothing more will be read.
    """

    def __init__(
        self, dispatcher: Dispatcher, session: Session, outbox: Outbox, channel: Channel, group: anyio.abc.TaskGroup
    ):
        self._dispatcher = dispatcher
        self._session = session
        self._outbox = outbox
        self._channel = channel
        self._group = group
        self._messages: deque[Message | Malformed] = deque()
        self._due: deque[Exchange] = deque()
        self._stopped = False
        self.over = anyio.Event()
        self._hand_over()

    def stop(self) -> None:
        """Read no more."""
        self._stopped = True
        self._scope.cancel("no more is read")

    def _hand_over(self) -> None:
        """Have another task go on with the reading."""
        self._scope = anyio.CancelScope()
        self._group.start_soon(self._read, self._scope)
        self._outbox.release()

    async def _read(self, scope: anyio.CancelScope) -> None:
        """Read and serve until the end, or until another task does. scope: this task's, as long as it is the one that
        reads."""
        cancelling = getattr(current_task(), "cancelling", _never)
        try:
            with scope:
                while self._scope is scope and not self._stopped and (self._due or await self._receive()):
                    self._outbox.held = True
                    exchange = self._due.popleft()
                    context = copy_context()
                    if (response := context.run(at_once, self._dispatcher, exchange)) is not None:
                        self._answer(exchange, response)
                        continue
                    waits = self._hand_over if exchange.method.cancellable else self._outbox.release
                    await apart(context, self._serve(exchange), waits)
                    if cancelling():
                        await anyio.lowlevel.checkpoint()  # where it arrives, if it has not yet
                        break
        except anyio.get_cancelled_exc_class():
            if being_cancelled():  # else by a handler, or what it left behind, whose task it is not
                raise
        finally:
            if self._scope is scope:
                if cancelling() and not being_cancelled():
                    self._hand_over()
                else:
                    self._outbox.release()
                    self.over.set()

    async def _receive(self) -> bool:
        """Wait until there is something to serve. Returns False at the end."""
        while not self._due:
            if not self._messages:
                if self._outbox.flush() >= _PAUSE:
                    await self._outbox.drain()
                try:
                    self._messages.extend(await self._channel.receive())
                except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return False
            if self._stopped:
                return False
            self._outbox.held = True
            # All that has come is taken before the first of it is served, which may be cancelled behind it.
            while self._messages and not (self._due and not self._due[-1].method.cancellable):
                self._take(self._messages.popleft())
        if len(self._outbox):
            self._outbox.flush()  # what is answered already waits for no handler
        return True

    def _take(self, message: Message | Malformed) -> None:
        """Receive a message. A request is due then."""
        session = self._session
        batch = batch_of(message, session) if isinstance(message, Batch) else None
        if batch is not None:
            answers, exchanges = take(batch, session, self._begin)
            if exchanges:
                self._group.start_soon(self._serve_batch, answers, exchanges)
            elif answers:
                self._outbox.append(Answers(answers))
            return
        event = session.receive(message)
        if event is None:
            return
        if isinstance(event, Reply):
            self._outbox.append(event.message)
            return
        request = event.request
        try:
            exchange = self._begin(request)
        except (LocalProtocolError, UnsupportedVersion) as error:
            session.peer.finish(request.id)
            self._outbox.append(ErrorResponse(request.id, ErrorObject(error.code, str(error), error.data)))
            return
        session.peer.serve(request.id, exchange)
        self._due.append(exchange)

    def _begin(self, request: Request) -> Exchange:
        session, server = self._session, self._dispatcher.server
        if session.peer.serving > server.limits.in_flight:
            raise LocalProtocolError(INTERNAL_ERROR, "too many requests in flight on this connection")
        return read(request, session, self._outbox, server.methods)

    async def _serve_batch(self, answers: list[Outcome], exchanges: list[Exchange]) -> None:
        answers += await serve_all(self._dispatcher, self._session, exchanges)
        if answers:
            self._outbox.append(Answers(answers))

    async def _serve(self, exchange: Exchange) -> None:
        try:
            response = await self._dispatcher(exchange)
        except anyio.get_cancelled_exc_class():
            response = answer_cancelled(exchange)
        self._answer(exchange, response)

    def _answer(self, exchange: Exchange, response: Outcome) -> None:
        if self._session.peer.finish(exchange.request.id, exchange):
            self._outbox.append(response)


def at_once(dispatcher: Dispatcher, exchange: Exchange) -> Outcome | None:
    """See Dispatcher.at_once. Run it, and what comes of the exchange if this gives None, in a context of its own."""
    serving.set(exchange)
    return dispatcher.at_once(exchange)


def _never() -> bool:
    """Whether a task of trio is cancelled by itself, without a scope."""
    return False


_NO_PARAMS = msgspec.Raw(b"{}")
_MODERN = {version.value: version for version in MODERN}


def read(request: Request, session: Session, stream: Stream, methods: Mapping[str, Method]) -> Exchange:
    """The exchange for a request: a modern envelope makes it modern, else it belongs to the session.

    stream: carries what flows before the response.  methods: the requests that there are.

    Raises: LocalProtocolError, UnsupportedVersion with the error to answer with.
    """
    raw = request.params if request.params is not None else _NO_PARAMS
    if request.method == "initialize" and len(bytes(raw)) > INTRODUCTION:
        raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: initialize takes at most {INTRODUCTION} bytes")
    params = _params(raw, methods.get(request.method))
    try:
        meta = read_meta(raw) if params is None else params.meta
    except (msgspec.DecodeError, RecursionError) as error:
        raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
    legacy = meta.version is None
    version = _legacy_version(request, session) if legacy else _modern_version(meta)
    method = lookup(request.method, version, Direction.CLIENT, methods)
    if method is None:
        raise LocalProtocolError(METHOD_NOT_FOUND, f"Method not found: {request.method[:200]}")
    if legacy and method is not METHODS["initialize"]:
        session.check(request)
    if params is None:
        try:
            params = method.read(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
    client = session.client if legacy else ClientInfo(meta.client_info, meta.client_capabilities or {})
    return Exchange(request, method, params, version, client, stream, session if legacy else None, session.principal)


def _params(raw: msgspec.Raw, method: Method | None) -> RequestParams | None:
    """The params of a request that is in order, as nearly all are; of another, what is wrong has to be found out."""
    if method is None:
        return None
    try:
        params = method.read(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return params if isinstance(params, RequestParams) else None


def _legacy_version(request: Request, session: Session) -> Version:
    if session.version is None and request.method in ("server/discover",):
        names = ", ".join(version.value for version in MODERN)
        text = f"Invalid params: _meta lacks io.modelcontextprotocol/protocolVersion (supported: {names})"
        raise LocalProtocolError(INVALID_PARAMS, text)
    return session.version or LATEST_LEGACY


def _modern_version(meta: RequestMeta) -> Version:
    version = _MODERN.get(meta.version or "")
    if version is None:
        raise unsupported(meta.version or "")
    if meta.client_capabilities is None:
        raise LocalProtocolError(
            INVALID_PARAMS, "Invalid params: _meta lacks io.modelcontextprotocol/clientCapabilities"
        )
    return version
