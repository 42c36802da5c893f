"""A registered function of the author's: what tools, prompts and resources have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any

from ..errors import ConfigurationError
from .context import Context
from .exchange import Principal
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
    ):
        if timeout is not None:
            number("timeout", timeout, positive=True)
        if visible is not None:
            takes("visible", visible, "principal")
        self.function = function
        self.signature = signature
        self.questions = questions
        self.timeout = timeout
        self.visible = visible

    def shown(self, principal: Principal | None) -> bool:
        """Whether it is there for this principal, who else can neither see nor use it."""
        return self.visible is None or self.visible(principal)

    @property
    def threaded(self) -> bool:
        """Whether the function runs in a worker thread."""
        return not self.signature.is_async

    async def answer(self, context: Context, threads: Threads) -> Any:
        """The result of the request behind `context`, or the InputRequired that the function returned. threads: bounds
        the worker threads of synchronous functions.

        Raises: what the function raises.
        """
        params = context.exchange.params
        arguments = self.bind(params)
        if self.questions.names:
            assert context.exchange.inputs is not None
            await self.questions.answer(context, context.exchange.inputs, arguments)
        value = await self.run(context, arguments, threads)
        return value if isinstance(value, InputRequired) else self.result(params, value)

    def bind(self, params: Any) -> dict[str, Any]:
        """The function's arguments, from the params of the request. Raises: what the request is answered with."""
        raise NotImplementedError

    def result(self, params: Any, value: Any) -> Any:
        """The result of the request, from what the function returned."""
        raise NotImplementedError

    def run(self, context: Context, arguments: dict[str, Any], threads: Threads) -> Awaitable[Any]:
        """What the function returns for these arguments, to be awaited. No coroutine of its own lies in between."""
        if self.signature.context is not None:
            arguments[self.signature.context] = context
        if self.threaded:
            call = partial(self.function, **arguments)
            return threads.run(call)
        value = self.function(**arguments)
        return value if isawaitable(value) else _given(value)


async def _given(value: Any) -> Any:
    """What a wrapper of an async function answers by itself."""
    return value


def name_of(function: Callable[..., Any], name: str | None, what: str) -> str:
    """The name given, or the function's. Raises: ConfigurationError if there is none."""
    found = name or getattr(function, "__name__", "")
    if not found or found == "<lambda>":
        raise ConfigurationError(f"the {what} {function!r} needs a name=")
    return str(found)


def summary_of(function: Callable[..., Any]) -> str | None:
    """The docstring without its section on arguments, which the schema carries."""
    return doc_of(function).partition("\n\nArgs:")[0].strip() or None
