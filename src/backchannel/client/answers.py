"""The one dispatcher for everything a server asks of the client: reverse calls of the session-based protocol, and input
requests of the stateless one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, RemoteProtocolError
from ..protocol.forms import check_content, with_defaults
from ..protocol.types.base import Wire
from ..protocol.types.elicitation import ElicitParams, ElicitResult
from ..protocol.types.roots import ListRootsResult, Root
from ..protocol.types.sampling import CreateMessageParams, CreateMessageResult, answer

ElicitHandler = Callable[[ElicitParams], Awaitable[Any] | Any]
"""Takes the question; returns the content as a dict (accepted), True (accepted without content), None or "cancel",
False or "decline", or an ElicitResult."""
SampleHandler = Callable[[CreateMessageParams], Awaitable[Any] | Any]
"""Takes the conversation; returns the model's text, or a CreateMessageResult."""
RootsSource = Sequence[str | os.PathLike[str] | Root] | Callable[[], Awaitable[Any] | Any]
"""Paths, `file:` URIs or Roots, or a function that gives them."""
Handler = Callable[[Any], Awaitable[Wire]]
Middleware = Callable[[str, Any, Callable[[], Awaitable[Wire]]], Awaitable[Wire]]


class Answers:
    """Handlers by method. What has no handler is not declared, and is answered with -32601.

    elicit: for forms.  elicit_url: for pages to open.  sample: for completions.  roots: the directories.
    """

    def __init__(
        self,
        *,
        elicit: ElicitHandler | None = None,
        elicit_url: ElicitHandler | None = None,
        sample: SampleHandler | None = None,
        roots: RootsSource | None = None,
    ):
        self.elicit, self.elicit_url, self.sample, self.roots = elicit, elicit_url, sample, roots
        self.middlewares: list[Middleware] = []
        self._methods: dict[str, tuple[Any, Handler]] = {
            "elicitation/create": (ElicitParams, self._elicit),
            "sampling/createMessage": (CreateMessageParams, self._sample),
            "roots/list": (dict[str, Any], self._roots),
        }

    def capabilities(self) -> dict[str, Any]:
        """Exactly what there are handlers for."""
        declared: dict[str, Any] = {}
        if self.elicit is not None:
            declared.setdefault("elicitation", {})["form"] = {}
        if self.elicit_url is not None:
            declared.setdefault("elicitation", {})["url"] = {}
        if self.sample is not None:
            declared["sampling"] = {}
        if self.roots is not None:
            declared["roots"] = {}
        return declared

    async def __call__(self, method: str, params: Any) -> Wire:
        """Answer one question. `params`: raw JSON.

        Raises: ProtocolError: -32601 for a method without a handler, -32602 for params or an answer of the wrong
        shape, -32603 if the handler failed.
        """
        kind, handler = self._methods.get(method, (None, None))
        if handler is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        try:
            question = msgspec.json.decode(params or b"{}", type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RemoteProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error

        call: Callable[[], Awaitable[Wire]] = partial(handler, question)
        for middleware in reversed(self.middlewares):
            call = partial(middleware, method, question, call)
        return await call()

    async def _elicit(self, question: ElicitParams) -> ElicitResult:
        handler = self.elicit_url if question.mode == "url" else self.elicit
        if handler is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, f"elicitation in {question.mode or 'form'} mode: no handler")
        result = _elicit_result(await _call(handler, question))
        if result.action != "accept" or question.mode == "url":
            return ElicitResult(result.action)
        schema = question.requested_schema or {"type": "object", "properties": {}}
        content = with_defaults(schema, result.content or {})
        problems = check_content(schema, content)
        if problems:
            raise RemoteProtocolError(INVALID_PARAMS, f"the answer breaks the schema: {'; '.join(problems)}")
        return ElicitResult("accept", content)

    async def _sample(self, question: CreateMessageParams) -> CreateMessageResult:
        if self.sample is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, "sampling: no handler")
        result = await _call(self.sample, question)
        return answer(result) if isinstance(result, str) else result

    async def _roots(self, question: Mapping[str, Any]) -> ListRootsResult:
        if self.roots is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, "roots: no handler")
        given = await _call(self.roots) if callable(self.roots) else self.roots
        return ListRootsResult([_root(place) for place in given])


async def _call(handler: Callable[..., Any], *args: Any) -> Any:
    """Call the host's own function. Its failures are the server's to know of, but not their text."""
    try:
        value = handler(*args)
        return await value if inspect.isawaitable(value) else value
    except ProtocolError:
        raise
    except Exception as error:
        raise RemoteProtocolError(INTERNAL_ERROR, "the client's handler failed") from error


def _elicit_result(value: Any) -> ElicitResult:
    if isinstance(value, ElicitResult):
        return value
    if isinstance(value, dict):
        return ElicitResult("accept", value)
    actions: dict[Any, Any] = {True: "accept", False: "decline", None: "cancel"}
    action = value if value in ("accept", "decline", "cancel") else actions.get(value)
    if action is None:
        raise RemoteProtocolError(INTERNAL_ERROR, "the client's handler gave no usable answer")
    return ElicitResult(action)


def _root(place: str | os.PathLike[str] | Root) -> Root:
    if isinstance(place, Root):
        return place
    text = os.fspath(place)
    return Root(text if text.startswith("file:") else Path(text).absolute().as_uri())
