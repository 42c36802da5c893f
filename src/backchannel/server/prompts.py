"""Prompts: messages that a person chooses, filled in by a function (server/prompts)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import INVALID_PARAMS, ConfigurationError, LocalProtocolError
from ..protocol.types.base import Icon, Role
from ..protocol.types.content import ContentBlock, UnknownContent
from ..protocol.types.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage
from ..protocol.types.requests import GetPromptParams
from .context import Context
from .exchange import Exchange, Principal
from .handler import Handler, Visible, name_of, summary_of
from .pages import Pages
from .parameters import ParameterQuestions
from .results import Media, text_content
from .signature import BadArguments, Signature


class PromptHandler(Handler):
    """A registered prompt. Its arguments are strings on the wire; a parameter of another type reads its string as
    JSON."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        timeout: float | None = None,
        visible: Visible | None = None,
        meta: dict[str, Any] | None = None,
    ):
        questions = ParameterQuestions.of(function)
        signature = Signature.of(
            function, context_type=Context, exclude=questions.names, describe_result=False, lenient=True
        )
        super().__init__(function, signature, questions, timeout, visible)
        schema = signature.input_schema
        required = schema.get("required", ())
        arguments = [
            PromptArgument(key, node.get("title"), node.get("description"), key in required)
            for key, node in schema.get("properties", {}).items()
        ]
        self.prompt = Prompt(
            name_of(function, name, "prompt"),
            title,
            description or summary_of(function),
            arguments or None,
            icons,
            meta,
        )

    def renamed(self, prefix: str) -> PromptHandler:
        """The same under another name."""
        other = copy.copy(self)
        other.prompt = msgspec.structs.replace(self.prompt, name=prefix + self.prompt.name)
        return other

    def bind(self, params: GetPromptParams) -> dict[str, Any]:
        try:
            return self.signature.bind(msgspec.json.encode(params.arguments or {}))
        except BadArguments as error:
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error

    def result(self, params: GetPromptParams, value: Any) -> GetPromptResult:
        if isinstance(value, GetPromptResult):
            value.messages = [_message(item) for item in value.messages]
            return value
        items = value if isinstance(value, list | tuple) else [value]
        return GetPromptResult([_message(item) for item in items], self.prompt.description)


def _message(item: Any) -> PromptMessage:
    """A message: the author's, or one of the person's with this text or content."""
    role: Role = "user"
    if isinstance(item, PromptMessage):
        role, item = item.role, item.content
    if isinstance(item, str):
        item = text_content(item)
    elif isinstance(item, Media):
        item = item.block()
    if not isinstance(item, ContentBlock | UnknownContent):
        kind = type(item).__name__
        raise TypeError(f"a prompt returns text, content, PromptMessages or a list of these, not {kind}")
    return PromptMessage(role, item)


class Prompts:
    """The prompts of a server, by name, in the order in which they were added."""

    def __init__(self) -> None:
        self.handlers: dict[str, PromptHandler] = {}
        self.personal = False  # whether the list depends on who asks
        self.pages = Pages()

    def add(self, handler: PromptHandler) -> None:
        """Register a prompt. Raises: ConfigurationError if the name is taken."""
        if handler.prompt.name in self.handlers:
            raise ConfigurationError(f"there is a prompt {handler.prompt.name!r} already")
        self.personal |= handler.visible is not None  # first: another thread may list
        self.handlers[handler.prompt.name] = handler
        self.pages = Pages()

    def remove(self, name: str) -> None:
        """Forget a prompt. Raises: KeyError."""
        del self.handlers[name]
        self.personal = any(handler.visible is not None for handler in self.handlers.values())
        self.pages = Pages()

    def shown(self, principal: Principal | None) -> dict[str, Prompt]:
        """The entries that this principal sees."""
        return {name: handler.prompt for name, handler in self.handlers.items() if handler.shown(principal)}

    def find(self, exchange: Exchange) -> PromptHandler:
        """The prompt that a request names. Raises: LocalProtocolError (-32602) if there is none."""
        handler = self.handlers.get(exchange.params.name)
        if handler is None or not handler.shown(exchange.principal):
            raise LocalProtocolError(INVALID_PARAMS, f"Unknown prompt: {exchange.params.name[:200]}")
        return handler
