"""The server's own model, which answers `ctx.sample` where the client's cannot be asked (`Server(sampler=)`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

import anyio
import msgspec

from ..errors import AskTimeout, StepError
from ..protocol.types.sampling import CreateMessageParams, CreateMessageResult, OwnMessageResult, answer

Sampler = Callable[[CreateMessageParams], Awaitable[str | CreateMessageResult]]
"""Takes what a client's model would be asked; gives its text, or the whole message."""
_LATE = "the server's own model did not answer in time"


async def produce(sampler: Sampler, params: CreateMessageParams, timeout: float | None) -> dict[str, Any]:
    """The message of the server's own model, as JSON, to be recorded. timeout: seconds.

    Raises: AskTimeout; TypeError for what is no message; whatever the sampler raises.
    """
    given: Any = None
    with anyio.move_on_after(timeout) as scope:
        given = sampler(params)
        if isawaitable(given):
            given = await given
    if scope.cancelled_caught:
        raise AskTimeout(_LATE)
    message = answer(given, "server") if isinstance(given, str) else given
    if not isinstance(message, CreateMessageResult):
        raise TypeError(f"a sampler returns a text or a CreateMessageResult, not {type(given).__name__}")
    recorded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(message))
    return recorded


async def produced(recorded: Awaitable[Any]) -> OwnMessageResult:
    """The same, read back. Raises: AskTimeout; StepError if the sampler failed."""
    try:
        return msgspec.convert(await recorded, OwnMessageResult)
    except StepError as error:
        if error.kind == AskTimeout.__name__:
            raise AskTimeout(error.text) from error
        raise
