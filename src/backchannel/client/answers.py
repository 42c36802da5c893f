"""The one dispatcher for everything a server asks of the client: reverse calls of the session-based protocol, and input
requests of the stateless one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ConfigurationError,
    LocalProtocolError,
    RemoteProtocolError,
)
from ..protocol.forms import check_content, with_defaults
from ..protocol.jsonrpc import encode
from ..protocol.types.elicitation import ElicitParams, ElicitResult
from ..protocol.types.roots import ListRootsResult, Root
from ..protocol.types.sampling import CreateMessageParams, CreateMessageResult, answer
from ..protocol.versions import FEATURES, Version
from .turns import Turn, Turns

ElicitHandler = Callable[[ElicitParams], Awaitable[Any] | Any]
"""Takes the question; returns the content as a dict (accepted), True (accepted: yes, where the only required field is a
boolean, and the form's defaults), None or "cancel", False or "decline", or an ElicitResult."""
SampleHandler = Callable[[CreateMessageParams], Awaitable[Any] | Any]
"""Takes the conversation; returns the model's text, a CreateMessageResult, or None or False: the person refuses."""
RootsSource = Sequence[str | os.PathLike[str] | Root] | Callable[[], Awaitable[Any] | Any]
"""Paths, `file:` URIs or Roots, or a function that gives them."""
MethodHandler = Callable[[dict[str, Any]], Awaitable[Any] | Any]
"""Takes the params of a request that the specification does not know; returns the result, an object."""
Middleware = Callable[[str, Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]

_REJECTED = -1  # "User rejected sampling request" (client/sampling, Error Handling)
MAX_PARALLEL = 8
"""How many questions are answered at once."""
_answering: ContextVar[tuple[Answers, ...]] = ContextVar("answering", default=())
"""Whose handlers run here, each called by the one before."""


class Answers:
    """Handlers by method. What has no handler is not declared, and is refused.

    elicit: for forms.  elicit_url: for pages to open.  sample: for completions; sample_tools, sample_context: it uses
    the tools, and the `include_context`, that come with one.  roots: the directories.  max_parallel: how many questions
    are answered at once; asking for the roots, and what is asked by a call that a handler makes, are not counted.

    A handler refuses with a JSON-RPC error of its choice by raising ProtocolError.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        *,
        elicit: ElicitHandler | None = None,
        elicit_url: ElicitHandler | None = None,
        sample: SampleHandler | None = None,
        sample_tools: bool = False,
        sample_context: bool = False,
        roots: RootsSource | None = None,
        max_parallel: int = MAX_PARALLEL,
    ):
        if max_parallel < 1:
            raise ConfigurationError("max_parallel is a number of questions, at least 1")
        self.elicit, self.elicit_url, self.sample = elicit, elicit_url, sample
        self.sample_tools, self.sample_context = sample_tools, sample_context
        self.roots = roots if roots is None or callable(roots) else as_roots(roots)
        self.methods: dict[str, MethodHandler] = {}
        self.middlewares: list[Middleware] = []
        self.declared: dict[str, Any] = {}
        self.turns = Turns(max_parallel)
        self._readers: dict[str, tuple[Any, Callable[[Any], Callable[[], Awaitable[Any]]]]] = {
            "elicitation/create": (ElicitParams, self._read_elicit),
            "sampling/createMessage": (CreateMessageParams, self._read_sample),
            "roots/list": (dict[str, Any], self._read_roots),
        }

    def declare(self, version: Version) -> dict[str, Any]:
        """The capabilities to send: exactly what there are handlers for, as far as `version` knows it."""
        features = FEATURES[version]
        self.declared = declared = {}
        modes = {"form": self.elicit, "url": self.elicit_url}
        able: dict[str, Any] = {mode: {} for mode, handler in modes.items() if handler and mode in features.elicitation}
        if able:
            declared["elicitation"] = able
        if self.sample is not None:
            extras = {"tools": self.sample_tools, "context": self.sample_context} if features.sampling_tools else {}
            declared["sampling"] = {name: {} for name, wanted in extras.items() if wanted}
        if self.roots is not None:
            # "`listChanged` indicates whether the client will emit notifications" (2025-11-25 client/roots)
            declared["roots"] = {} if version.is_modern else {"listChanged": True}
        return declared

    @property
    def nested(self) -> bool:
        """Whether one of these handlers runs here: what its own calls are asked must not wait for it to end."""
        return self in _answering.get()

    def read(self, method: str, params: Any) -> Question:
        """Take a question in. `params`: raw JSON.

        Raises: RemoteProtocolError: -32601 for a method without a handler, -32602 for params that cannot be read, or
        that want what was not declared.
        """
        kind, reader = self._readers.get(method, (dict[str, Any], partial(self._read_other, method)))
        try:
            question = msgspec.json.decode(params or b"{}", type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RemoteProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
        return Question(self, method, question, reader(question))

    def _read_elicit(self, question: ElicitParams) -> Callable[[], Awaitable[ElicitResult]]:
        mode = question.mode or "form"
        handler = self.elicit_url if mode == "url" else self.elicit
        if handler is None:
            # "a mode not declared in client capabilities: -32602" (2025-11-25 client/elicitation, Error Handling)
            known = self.declared.get("elicitation")
            code = METHOD_NOT_FOUND if known is None or mode in known else INVALID_PARAMS
            raise RemoteProtocolError(code, f"this client has no elicitation in {mode} mode")
        if mode == "url":
            if question.url is None:
                raise RemoteProtocolError(INVALID_PARAMS, "Invalid params: an elicitation in url mode has a url")
            return partial(self._elicit_url, handler, question)
        return partial(self._elicit, handler, question)

    async def _elicit(self, handler: ElicitHandler, question: ElicitParams) -> ElicitResult:
        schema = question.requested_schema or {}
        answer = await _call(handler, question)
        result = ElicitResult("accept", _yes(schema)) if answer is True else _elicit_result(answer)
        if result.action != "accept":
            return result
        content = with_defaults(schema, _as_json(result.content or {}))
        problems = check_content(schema, content)
        if problems:
            raise LocalProtocolError(INVALID_PARAMS, f"the answer breaks the schema: {'; '.join(problems)}")
        return ElicitResult("accept", content, result.meta)

    async def _elicit_url(self, handler: ElicitHandler, question: ElicitParams) -> ElicitResult:
        result = _elicit_result(await _call(handler, question))
        # "For URL mode: The `content` field is omitted" (client/elicitation, Response Actions)
        return ElicitResult(result.action, None, result.meta)

    def _read_sample(self, question: CreateMessageParams) -> Callable[[], Awaitable[CreateMessageResult]]:
        if self.sample is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, "this client has no sampling")
        # "The client MUST return an error if this field is provided but ClientCapabilities.sampling.tools is not
        # declared" (schema, CreateMessageRequestParams)
        if (question.tools is not None or question.tool_choice is not None) and not self.sample_tools:
            raise RemoteProtocolError(INVALID_PARAMS, "this client has no sampling with tools")
        return partial(self._sample, self.sample, question)

    async def _sample(self, handler: SampleHandler, question: CreateMessageParams) -> CreateMessageResult:
        result = await _call(handler, question)
        if isinstance(result, str):
            return answer(result)
        if isinstance(result, CreateMessageResult):
            return result
        if result is None or result is False:
            raise LocalProtocolError(_REJECTED, "User rejected sampling request")
        raise _unusable(result, "sample handler", "a text, a CreateMessageResult, or None or False to refuse")

    def _read_roots(self, question: Any) -> Callable[[], Awaitable[ListRootsResult]]:
        if self.roots is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, "this client has no roots")
        return partial(self._roots, self.roots)

    async def _roots(self, source: RootsSource) -> ListRootsResult:
        return ListRootsResult(as_roots(await _call(source) if callable(source) else source))

    def _read_other(self, method: str, params: dict[str, Any]) -> Callable[[], Awaitable[Any]]:
        handler = self.methods.get(method)
        if handler is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        return partial(self._other, handler, params)

    async def _other(self, handler: MethodHandler, params: dict[str, Any]) -> Any:
        result = await _call(handler, params)
        if isinstance(result, dict | msgspec.Struct):
            return result
        raise _unusable(result, "handler", "the result as a dict")


class Question:
    """One question that has been taken in. `queue` it at once, then `answer` it, which waits for its turn."""

    __slots__ = ("_answers", "_handler", "_turn", "method", "params")

    def __init__(self, answers: Answers, method: str, params: Any, handler: Callable[[], Awaitable[Any]]):
        self.method = method
        self.params = params
        self._answers = answers
        self._handler = handler
        self._turn: Turn | None = None

    def queue(self, *, nested: bool) -> None:
        """Take a place among the questions; it has to be answered then. nested: it is asked by a call that a handler
        makes, which has a place already."""
        self._turn = self._answers.turns.take(counted=not nested and self.method != "roots/list")

    async def answer(self) -> Any:
        """The result. Raises: LocalProtocolError for an answer that cannot be sent, and whatever the handler raises."""
        assert self._turn is not None
        async with self._turn:
            token = _answering.set((*_answering.get(), self._answers))
            try:
                call = self._handler
                for middleware in reversed(self._answers.middlewares):
                    call = partial(middleware, self.method, self.params, call)
                return await call()
            finally:
                _answering.reset(token)


async def _call(handler: Callable[..., Any], *args: Any) -> Any:
    """Call the host's own function, which may be a coroutine function."""
    value = handler(*args)
    return await value if inspect.isawaitable(value) else value


def _unusable(value: Any, who: str, what: str) -> LocalProtocolError:
    return LocalProtocolError(INTERNAL_ERROR, f"a {who} returns {what}, not {type(value).__name__}")


def _elicit_result(value: Any) -> ElicitResult:
    if isinstance(value, ElicitResult):
        return value
    if isinstance(value, Mapping):
        return ElicitResult("accept", dict(value))
    if value is None:
        return ElicitResult("cancel")
    if isinstance(value, bool):
        return ElicitResult("accept" if value else "decline")
    if value in ("accept", "decline", "cancel"):
        return ElicitResult(value)
    raise _unusable(value, "elicit handler", "a dict, True, False, None, an action or an ElicitResult")


def _yes(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a plain yes: True where one field is required, which is a boolean. Defaults fill in the rest."""
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, Mapping) and isinstance(required, list) and len(required) == 1:
        field = properties.get(required[0]) if isinstance(required[0], str) else None
        if isinstance(field, Mapping) and field.get("type") == "boolean":
            return {required[0]: True}
    return {}


def _as_json(content: dict[str, Any]) -> dict[str, Any]:
    """The content as the server will see it: dates as text, tuples as lists. Raises: LocalProtocolError."""
    try:
        return msgspec.json.decode(encode(content), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(INTERNAL_ERROR, f"the answer has no form in JSON: {error}") from error


def as_roots(places: Any) -> list[Root]:
    """Paths, URIs and Roots as Roots. Raises: ConfigurationError: "`uri` MUST be a `file://` URI" (client/roots)."""
    if isinstance(places, str | bytes | os.PathLike | Root):
        raise ConfigurationError(f"roots is a list of paths or file:// URIs; write [{places!r}]")
    return [place if isinstance(place, Root) else Root(_uri(os.fsdecode(place))) for place in places]


def _uri(text: str) -> str:
    """A path as a URI, without its `..`; a URI as it is."""
    if "://" not in text:
        return Path(os.path.abspath(text)).as_uri()
    if text.startswith("file://"):
        return text
    raise ConfigurationError(f"{text!r} is no root: give a path, or a URI that begins file://")
