"""Batches of messages, which exist at 2025-03-26 only (2025-03-26 basic/index, Batching): one array comes in, its
requests are served side by side, and one array goes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from ..errors import INVALID_REQUEST, LocalProtocolError, UnsupportedVersion
from ..protocol.jsonrpc import Batch, ErrorObject, ErrorResponse, Malformed, Message, Outcome, Request, decode
from ..protocol.peer import Incoming, Reply
from ..protocol.versions import FEATURES
from .exchange import Exchange, serving
from .failures import answer_cancelled
from .session import Session

if TYPE_CHECKING:
    from .dispatch import Dispatcher


def batch_of(message: Message | Malformed, session: Session) -> Batch | None:
    """The message, if it is a batch and the session is of the version that has them."""
    version = session.version
    return message if isinstance(message, Batch) and version is not None and FEATURES[version].batches else None


def take(batch: Batch, session: Session, begin: Callable[[Request], Exchange]) -> tuple[list[Outcome], list[Exchange]]:
    """Receive every message of a batch. Returns what is answered at once, and what is to be served.

    begin: makes the exchange of a request. Raises: LocalProtocolError, UnsupportedVersion.
    """
    answers: list[Outcome] = []
    exchanges: list[Exchange] = []
    for item in batch.items:
        message = decode(bytes(item))
        if isinstance(message, Request) and message.method == "initialize":
            # "The initialize request MUST NOT be part of a JSON-RPC batch" (2025-03-26 basic/lifecycle, Initialization)
            error = ErrorObject(INVALID_REQUEST, "Invalid Request: initialize must not be part of a batch")
            answers.append(ErrorResponse(message.id, error))
            continue
        event = session.receive(message)
        if isinstance(event, Reply):
            answers.append(event.message)
        elif isinstance(event, Incoming):
            request = event.request
            try:
                exchange = begin(request)
                if exchange.version.is_modern:
                    raise LocalProtocolError(INVALID_REQUEST, f"Invalid Request: {exchange.version} has no batches")
            except (LocalProtocolError, UnsupportedVersion) as error:
                session.peer.finish(request.id)
                answers.append(ErrorResponse(request.id, ErrorObject(error.code, str(error), error.data)))
                continue
            session.peer.serve(request.id, exchange)
            exchanges.append(exchange)
    return answers, exchanges


async def serve_all(dispatcher: Dispatcher, session: Session, exchanges: list[Exchange]) -> list[Outcome]:
    """Serve the requests of a batch side by side. Returns their responses, without those that were cancelled."""
    answers: list[Outcome] = []

    async def serve(exchange: Exchange) -> None:
        serving.set(exchange)
        try:
            response: Outcome = await dispatcher(exchange)
        except anyio.get_cancelled_exc_class():
            response = answer_cancelled(exchange)
        if session.peer.finish(exchange.request.id, exchange):
            answers.append(response)

    async with anyio.create_task_group() as group:
        for exchange in exchanges:
            group.start_soon(serve, exchange)
    return answers
