"""Sampling: completions by the client's model (client/sampling). Deprecated since 2026-07-28: call a provider's API."""

from __future__ import annotations

from typing import Any, Literal

from .base import Meta, Role, Wire, meta
from .content import SamplingContent, TextContent, ToolUseContent
from .tools import Tool


class SamplingMessage(Wire):
    """One message of the conversation: one content block, or a list of them."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    meta: Meta | None = meta()

    @property
    def blocks(self) -> list[SamplingContent]:
        """The content, always as a list."""
        return self.content if isinstance(self.content, list) else [self.content]


class ModelHint(Wire):
    """Part of a model's name."""

    name: str | None = None


class ModelPreferences(Wire):
    """What kind of model is wanted. Priorities from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(Wire):
    """Whether the model may, must, or must not use the tools."""

    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageParams(Wire):
    """Parameters of `sampling/createMessage`. `max_tokens`: the most tokens the model may produce."""

    messages: list[SamplingMessage]
    max_tokens: int
    model_preferences: ModelPreferences | None = None
    system_prompt: str | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    meta: Meta | None = meta()


class CreateMessageResult(Wire):
    """The model's message: `content` is one block, or a list of them when the model used tools.

    stop_reason: "endTurn", "stopSequence", "maxTokens", "toolUse" or anything that the client says, if it does.
    """

    role: Role
    content: SamplingContent | list[SamplingContent]
    model: str
    stop_reason: str | None = None
    meta: Meta | None = meta()

    @property
    def blocks(self) -> list[SamplingContent]:
        """The content, always as a list."""
        return self.content if isinstance(self.content, list) else [self.content]

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    @property
    def tool_uses(self) -> list[ToolUseContent]:
        """The tools that the model wants called, each of which has a `result` to go on with."""
        return [block for block in self.blocks if isinstance(block, ToolUseContent)]

    @property
    def source(self) -> Literal["client", "server"]:
        """Whose model it was: the client's, or the server's own (`Server(sampler=)`)."""
        return "client"


class OwnMessageResult(CreateMessageResult):
    """What the server's own model produced, where the client's cannot be asked. On the wire it looks the same."""

    @property
    def source(self) -> Literal["client", "server"]:
        return "server"


def answer(text: str, model: str = "unknown", stop_reason: str = "endTurn") -> CreateMessageResult:
    """A CreateMessageResult of one text: what a sampling callback returns most of the time."""
    return CreateMessageResult("assistant", TextContent(text), model, stop_reason)
