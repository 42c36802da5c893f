"""Tools: functions that the client's model calls (server/tools)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..errors import INVALID_PARAMS, INVALID_REQUEST, ConfigurationError, LocalProtocolError, ToolError
from ..protocol.param_headers import ParamHeader, param_headers
from ..protocol.types.base import Icon
from ..protocol.types.requests import CallToolParams
from ..protocol.types.tools import CallToolResult, Tool, ToolAnnotations
from .auth.scopes import scopes_of, written
from .context import Context
from .exchange import Exchange, Principal
from .explicit import InputRequired
from .given import GivenOutput, check_input
from .handler import Handler, Visible, name_of, summary_of
from .pages import Pages
from .parameters import ParameterQuestions
from .results import to_result
from .signature import BadArguments, Signature


class ToolHandler(Handler):
    """A registered tool: its entry in the list, and its function.

    visible: whom the tool is shown to, and who may call it.  scopes: that a principal needs to call it.  headers: its
    arguments that HTTP mirrors.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: list[Icon] | None = None,
        timeout: float | None = None,
        inline: bool = False,
        inline_refs: bool = False,
        visible: Visible | None = None,
        scopes: Sequence[str] = (),
        meta: dict[str, Any] | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
    ):
        questions = ParameterQuestions.of(function)
        if input_schema is not None:
            signature: Signature = check_input(function, input_schema, Context, questions.names)
        else:
            signature = Signature.of(
                function,
                context_type=Context,
                inline_refs=inline_refs,
                exclude=questions.names,
                passes=(InputRequired,),
                describe_result=output_schema is None,
            )
        if output_schema is not None:
            signature.output = GivenOutput(output_schema, getattr(function, "__name__", repr(function)))
        super().__init__(function, signature, questions, timeout, visible, inline)
        self.scopes = scopes_of("scopes", scopes)
        output = self.signature.output
        self.tool = Tool(
            name_of(function, name, "tool"),
            self.signature.input_schema,
            title,
            description or summary_of(function),
            output.schema if output is not None else None,
            annotations,
            icons,
            meta,
        )
        try:
            self.headers: tuple[ParamHeader, ...] = param_headers(self.tool.input_schema)
        except ValueError as error:
            raise ConfigurationError(f"the tool {self.tool.name!r}: {error}") from error

    def renamed(self, prefix: str) -> ToolHandler:
        """The same under another name."""
        other = copy.copy(self)
        other.tool = msgspec.structs.replace(self.tool, name=prefix + self.tool.name)
        return other

    def bind(self, params: CallToolParams) -> dict[str, Any]:
        try:
            return self.signature.bind(params.arguments)
        except BadArguments as error:
            raise ToolError(str(error)) from error

    def result(self, params: CallToolParams, value: Any) -> CallToolResult:
        return to_result(value, self.signature.output)


class Tools:
    """The tools of a server, by name, in the order in which they were added."""

    def __init__(self) -> None:
        self.handlers: dict[str, ToolHandler] = {}
        self.personal = False  # whether the list depends on who asks
        self.scoped = False  # whether some need scopes, or did
        self.pages = Pages()

    def add(self, handler: ToolHandler) -> None:
        """Register a tool. Raises: ConfigurationError if the name is taken."""
        if handler.tool.name in self.handlers:
            raise ConfigurationError(f"there is a tool {handler.tool.name!r} already")
        self.scoped |= bool(handler.scopes)  # first, as a request may come meanwhile
        self.personal |= handler.visible is not None  # first: another thread may list
        self.handlers[handler.tool.name] = handler
        self.pages = Pages()

    def remove(self, name: str) -> None:
        """Forget a tool. Raises: KeyError."""
        del self.handlers[name]
        self.personal = any(handler.visible is not None for handler in self.handlers.values())
        self.pages = Pages()

    def find(self, exchange: Exchange) -> ToolHandler:
        """The tool that a call names. Raises: LocalProtocolError if there is none (-32602), or its scopes are missing
        (-32600)."""
        params: CallToolParams = exchange.params
        handler = self.handlers.get(params.name)
        if handler is None or (handler.visible is not None and not handler.shown(exchange.principal)):
            raise LocalProtocolError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        if handler.scopes and exchange.principal is not None and not handler.scopes <= exchange.principal.scopes:
            text = f"Insufficient scope: it needs {written(handler.scopes)}"  # over HTTP a challenge came before that
            raise LocalProtocolError(INVALID_REQUEST, text)
        return handler

    def shown(self, principal: Principal | None) -> dict[str, Tool]:
        """The entries that this principal sees."""
        return {name: handler.tool for name, handler in self.handlers.items() if handler.shown(principal)}
