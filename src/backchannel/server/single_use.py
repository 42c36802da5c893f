"""Single use: with a StateStore, one round of a call runs once (basic/patterns/mrtr, Server Requirements: "consumed at
most once").

How it works: whoever presents a state first claims it in the store, and leaves the response there. Whoever presents it
again gets that response, waiting for it if the first still runs. A run that is broken off, or that finds the request
wrong, gives its claim back, and the next one runs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable

import anyio
import msgspec

from ..errors import INTERNAL_ERROR, CallFinished, LocalProtocolError, StateRejected
from ..protocol.jsonrpc import ErrorObject, ErrorResponse, Outcome, Response, encode
from .exchange import Exchange
from .state import RequestState, digest

LEASE = 60.0
"""Seconds for which a claim holds if whoever made it was killed. Who runs renews it."""
WAIT = 60.0
"""Seconds to wait for a run of the same round."""
LARGEST = 256 * 1024
"""Bytes of a response that is kept."""
_FIRST_LOOK, _LAST_LOOK = 0.05, 1.0  # seconds between looks at whether the first is done
_RUNNING, _ANSWERED = b"?", b"!"
logger = logging.getLogger("backchannel.state")


class _Answered(msgspec.Struct, array_like=True):
    """What is left of a round: a digest of the answers that it had, and the JSON of its result or error."""

    answers: bytes
    result: bytes
    error: bytes


async def serve_once(
    state: RequestState, identity: str, exchange: Exchange, serve: Callable[[Exchange], Awaitable[Outcome]]
) -> Outcome:
    """Serve a round whose state is genuine, or give the response that it had. identity: names the state.

    Raises: StateRejected if the state was used with other answers; CallFinished if the client no longer waits;
    LocalProtocolError if the same round runs for too long.
    """
    key = f"round:{identity}"
    answers = digest(msgspec.json.encode(exchange.params.input_responses))
    claim = _RUNNING + os.urandom(16)
    used = False
    try:
        recorded = await _claimed(state, exchange, key, claim)
        if recorded is not None:
            used = True
            return _again(exchange, answers, state.unlock(recorded[1:]))
        async with anyio.create_task_group() as group:
            group.start_soon(_renew, state, key, claim)
            outcome = await serve(exchange)
            group.cancel_scope.cancel()
        used = not (exchange.cancelled or exchange.hung_up or exchange.unused)
        if used:
            await _leave(state, exchange, key, _ANSWERED + state.lock(_left(answers, outcome)))
    finally:
        if not used:
            await _give_back(state, key, claim)
    return outcome


async def _claimed(state: RequestState, exchange: Exchange, key: str, claim: bytes) -> bytes | None:
    """Claim a round, waiting for whoever runs it. Returns what that left, or None once the claim is made."""
    pause = _FIRST_LOOK
    with anyio.move_on_after(WAIT) as scope:
        exchange.scope = scope
        if exchange.cancelled:
            scope.cancel()
        while not await state.reach("add", key, claim, LEASE):
            recorded: bytes = await state.reach("get", key) or b""
            if recorded.startswith(_ANSWERED):
                return recorded
            await anyio.sleep(pause)
            pause = min(pause * 1.5, _LAST_LOOK)
        return None
    if exchange.cancelled:
        raise CallFinished("the client cancelled the request")
    raise LocalProtocolError(INTERNAL_ERROR, "this round is still being served; send it again")


async def _leave(state: RequestState, exchange: Exchange, key: str, left: bytes) -> None:
    """What comes again gets this. The round's journal is not needed any more. A store that fails does not fail a call
    that has been served."""
    try:
        await state.reach("put", key, left, state.ttl)
        if exchange.flow is not None and exchange.flow.stored:
            await state.reach("delete", exchange.flow.stored)
    except LocalProtocolError:
        logger.error("the response to a round could not be kept; presented again, the round may run again")


async def _give_back(state: RequestState, key: str, claim: bytes) -> None:
    with anyio.CancelScope(shield=True):
        try:
            if await state.reach("get", key) == claim:
                await state.reach("delete", key)
        except LocalProtocolError:
            logger.warning("the claim on a round could not be given back; it ends by itself")


async def _renew(state: RequestState, key: str, claim: bytes) -> None:
    while True:
        await anyio.sleep(LEASE / 3)
        try:
            if await state.reach("get", key) != claim:
                return
            await state.reach("put", key, claim, LEASE)
        except LocalProtocolError:
            logger.warning("the claim on a round could not be renewed")


def _left(answers: bytes, outcome: Outcome) -> bytes:
    result = encode(outcome.result) if isinstance(outcome, Response) else b""
    error = encode(outcome.error) if isinstance(outcome, ErrorResponse) else b""
    if len(result) + len(error) > LARGEST:
        result, error = b"", encode(ErrorObject(INTERNAL_ERROR, "this round was served; its result was not kept"))
    return msgspec.msgpack.encode(_Answered(answers, result, error))


def _again(exchange: Exchange, answers: bytes, recorded: bytes) -> Outcome:
    left = msgspec.msgpack.decode(recorded, type=_Answered)
    if answers != left.answers:
        logger.info("requestState rejected: used before, with other answers")
        raise StateRejected
    if left.error:
        return ErrorResponse(exchange.request.id, msgspec.json.decode(left.error, type=ErrorObject))
    return Response(exchange.request.id, msgspec.Raw(left.result))
