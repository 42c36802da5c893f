"""A registered function of the author's: what tools, prompts and resources have in common."""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import partial
from inspect import CO_COROUTINE, isawaitable
from types import CoroutineType, FunctionType, MethodType
from typing import Any

from ..errors import ConfigurationError, UrlRequired
from .context import Context
from .exchange import Exchange, Principal
from .explicit import InputRequired
from .options import number, takes
from .parameters import ParameterQuestions
from .signature import Signature, doc_of
from .threads import Threads

Visible = Callable[[Principal | None], bool]


class Handler:
    """A function, its signature, what its parameters ask, its limit of time in seconds, and for whom it is there."""

    def __init__(
        self,
        function: Callable[..., Any],
        signature: Signature,
        questions: ParameterQuestions,
        timeout: float | None = None,
        visible: Visible | None = None,
        inline: bool = False,
    ):
        if inline and signature.is_async:
            raise ConfigurationError("inline= is for functions that are not async, and would run in a worker thread")
        if timeout is not None:
            number("timeout", timeout, positive=True)
        if visible is not None:
            takes("visible", visible, "principal")
        self.function = function
        self.signature = signature
        self.questions = questions
        self.timeout = timeout
        self.visible = visible
        self._asks = bool(questions.names)
        self.threaded = not signature.is_async and not inline
        """Whether the function runs in a worker thread."""
        self.advised = False
        """Whether its author was told what it does around its questions."""
        self._inline = inline
        self.at_once = (inline or _never_waits(function)) and signature.context is None and not self._asks
        """Whether a call is done when the function is: it waits for nothing, and knows nobody to ask or tell."""

    def shown(self, principal: Principal | None) -> bool:
        """Whether it is there for this principal, who else can neither see nor use it."""
        return self.visible is None or self.visible(principal)

    async def answer(self, context: Context, exchange: Exchange, threads: Threads) -> Any:
        """The result of the request behind `context`, or the InputRequired that the function returned. exchange: that
        request.  threads: runs synchronous functions.

        Raises: what the function raises.
        """
        if exchange.early is not None:
            early, exchange.early = exchange.early, None
            if isinstance(early, BaseException):
                raise early
            return early
        params, signature = exchange.params, self.signature
        arguments = self.bind(params)
        if self._asks:
            assert exchange.inputs is not None
            await self.questions.answer(context, exchange.inputs, arguments)
        if signature.context is not None:
            arguments[signature.context] = context
        if self.threaded:
            value = await threads.run(partial(self.function, **arguments))
        else:
            value = self.function(**arguments)
            if isinstance(value, CoroutineType) or isawaitable(value):  # a wrapper may give the result itself
                value = await value
        return value if isinstance(value, InputRequired) else self.result(params, value)

    def now(self, exchange: Exchange) -> Any:
        """The result of a request, where that can be had `at_once`. What takes more to answer (a question, or what ends
        more than the function) is left in `exchange.early`, for `answer`.

        Raises: what the function raises.
        """
        try:
            value = self.function(**self.bind(exchange.params))
            if not self._inline:
                value = _end(value)
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, UrlRequired):
                raise
            exchange.early = error
            return None
        if isinstance(value, InputRequired):
            exchange.early = value
            return None
        return self.result(exchange.params, value)

    def bind(self, params: Any) -> dict[str, Any]:
        """The function's arguments, from the params of the request. Raises: what the request is answered with."""
        raise NotImplementedError

    def result(self, params: Any, value: Any) -> Any:
        """The result of the request, from what the function returned."""
        raise NotImplementedError


def _never_waits(function: Any) -> bool:
    """Whether calling it gives a coroutine that has nowhere to wait: there is no `await` in its code that could."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    if not isinstance(function, FunctionType) or not function.__code__.co_flags & CO_COROUTINE:
        return False
    return all(instruction.opname != "YIELD_VALUE" for instruction in dis.get_instructions(function.__code__))


def _end(coroutine: Any) -> Any:
    """What a coroutine returns that never waits. Raises: what it raises."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a coroutine waits that has no await")


def name_of(function: Callable[..., Any], name: str | None, what: str) -> str:
    """The name given, or the function's. Raises: ConfigurationError if there is none."""
    found = name or getattr(function, "__name__", "")
    if not found or found == "<lambda>":
        raise ConfigurationError(f"the {what} {function!r} needs a name=")
    return str(found)


def summary_of(function: Callable[..., Any]) -> str | None:
    """The docstring without its section on arguments, which the schema carries."""
    return doc_of(function).partition("\n\nArgs:")[0].strip() or None
