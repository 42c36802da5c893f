"""Tools: functions that the client's model calls (server/tools)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

import anyio.to_thread

from ..errors import INVALID_PARAMS, ConfigurationError, LocalProtocolError
from ..protocol.types.requests import CallToolParams, PageParams
from ..protocol.types.tools import CallToolResult, ListToolsResult, Tool, ToolAnnotations
from .context import Context
from .exchange import Exchange
from .results import error_result, to_result
from .signature import BadArguments, Signature


class ToolHandler:
    """A registered tool: its entry in the list, and its function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        timeout: float | None = None,
        inline_refs: bool = False,
        meta: dict[str, Any] | None = None,
    ):
        self.function = function
        self.timeout = timeout
        self.signature = Signature.of(function, context_type=Context, inline_refs=inline_refs)
        name = name or getattr(function, "__name__", "")
        if not name or name == "<lambda>":
            raise ConfigurationError(f"the tool {function!r} needs a name=")
        output = self.signature.output
        self.tool = Tool(
            name,
            self.signature.input_schema,
            title,
            description or _summary(function),
            output.schema if output is not None else None,
            annotations,
            meta=meta,
        )

    @property
    def threaded(self) -> bool:
        """Whether the function runs in a worker thread."""
        return not self.signature.is_async


def _summary(function: Callable[..., Any]) -> str | None:
    """The docstring without its section on arguments, which the schema carries."""
    text = (function.__doc__ or "").strip()
    lines = text.partition("\n\nArgs:")[0].splitlines()
    return "\n".join(line.strip() for line in lines) or None


class Tools:
    """The tools of a server, by name, in the order in which they were added."""

    def __init__(self) -> None:
        self.handlers: dict[str, ToolHandler] = {}

    def add(self, handler: ToolHandler) -> None:
        """Register a tool. Raises: ConfigurationError if the name is taken."""
        if handler.tool.name in self.handlers:
            raise ConfigurationError(f"there is a tool {handler.tool.name!r} already")
        self.handlers[handler.tool.name] = handler

    def remove(self, name: str) -> None:
        """Forget a tool. Raises: KeyError."""
        del self.handlers[name]

    def find(self, exchange: Exchange) -> ToolHandler:
        """The tool that a call names. Raises: LocalProtocolError (-32602) if there is none."""
        params: CallToolParams = exchange.params
        handler = self.handlers.get(params.name)
        if handler is None:
            raise LocalProtocolError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        return handler

    async def list(self, params: PageParams) -> ListToolsResult:
        """`tools/list`."""
        return ListToolsResult([handler.tool for handler in self.handlers.values()])

    async def call(
        self, handler: ToolHandler, context: Context, params: CallToolParams, threads: anyio.CapacityLimiter
    ) -> CallToolResult:
        """`tools/call`: bind the arguments, run the function, make a result of what it returns.

        threads: bounds the worker threads of synchronous functions.
        """
        signature = handler.signature
        try:
            arguments = signature.bind(params.arguments or None)
        except BadArguments as error:
            return error_result(str(error))
        if signature.context is not None:
            arguments[signature.context] = context
        if signature.is_async:
            value = handler.function(**arguments)
            if isawaitable(value):  # a wrapper of an async function may answer by itself
                value = await value
        else:
            call = partial(handler.function, **arguments)
            value = await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=threads)
        return to_result(value, signature.output)
