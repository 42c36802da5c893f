"""The one dispatcher for everything a server asks of the client: reverse calls of the session-based protocol, and input
requests of the stateless one."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio.to_thread

from ..errors import INVALID_PARAMS, METHOD_NOT_FOUND, ConfigurationError, LocalProtocolError, RemoteProtocolError
from ..protocol.conversation import problem
from ..protocol.types.elicitation import ElicitParams
from ..protocol.types.roots import Root
from ..protocol.types.sampling import CreateMessageParams, CreateMessageResult
from ..protocol.versions import FEATURES, Version
from .asked import Asked, as_roots
from .onion import onion
from .sampled import fitted
from .turns import Turn, Turns

ElicitHandler = Callable[[ElicitParams], Awaitable[Any] | Any]
"""Takes the question; returns the content as a dict (accepted), True (accepted: yes, where the only required field is a
boolean, and the form's defaults), None or "cancel", False or "decline", or an ElicitResult. For a page to open, True is
the person's consent, and "done" says besides that they are done there."""
SampleHandler = Callable[[CreateMessageParams], Awaitable[Any] | Any]
"""Takes the conversation; returns the model's text, a CreateMessageResult, or None or False: the person refuses."""
RootsSource = Sequence[str | os.PathLike[str] | Root] | Callable[[], Awaitable[Any] | Any]
"""Paths, `file:` URIs or Roots, or a function that gives them."""
MethodHandler = Callable[[dict[str, Any]], Awaitable[Any] | Any]
"""Takes the params of a request that the specification does not know; returns the result, an object."""
AnswerMiddleware = Callable[[Asked, Callable[[Asked], Awaitable[Any]]], Awaitable[Any]]

MAX_PARALLEL = 8
"""How many questions are answered at once."""
_FIELDS = 8
"""How many fields of a form a message shows."""
_answering: ContextVar[tuple[Answers, ...]] = ContextVar("answering", default=())
"""Whose handlers run here, each called by the one before."""


class Answers:
    """Handlers by method. What has no handler is not declared, and is refused.

    elicit: for forms.  elicit_url: for pages to open.  sample: for completions; sample_tools, sample_context: it uses
    the tools, and the `include_context`, that come with one.  roots: the directories.  max_parallel: how many questions
    are answered at once; asking for the roots, and what is asked by a call that a handler makes, are not counted.

    A handler that is no coroutine function runs in a worker thread. A handler refuses with a JSON-RPC error of its
    choice by raising ProtocolError.

    `version`: of the answers, once one is spoken.  `open`: how many questions there are now.  `middlewares`: around
    each answer, the outermost first.

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
        for name, handler in (("elicit", elicit), ("elicit_url", elicit_url), ("sample", sample)):
            if handler is not None and not callable(handler):
                text = f"{name} is a function that takes a question and returns the answer, not {handler!r:.100}"
                raise ConfigurationError(text)
        self.elicit, self.elicit_url, self.sample = elicit, elicit_url, sample
        self.sample_tools, self.sample_context = sample_tools, sample_context
        self.roots = roots if roots is None or callable(roots) else as_roots(roots)
        self.methods: dict[str, MethodHandler] = {}
        self.middlewares: list[AnswerMiddleware] = []
        self.version: Version | None = None
        self.declared: dict[str, Any] = {}
        self._declared: dict[tuple[Any, ...], dict[str, Any]] = {}  # by what it depends on
        self.turns = Turns(max_parallel)
        self.open = 0

    def declare(self, version: Version, *, by_hand: bool = False) -> dict[str, Any]:
        """The capabilities to send: exactly what there are handlers for, as far as `version` knows it.

        by_hand: the caller of this one request answers; any elicitation can be answered, be it by a no.
        """
        handlers = (self.elicit is None, self.elicit_url is None, self.sample is None, self.roots is None)
        known = (version, by_hand, handlers, self.sample_tools, self.sample_context)
        declared = self._declared.get(known)
        if declared is None:
            declared = self._declared[known] = self._declare(version, by_hand)
        if not by_hand:
            self.declared = declared
        return declared

    def _declare(self, version: Version, by_hand: bool) -> dict[str, Any]:
        features = FEATURES[version]
        declared: dict[str, Any] = {}
        modes = {"form": self.elicit is not None or by_hand, "url": self.elicit_url is not None or by_hand}
        able: dict[str, Any] = {mode: {} for mode, given in modes.items() if given and mode in features.elicitation}
        if able:
            # An empty object is forms alone, which is all that there was before 2025-11-25.
            declared["elicitation"] = able if features.elicitation_submodes else {}
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
        return self.take(Asked.read(method, params))

    def take(self, asked: Asked) -> Question:
        """Take a question in that was read. Raises: as `read`."""
        return Question(self, asked, self._handler(asked.method, asked.params))

    def _handler(self, method: str, params: Any) -> Callable[[Any], Awaitable[Any]]:
        """What gives the host's answer to params."""
        if method == "elicitation/create":
            return partial(_call, self._elicitor(params.mode or "form"))
        if method == "sampling/createMessage":
            return partial(_call, self._sampler(params))
        if method == "roots/list":
            if self.roots is None:
                raise RemoteProtocolError(METHOD_NOT_FOUND, "this client has no roots")
            return partial(_get, self.roots)
        handler = self.methods.get(method)
        if handler is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        return partial(_call, handler)

    def _elicitor(self, mode: str) -> ElicitHandler:
        handler = self.elicit_url if mode == "url" else self.elicit
        if handler is None:
            # "a mode not declared in client capabilities: -32602" (2025-11-25 client/elicitation, Error Handling)
            known = self.declared.get("elicitation")
            code = METHOD_NOT_FOUND if known is None or mode in (known or {"form": {}}) else INVALID_PARAMS
            raise RemoteProtocolError(code, f"this client has no elicitation in {mode} mode")
        return handler

    def _sampler(self, question: CreateMessageParams) -> SampleHandler:
        if self.sample is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, "this client has no sampling")
        # "The client MUST return an error if this field is provided but ClientCapabilities.sampling.tools is not
        # declared" (schema, CreateMessageRequestParams)
        if (question.tools is not None or question.tool_choice is not None) and not self.sample_tools:
            raise RemoteProtocolError(INVALID_PARAMS, "this client has no sampling with tools")
        # "Tool result missing in request", "Tool results mixed with other content" (client/sampling, Error Handling)
        if (wrong := problem(question.messages)) is not None:
            raise RemoteProtocolError(INVALID_PARAMS, wrong)
        return self.sample


class Question:
    """One question that has been taken in. `queue` it at once, then `answer` it, which waits for its turn."""

    __slots__ = ("_answers", "_handler", "_turn", "asked")

    def __init__(self, answers: Answers, asked: Asked, handler: Callable[[Any], Awaitable[Any]]):
        self.asked = asked
        self._answers = answers
        self._handler = handler
        self._turn: Turn | None = None

    @property
    def method(self) -> str:
        """Of the question."""
        return self.asked.method

    def queue(self, *, nested: bool) -> None:
        """Take a place among the questions; it has to be answered then. nested: it is asked by a call that a handler
        makes, which has a place already."""
        self._turn = self._answers.turns.take(counted=not nested and self.method != "roots/list")

    async def answer(self) -> Any:
        """The result. Raises: LocalProtocolError for an answer that cannot be sent, and whatever the handler raises."""
        assert self._turn is not None
        self._answers.open += 1
        try:
            async with self._turn:
                token = _answering.set((*_answering.get(), self._answers))
                try:
                    return await onion(self._answers.middlewares, self._result)(self.asked)
                finally:
                    _answering.reset(token)
        finally:
            self._answers.open -= 1

    async def _result(self, asked: Asked) -> Any:
        value = await self._handler(asked.params)
        try:
            result = asked.result(value)
        except LocalProtocolError as error:
            if not isinstance(asked.params, ElicitParams) or value is None or value is False:
                raise
            raise LocalProtocolError(error.code, f"{error}; {_returned(asked.params)}") from error
        version = self._answers.version
        return fitted(result, version) if isinstance(result, CreateMessageResult) and version is not None else result


def _returned(question: ElicitParams) -> str:
    """What a handler of an elicitation returns, for one that returned something else."""
    if question.mode == "url":
        return "the Client's elicit_url returned it: return True, False or None"
    schema = question.requested_schema or {}
    fields = schema.get("required") or list(schema.get("properties") or ())
    form = ", ".join(f'"{name}": ...' for name in fields[:_FIELDS])
    return f"the Client's elicit returned it: return {{{form}}}, False or None"


async def _call(handler: Callable[..., Any], *args: Any) -> Any:
    """Call the host's own function. One that is no coroutine function may block, say for a person, so it gets a thread;
    that goes on where nobody waits for the answer any more. What it returns may be awaitable all the same."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004
        return await handler(*args)
    (value,) = await in_thread(lambda: (handler(*args),))  # in a tuple, for trio takes no coroutine from a thread
    return await value if inspect.isawaitable(value) else value


async def in_thread(function: Callable[[], Any]) -> Any:
    """Call it in a worker thread, of which there are as many as there are questions."""
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(math.inf))


async def _get(roots: RootsSource, params: Any) -> Any:
    return await _call(roots) if callable(roots) else roots
