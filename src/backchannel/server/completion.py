"""Completion: suggestions for the arguments of prompts and resource templates (server/utilities/completion)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio.to_thread

from ..errors import INVALID_PARAMS, LocalProtocolError
from ..protocol.types.completion import MOST_VALUES, CompleteParams, CompleteResult, Completion, Reference

Completer = Callable[..., Any]
"""Takes the value so far, and the arguments that are known already as a dict if it takes a second parameter. Returns
the suggestions, best first, or a Completion."""


class Completions:
    """The completers of a server, by what they complete: the name of a prompt or the URI of a template, and an
    argument of it."""

    def __init__(self) -> None:
        self.completers: dict[tuple[str, str], Completer] = {}

    def add(self, target: str, argument: str, completer: Completer) -> None:
        """Register a completer for an argument; the newest counts."""
        self.completers[target, argument] = completer

    async def complete(
        self, params: CompleteParams, known: Callable[[Reference], bool], threads: anyio.CapacityLimiter
    ) -> CompleteResult:
        """`completion/complete`. known: whether there is such a prompt or resource. What has no completer has no
        suggestions.

        Raises: LocalProtocolError (-32602) for a prompt or template that does not exist.
        """
        target = params.ref.name if params.ref.type == "ref/prompt" else params.ref.uri
        if target is None or not known(params.ref):
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: there is no {params.ref.type} {target!r}")
        completer = self.completers.get((target, params.argument.name))
        if completer is None:
            return CompleteResult(Completion([], 0, False))
        arguments = (params.context.arguments if params.context else None) or {}
        values = await _call(completer, params.argument.value, arguments, threads)
        return CompleteResult(_cut(values if isinstance(values, Completion) else Completion(list(values))))


async def _call(completer: Completer, value: str, known: dict[str, str], threads: anyio.CapacityLimiter) -> Any:
    args: tuple[Any, ...] = (value, known) if len(inspect.signature(completer).parameters) > 1 else (value,)
    if inspect.iscoroutinefunction(completer):
        return await completer(*args)
    found = await anyio.to_thread.run_sync(completer, *args, abandon_on_cancel=True, limiter=threads)
    return await found if inspect.isawaitable(found) else found


def _cut(found: Completion) -> Completion:
    """At most 100 values ("Maximum 100 items per response", server/utilities/completion, Completion Results)."""
    values, cut = found.values, len(found.values) > MOST_VALUES
    total = len(values) if found.total is None else found.total
    more = cut or bool(found.has_more) or total > len(values)
    return Completion([str(value) for value in values[:MOST_VALUES]], total, more)
