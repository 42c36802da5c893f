"""Completion: suggestions for the arguments of prompts and resource templates (server/utilities/completion)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread

from ..errors import INVALID_PARAMS, ConfigurationError, LocalProtocolError
from ..protocol.types.completion import MOST_VALUES, CompleteParams, CompleteResult, Completion, Reference
from .context import Context
from .options import called
from .options import function as check_function
from .signature import context_of

Completer = Callable[..., Any]
"""Takes the value so far, the arguments that are known already as a dict if it takes a second parameter, and the
Context in a parameter that is annotated so. Returns the suggestions, best first, or a Completion."""


class CompletionHandler:
    """A registered completer, and what its parameters take.

    what: for messages.  Raises: ConfigurationError for a function that cannot be called so.
    """

    def __init__(self, function: Completer, what: str):
        takes = (
            f"{what}: {called(function)} takes the value so far, may take the other arguments as a dict, and a Context"
        )
        check_function(what, function)
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:
            raise ConfigurationError(f"{takes}, and it has no signature") from None
        if inspect.isasyncgenfunction(function):
            raise ConfigurationError(f"{what}: {called(function)} is an async generator: return a list")
        self.function = function
        self._in_order: list[str] = []
        self._by_name: dict[str, str] = {}
        context, left = context_of(function, Context), ["value", "known"]
        for name, one in parameters.items():
            if name == "ctx" and one.annotation is one.empty:
                raise ConfigurationError(f"{what}: the parameter 'ctx' has no annotation: write ctx: Context")
            fits = one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and left
            if name != context and not fits:
                if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                    raise ConfigurationError(f"{takes}; its parameter {name!r} is none of these")
                continue
            given = "context" if name == context else left.pop(0)
            if one.kind is one.POSITIONAL_ONLY:
                self._in_order.append(given)
            else:
                self._by_name[name] = given
        if len(left) == 2:
            if not any(one.kind is one.VAR_POSITIONAL for one in parameters.values()):
                raise ConfigurationError(f"{takes}; it takes no value")
            self._in_order.append("value")

    async def __call__(self, given: dict[str, Any], threads: anyio.CapacityLimiter) -> Any:
        """What the function returns. given: value, known and context."""
        args = [given[what] for what in self._in_order]
        call = partial(self.function, *args, **{name: given[what] for name, what in self._by_name.items()})
        if inspect.iscoroutinefunction(self.function):
            return await call()
        found = await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=threads)
        return await found if inspect.isawaitable(found) else found


class Completions:
    """The completers of a server, by what they complete: the name of a prompt or the URI of a template, and an
    argument of it."""

    def __init__(self) -> None:
        self.completers: dict[tuple[str, str], CompletionHandler] = {}
        self._unseen: set[tuple[str, str]] = set()

    def add(self, target: str, argument: str, completer: Completer, there: Mapping[str, Sequence[str]]) -> None:
        """Register a completer for an argument; the newest counts. there: what has arguments. What it completes may be
        registered later.

        Raises: ConfigurationError for an argument that is not there, and a function that cannot complete it.
        """
        handler = CompletionHandler(completer, f"the completion of {argument!r} of {target!r}")
        if target in there:
            _check_argument(target, argument, there)
        else:
            self._unseen.add((target, argument))
        self.completers[target, argument] = handler

    def check(self, there: Mapping[str, Sequence[str]]) -> None:
        """What was not there when its completer came has to be there now. Raises: ConfigurationError."""
        for target, argument in sorted(self._unseen):
            if (target, argument) in self.completers:
                _check_argument(target, argument, there)
        self._unseen.clear()

    async def complete(
        self, context: Context, known: Callable[[Reference], bool], threads: anyio.CapacityLimiter
    ) -> CompleteResult:
        """`completion/complete`. known: whether there is such a prompt or resource. What has no completer has no
        suggestions.

        Raises: LocalProtocolError (-32602) for a prompt or template that does not exist.
        """
        params: CompleteParams = context.exchange.params
        target = params.ref.name if params.ref.type == "ref/prompt" else params.ref.uri
        if target is None or not known(params.ref):
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: there is no {params.ref.type} {target!r}")
        completer = self.completers.get((target, params.argument.name))
        if completer is None:
            return CompleteResult(Completion([], 0, False))
        arguments = (params.context.arguments if params.context else None) or {}
        given = {"value": params.argument.value, "known": arguments, "context": context}
        values = await completer(given, threads)
        if values is None or isinstance(values, str):
            raise TypeError(f"{called(completer.function)} returned {values!r}, and not a list of suggestions")
        return CompleteResult(_cut(values if isinstance(values, Completion) else Completion(list(values))))


def _check_argument(target: str, argument: str, there: Mapping[str, Sequence[str]]) -> None:
    if target not in there:
        names = ", ".join(map(repr, there)) or "none"
        raise ConfigurationError(f"there is no prompt or URI template {target!r} to complete; there are: {names}")
    if argument not in there[target]:
        names = ", ".join(map(repr, there[target])) or "none"
        raise ConfigurationError(f"{target!r} has no argument {argument!r} to complete; its arguments are: {names}")


def _cut(found: Completion) -> Completion:
    """At most 100 values ("Maximum 100 items per response", server/utilities/completion, Completion Results)."""
    values, cut = found.values, len(found.values) > MOST_VALUES
    total = len(values) if found.total is None else found.total
    more = cut or bool(found.has_more) or total > len(values)
    return Completion([str(value) for value in values[:MOST_VALUES]], total, more)
