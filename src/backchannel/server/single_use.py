"""Single use: with a StateStore, one round of a call runs once (basic/patterns/mrtr, Server Requirements: "consumed at
most once").

How it works: whoever presents a state first claims it in the store, and leaves the response there. Whoever presents it
again gets that response, waiting for it if the first still runs. A run that is broken off gives its claim back.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from ..errors import INVALID_PARAMS, StateRejected
from ..protocol.jsonrpc import ErrorObject, ErrorResponse, Outcome, Response, encode
from .exchange import Exchange
from .state import RequestState, digest
from .state_store import StateStore

LEASE = 60.0
"""Seconds for which a claim holds if whoever made it was killed. Who runs renews it."""
POLL = 0.05
"""Seconds between two looks at whether the first is done."""
_RUNNING, _ANSWERED = b"?", b"!"
logger = logging.getLogger("backchannel.state")


class _Answered(msgspec.Struct, array_like=True):
    """What is left of a round: a digest of the answers that it had, and the JSON of its result or error."""

    answers: bytes
    result: bytes
    error: bytes


async def serve_once(
    state: RequestState, store: StateStore, exchange: Exchange, serve: Callable[[Exchange], Awaitable[Outcome]]
) -> Outcome:
    """Serve a round whose state is genuine, or give the response that it had.

    Raises: StateRejected if the state was used with other answers.
    """
    params = exchange.params
    key = f"round:{hashlib.sha256(params.request_state.encode()).hexdigest()}"
    answers = digest(msgspec.json.encode(params.input_responses))
    claim = _RUNNING + os.urandom(16)
    while not await store.add(key, claim, LEASE):
        recorded = await store.get(key) or b""
        if recorded.startswith(_ANSWERED):
            return _again(exchange, answers, state.unlock(recorded[1:]))
        await anyio.sleep(POLL)
    left: bytes | None = None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_renew, store, key, claim)
            outcome = await serve(exchange)
            group.cancel_scope.cancel()
        if not _is_refusal(outcome):
            left = _ANSWERED + state.lock(_left(answers, outcome))
            await store.put(key, left, state.ttl)
    finally:
        if left is None and await _shielded(store.get, key) == claim:
            await _shielded(store.delete, key)
    return outcome


async def _renew(store: StateStore, key: str, claim: bytes) -> None:
    while True:
        await anyio.sleep(LEASE / 3)
        await store.put(key, claim, LEASE)


async def _shielded(action: Callable[[str], Awaitable[Any]], key: str) -> Any:
    with anyio.CancelScope(shield=True):
        return await action(key)


def _is_refusal(outcome: Outcome) -> bool:
    """Whether the request was wrong, as with an answer of another shape: then it can be made again, put right."""
    return isinstance(outcome, ErrorResponse) and outcome.error.code == INVALID_PARAMS


def _left(answers: bytes, outcome: Outcome) -> bytes:
    result = encode(outcome.result) if isinstance(outcome, Response) else b""
    error = encode(outcome.error) if isinstance(outcome, ErrorResponse) else b""
    return msgspec.msgpack.encode(_Answered(answers, result, error))


def _again(exchange: Exchange, answers: bytes, recorded: bytes) -> Outcome:
    left = msgspec.msgpack.decode(recorded, type=_Answered)
    if answers != left.answers:
        logger.info("requestState rejected: used before, with other answers")
        raise StateRejected
    if left.error:
        return ErrorResponse(exchange.request.id, msgspec.json.decode(left.error, type=ErrorObject))
    return Response(exchange.request.id, msgspec.Raw(left.result))
