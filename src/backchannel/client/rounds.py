"""The loop of a multi round-trip call: ask, answer, send again, until the result is complete (basic/patterns/mrtr,
Client Requirements)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from ..errors import INTERNAL_ERROR, INVALID_REQUEST, LocalProtocolError, RemoteProtocolError, TooManyRounds
from ..nursery import being_cancelled
from ..protocol.jsonrpc import encode
from ..protocol.methods import METHODS
from ..protocol.types.mrtr import ReceivedResult
from ..protocol.versions import CACHEABLE
from .answers import Answers, Question
from .asked import Asked
from .cache import Cache
from .call import Call
from .connection import Connection, Progress
from .delivery import deliver
from .pages import Completions, pages_of
from .pending import Pending
from .reverse import MOST_OPEN
from .rising import Rising
from .tools import KnownTools

MAX_ROUNDS = 32
COMPLETE, INPUT_REQUIRED = "complete", "input_required"
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between rounds in which nothing is asked; after the first, none


async def go_through(
    connection: Connection,
    pending: Pending[Any],
    idle: float | None = None,
    total: float | None = None,
    *,
    cache: Cache | None = None,
    tools: KnownTools,
    progress: Progress | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> msgspec.Raw:
    """Send the request of a call, and send it again with answers for as long as the server asks.

    pending: the call, before its first round.  idle, total: seconds, as for a Call.
    cache: where a result may be found, and kept; legacy results do not say that they may be.  tools: what is known of
    them, which has a say in how they are called.

    Returns the raw result. Raises: RemoteProtocolError, LocalProtocolError, TooManyRounds, what ends the call, and what
    the host's own handlers raise.
    """
    with connection.call(pending.method, idle, total, lazy=True) as call:
        key = pending.params if cache is not None and connection.modern and call.method in CACHEABLE else None
        changes = 0
        if cache is not None and key is not None:
            if (kept := cache.get(call.method, key)) is not None:
                await anyio.lowlevel.checkpoint()
                return kept
            changes = cache.changes
        rising = Rising(progress) if progress is not None else None
        silent, visited = 0, False
        for rounds_left in reversed(range(max_rounds)):
            try:
                came = await send(connection, call, pending, tools, rising)
            except RemoteProtocolError as error:
                pages = pages_of(connection, error) if rounds_left and not visited else {}
                if not pages or not await _visit(connection, call, pages):
                    raise
                visited = True
                continue
            if not isinstance(came, Pending):
                if cache is not None and key is not None and not pending.begun:
                    cache.put(call.method, key, came, changes=changes)
                return came
            pending = call.pending = came
            silent = 0 if pending.questions else silent + 1
            if rounds_left and silent:
                await _pause(call, silent)
            elif rounds_left:
                with call.held():
                    results = await answer_all(connection.answers, pending.questions)
                pending = call.pending = pending.with_results(results)
        raise TooManyRounds(f"{call.method} went through {max_rounds} rounds of questions without an end")


async def send(
    connection: Connection, call: Call, pending: Pending[Any], tools: KnownTools, progress: Rising | None
) -> msgspec.Raw | Pending[Any]:
    """One round: send the call as it stands. Returns the raw result, or the call with what the server asks.

    Raises: as `go_through`, and OutcomeUnknown.
    """
    call.pending = pending
    modern = connection.modern
    if not modern and pending.begun:
        text = f"{call.method} was begun on the stateless protocol; this server speaks {connection.version}"
        raise LocalProtocolError(INVALID_REQUEST, text)
    params = pending.request()
    if call.method == "tools/call":
        may_repeat = tools.may_repeat(params)
        once = tools.sender(connection, call, params, progress)
    else:
        # Of the requests of the specification, all but that one read, or set what they set before.
        may_repeat = call.method in METHODS
        once = partial(connection.request, call.method, params, call, progress=progress)
    if progress is not None:
        once = partial(_again, progress, once)
    response = await deliver(connection, call, once, may_repeat=may_repeat)
    if not modern:
        return response
    result = _read(response)
    if result.result_type == COMPLETE:
        return response
    asked = {key: Asked.read(one.method, one.params) for key, one in (result.input_requests or {}).items()}
    return pending.next(asked, result.request_state)


async def _again(progress: Rising, once: Callable[[], Awaitable[msgspec.Raw]]) -> msgspec.Raw:
    progress.again()
    return await once()


def raw(result: Any) -> msgspec.Raw:
    """A result as raw JSON, be it one that middleware has made. Raises: LocalProtocolError for what is no JSON."""
    if isinstance(result, msgspec.Raw):
        return result
    try:
        return msgspec.Raw(encode(result))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(INTERNAL_ERROR, f"middleware gave what has no form in JSON: {error}") from error


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


async def _pause(call: Call, silent: int) -> None:
    """Nothing is asked: the server wants the call again. "The client MAY retry the original request immediately", which
    it does once."""
    with call.held():
        await anyio.sleep(min(_SHORTEST_PAUSE * 2 ** (silent - 2), _LONGEST_PAUSE) if silent > 1 else 0)


async def _visit(connection: Connection, call: Call, pages: Mapping[str, Asked]) -> bool:
    """Show the pages, and wait until they are done with. Returns whether the person went to all of them."""
    with call.held(), Completions(connection, pages) as completions:
        results = await answer_all(connection.answers, pages)
        if any(getattr(result, "action", None) != "accept" for result in results.values()):
            return False
        await completions.wait(results, call.idle)
    return True


async def answer_all(answers: Answers, asked: Mapping[str, Asked]) -> dict[str, Any]:
    """Answer all questions of one round at once, begun in the order of the map. If there is one that cannot be
    answered, or if they are too many, none is asked.

    Raises: RemoteProtocolError, and what the first failing handler raised; the others are cancelled.
    """
    if len(asked) > MOST_OPEN:
        text = f"the server asks {len(asked)} questions at once; this client answers at most {MOST_OPEN}"
        raise RemoteProtocolError(INTERNAL_ERROR, text)
    questions = {key: answers.take(one) for key, one in asked.items()}
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
            if isinstance(error, anyio.get_cancelled_exc_class()) and being_cancelled():
                raise
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for key, question in questions.items():
            group.start_soon(answer, key, question)
    if failures:
        raise failures[0]
    return responses
