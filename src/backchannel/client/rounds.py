"""The loop of a multi round-trip call: ask, answer, send again, until the result is complete (basic/patterns/mrtr,
Client Requirements)."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from ..errors import INTERNAL_ERROR, RemoteProtocolError, TooManyRounds
from ..protocol.types.mrtr import ReceivedInputRequest, ReceivedResult
from .answers import Answers
from .connection import Clock, Connection, Progress

MAX_ROUNDS = 32
COMPLETE, INPUT_REQUIRED = "complete", "input_required"


async def call(
    connection: Connection,
    method: str,
    params: dict[str, Any],
    clock: Clock,
    *,
    progress: Progress | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> msgspec.Raw:
    """Send a request, and send it again with answers for as long as the server asks.

    Each round is made from the caller's own params and what this round adds: nothing of an earlier round stays, and
    the params are not changed.

    Returns the raw result. Raises: RemoteProtocolError, RequestTimeout, ConnectionLost, TooManyRounds, and what the
    host's own handlers raise.
    """
    retry: dict[str, Any] = {}
    for _ in range(max_rounds):
        raw = await connection.request(method, {**params, **retry}, clock, progress=progress)
        result = _read(raw)
        if result.result_type == COMPLETE:
            return raw
        if result.result_type != INPUT_REQUIRED:
            raise RemoteProtocolError(INTERNAL_ERROR, f"a result of the unknown type {result.result_type[:50]!r}")
        if result.input_requests is None and result.request_state is None:
            raise RemoteProtocolError(INTERNAL_ERROR, "an input_required result with neither questions nor state")
        retry = {}
        if result.input_requests is not None:
            clock.hold()
            try:
                retry["inputResponses"] = await answer_all(connection.answers, result.input_requests)
            finally:
                clock.resume()
        if result.request_state is not None:
            retry["requestState"] = result.request_state
    raise TooManyRounds(f"{method} went through {max_rounds} rounds of questions without an end")


async def answer_all(answers: Answers, requests: dict[str, ReceivedInputRequest]) -> dict[str, Any]:
    """Answer all questions of one round at once, begun in the order of the map.

    Raises: what the first failing handler raised; the others are cancelled.
    """
    responses: dict[str, Any] = {key: None for key in requests}
    failures: list[Exception] = []

    async def answer(key: str, request: ReceivedInputRequest) -> None:
        try:
            responses[key] = await answers(request.method, request.params)
        except Exception as error:
            failures.append(error)
            group.cancel_scope.cancel()

    if len(requests) == 1:
        ((key, request),) = requests.items()
        return {key: await answers(request.method, request.params)}
    async with anyio.create_task_group() as group:
        for key, request in requests.items():
            group.start_soon(answer, key, request)
    if failures:
        raise failures[0]
    return responses


def _read(raw: msgspec.Raw) -> ReceivedResult:
    try:
        return msgspec.json.decode(raw, type=ReceivedResult)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(INTERNAL_ERROR, f"the server's result is malformed: {error}") from error
