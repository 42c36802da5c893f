"""A registered function of the author's: what tools, prompts and resources have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from ..errors import ConfigurationError
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
        self._asks = bool(questions.names)
        self.threaded = not signature.is_async
        """Whether the function runs in a worker thread."""

    def shown(self, principal: Principal | None) -> bool:
        """Whether it is there for this principal, who else can neither see nor use it."""
        return self.visible is None or self.visible(principal)

    async def answer(self, context: Context, exchange: Exchange, threads: Threads) -> Any:
        """The result of the request behind `context`, or the InputRequired that the function returned. exchange: that
        request.  threads: runs synchronous functions.

        Raises: what the function raises.
        """
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

    def bind(self, params: Any) -> dict[str, Any]:
        """The function's arguments, from the params of the request. Raises: what the request is answered with."""
        raise NotImplementedError

    def result(self, params: Any, value: Any) -> Any:
        """The result of the request, from what the function returned."""
        raise NotImplementedError


def name_of(function: Callable[..., Any], name: str | None, what: str) -> str:
    """The name given, or the function's. Raises: ConfigurationError if there is none."""
    found = name or getattr(function, "__name__", "")
    if not found or found == "<lambda>":
        raise ConfigurationError(f"the {what} {function!r} needs a name=")
    return str(found)


def summary_of(function: Callable[..., Any]) -> str | None:
    """The docstring without its section on arguments, which the schema carries."""
    return doc_of(function).partition("\n\nArgs:")[0].strip() or None
