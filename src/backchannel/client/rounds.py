"""The loop of a multi round-trip call: ask, answer, send again, until the result is complete (basic/patterns/mrtr,
Client Requirements)."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, LocalProtocolError, RemoteProtocolError, TooManyRounds
from ..protocol.jsonrpc import encode
from ..protocol.types.mrtr import ReceivedInputRequest, ReceivedResult
from ..protocol.versions import CACHEABLE
from .answers import Answers, Question
from .cache import Cache
from .call import Call
from .connection import Connection, Progress
from .tools import KnownTools

MAX_ROUNDS = 32
COMPLETE, INPUT_REQUIRED = "complete", "input_required"


async def go_through(
    connection: Connection,
    call: Call,
    params: dict[str, Any],
    *,
    cache: Cache | None = None,
    tools: KnownTools | None = None,
    progress: Progress | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> msgspec.Raw:
    """Send the request of a call, and send it again with answers for as long as the server asks.

    Each round is made from the caller's own params and what this round adds: nothing of an earlier round stays, and
    the params are not changed.

    cache: where a result may be found, and kept; legacy results do not say that they may be.  tools: what is known of
    them, which has a say in how they are called.

    Returns the raw result. Raises: RemoteProtocolError, LocalProtocolError, TooManyRounds, what ends the call, and what
    the host's own handlers raise.
    """
    modern = connection.version is not None and connection.version.is_modern
    params = _frozen(call.method, params)
    key = _key(params) if cache is not None and modern and call.method in CACHEABLE else None
    changes = 0
    if cache is not None and key is not None:
        if (kept := cache.get(call.method, key)) is not None:
            await anyio.lowlevel.checkpoint()
            return kept
        changes = cache.changes
    retry: dict[str, Any] = {}
    for rounds_left in reversed(range(max_rounds)):
        sent = {**params, **retry}
        if tools is not None and call.method == "tools/call":
            raw = await tools.send(connection, call, sent, progress)
        else:
            raw = await connection.request(call.method, sent, call, progress=progress)
        if not modern:
            return raw
        result = _read(raw)
        if result.result_type == COMPLETE:
            if cache is not None and key is not None:
                cache.put(call.method, {**key, **retry}, raw, changes=changes)
            return raw
        if rounds_left:
            retry = await _retry(connection.answers, call, result)
    raise TooManyRounds(f"{call.method} went through {max_rounds} rounds of questions without an end")


def _frozen(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The params as they are now: all rounds send the same, whatever the caller does with the object meanwhile."""
    try:
        return {name: value if name == "_meta" else msgspec.Raw(encode(value)) for name, value in params.items()}
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(INVALID_PARAMS, f"{method} cannot be sent as JSON: {error}") from error


def _key(params: dict[str, Any]) -> dict[str, Any]:
    """Frozen params as the cache takes them."""
    return {name: msgspec.json.decode(value) for name, value in params.items() if name != "_meta"}


def _read(raw: msgspec.Raw) -> ReceivedResult:
    """What kind of result this is. Raises: RemoteProtocolError for what is none."""
    try:
        result = msgspec.json.decode(raw, type=ReceivedResult)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(INTERNAL_ERROR, f"the server's result is malformed: {error}") from error
    # "A `resultType` of any value unrecognized by the client MUST be considered invalid" (basic/index, ResultType)
    if result.result_type not in (COMPLETE, INPUT_REQUIRED):
        raise RemoteProtocolError(INTERNAL_ERROR, f"a result of the unknown type {result.result_type[:50]!r}")
    # "Servers MUST include at least one of `inputRequests` or `requestState`" (Server Requirements)
    if result.result_type == INPUT_REQUIRED and result.input_requests is None and result.request_state is None:
        raise RemoteProtocolError(INTERNAL_ERROR, "an input_required result with neither questions nor state")
    return result


async def _retry(answers: Answers, call: Call, result: ReceivedResult) -> dict[str, Any]:
    """What the next round sends besides the params: the answers under the server's keys, its state as it is, and
    neither of them where the server sent none."""
    retry: dict[str, Any] = {}
    if result.input_requests is not None:
        call.hold()
        try:
            retry["inputResponses"] = await answer_all(answers, result.input_requests)
        finally:
            call.resume()
    if result.request_state is not None:
        retry["requestState"] = result.request_state
    return retry


async def answer_all(answers: Answers, requests: dict[str, ReceivedInputRequest]) -> dict[str, Any]:
    """Answer all questions of one round at once, begun in the order of the map. If there is one that cannot be
    answered, none is asked.

    Raises: RemoteProtocolError, and what the first failing handler raised; the others are cancelled.
    """
    questions = {key: answers.read(request.method, request.params) for key, request in requests.items()}
    for question in questions.values():
        question.queue(nested=answers.nested)
    if len(questions) == 1:
        return {key: await question.answer() for key, question in questions.items()}
    responses: dict[str, Any] = dict.fromkeys(questions)
    failures: list[BaseException] = []

    async def answer(key: str, question: Question) -> None:
        try:
            responses[key] = await question.answer()
        except BaseException as error:
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for key, question in questions.items():
            group.start_soon(answer, key, question)
    if failures:
        raise failures[0]
    return responses
