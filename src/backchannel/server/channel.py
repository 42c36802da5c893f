"""Serving one duplex channel of messages, both eras at once: stdio and in-process (basic/transports/stdio).

How it works: one task reads, one writes, and each request has one of its own. Everything that is sent goes through the
session's stream, whose reader is the writing task. `initialize` is served by the reading task itself, so that what is
pipelined behind it finds the session ready. When the other end has closed, open questions fail at once, for nobody
answers any more; handlers may still end and be answered, for what was asked for may be read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

import anyio
import anyio.abc
import msgspec

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, LocalProtocolError, UnsupportedVersion
from ..protocol.jsonrpc import Answers, ErrorObject, ErrorResponse, Malformed, Message, Outcome, Request, encode_anyway
from ..protocol.methods import METHODS, Direction, Method, lookup
from ..protocol.peer import Reply
from ..protocol.types.requests import RequestMeta, RequestParams
from ..protocol.versions import LATEST_LEGACY, MODERN, Version, is_modern, unsupported
from .batches import batch_of, serve_all, take
from .dispatch import Dispatcher
from .exchange import ClientInfo, Exchange, Principal, Stream, serving
from .failures import answer_cancelled
from .session import Session
from .streams import EventStream

logger = logging.getLogger("backchannel.server")


class Channel(Protocol):
    """Any duplex stream of messages."""

    async def receive(self) -> Message | Malformed:
        """The next message. Raises: anyio.EndOfStream at the end."""

    async def send(self, message: Message) -> None:
        """Send one message. Raises: LocalProtocolError if it has no JSON form, anyio.BrokenResourceError if nobody
        reads any more."""


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
    session = Session(EventStream(), principal=principal)
    with dispatcher.tally.connected(session):
        async with anyio.create_task_group() as group:
            group.start_soon(_write, session, channel, group.cancel_scope)
            try:
                async with anyio.create_task_group() as handlers:
                    with reading:
                        await _read(dispatcher, session, channel, handlers)
                    session.hang_up()
                    left = _LAST_WORDS if reading.cancel_called else grace
                    handlers.cancel_scope.deadline = anyio.current_time() + left
            finally:
                session.close()
            group.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS


async def _read(dispatcher: Dispatcher, session: Session, channel: Channel, handlers: anyio.abc.TaskGroup) -> None:
    while True:
        if len(session.stream) >= _PAUSE:
            await session.stream.drain()
        try:
            message = await channel.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        await _take(dispatcher, session, message, handlers)


async def _write(session: Session, channel: Channel, scope: anyio.CancelScope) -> None:
    while (message := await session.stream.next()) is not None:
        try:
            await channel.send(message)
        except LocalProtocolError as error:
            logger.error("a message was not sent: %s", error)
            if isinstance(message, Request):  # whoever asked waits for an answer
                session.receive(ErrorResponse(message.id, ErrorObject(error.code, str(error))))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            scope.cancel("nobody reads what is sent")
            return


def encoded(message: Message | Answers) -> bytes:
    """A message as UTF-8 JSON without line ends.

    Raises: LocalProtocolError for a request or notification that JSON cannot carry. A response becomes an error.
    """
    try:
        data = encode_anyway(message)
        if b"\n" in data or b"\r" in data:  # raw JSON inside it is pretty-printed
            data = msgspec.json.format(data, indent=-1)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        what = getattr(message, "method", "a response")
        raise LocalProtocolError(INTERNAL_ERROR, f"{what} cannot be written as JSON: {error}") from error
    return data


async def _take(
    dispatcher: Dispatcher, session: Session, message: Message | Malformed, group: anyio.abc.TaskGroup
) -> None:
    batch = batch_of(message, session)
    if batch is not None:
        answers, exchanges = take(batch, session, lambda request: _begin(dispatcher, session, request))
        if exchanges:
            group.start_soon(_serve_batch, dispatcher, session, answers, exchanges)
        elif answers:
            session.stream.append(Answers(answers))
        return
    event = session.receive(message)
    if event is None:
        return
    if isinstance(event, Reply):
        session.stream.append(event.message)
        return
    request = event.request
    try:
        exchange = _begin(dispatcher, session, request)
    except (LocalProtocolError, UnsupportedVersion) as error:
        session.peer.finish(request.id)
        session.stream.append(ErrorResponse(request.id, ErrorObject(error.code, str(error), error.data)))
        return
    session.peer.serve(request.id, exchange)
    if exchange.method.cancellable:
        group.start_soon(_serve, dispatcher, session, exchange)
    else:
        await _serve(dispatcher, session, exchange)


def _begin(dispatcher: Dispatcher, session: Session, request: Request) -> Exchange:
    if session.peer.serving > dispatcher.server.limits.in_flight:
        raise LocalProtocolError(INTERNAL_ERROR, "too many requests in flight on this connection")
    return read(request, session, session.stream, dispatcher.server.methods)


async def _serve_batch(
    dispatcher: Dispatcher, session: Session, answers: list[Outcome], exchanges: list[Exchange]
) -> None:
    answers += await serve_all(dispatcher, session, exchanges)
    if answers:
        session.stream.append(Answers(answers))


async def _serve(dispatcher: Dispatcher, session: Session, exchange: Exchange) -> None:
    serving.set(exchange)
    try:
        response = await dispatcher(exchange)
    except anyio.get_cancelled_exc_class():
        response = answer_cancelled(exchange)
    if session.peer.finish(exchange.request.id, exchange):
        session.stream.append(response)


class _Envelope(msgspec.Struct):
    meta: RequestMeta = msgspec.field(default_factory=RequestMeta, name="_meta")


_envelope = msgspec.json.Decoder(_Envelope)
_NO_PARAMS = msgspec.Raw(b"{}")


def read(request: Request, session: Session, stream: Stream, methods: Mapping[str, Method]) -> Exchange:
    """The exchange for a request: a modern envelope makes it modern, else it belongs to the session.

    stream: carries what flows before the response.  methods: the requests that there are.

    Raises: LocalProtocolError, UnsupportedVersion with the error to answer with.
    """
    raw = request.params if request.params is not None else _NO_PARAMS
    if request.method == "initialize" and len(bytes(raw)) > INTRODUCTION:
        raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: initialize takes at most {INTRODUCTION} bytes")
    try:
        meta = _envelope.decode(raw).meta
    except (msgspec.DecodeError, RecursionError) as error:
        raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
    legacy = meta.version is None
    version = _legacy_version(request, session) if legacy else _modern_version(meta)
    method = lookup(request.method, version, Direction.CLIENT, methods)
    if method is None:
        raise LocalProtocolError(METHOD_NOT_FOUND, f"Method not found: {request.method[:200]}")
    if method is not METHODS["initialize"] and legacy:
        session.check(request)
    try:
        params: RequestParams = msgspec.json.decode(raw, type=method.params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
    client = session.client if legacy else ClientInfo(meta.client_info, meta.client_capabilities or {})
    return Exchange(request, method, params, version, client, stream, session if legacy else None, session.principal)


def _legacy_version(request: Request, session: Session) -> Version:
    if session.version is None and request.method in ("server/discover",):
        names = ", ".join(version.value for version in MODERN)
        text = f"Invalid params: _meta lacks io.modelcontextprotocol/protocolVersion (supported: {names})"
        raise LocalProtocolError(INVALID_PARAMS, text)
    return session.version or LATEST_LEGACY


def _modern_version(meta: RequestMeta) -> Version:
    assert meta.version is not None
    if not is_modern(meta.version):
        raise unsupported(meta.version)
    if meta.client_capabilities is None:
        raise LocalProtocolError(
            INVALID_PARAMS, "Invalid params: _meta lacks io.modelcontextprotocol/clientCapabilities"
        )
    return Version(meta.version)
