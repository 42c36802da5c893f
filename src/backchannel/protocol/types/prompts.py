"""Prompts (server/prompts)."""

from __future__ import annotations

import msgspec

from .base import Icon, Meta, Role, Wire, meta
from .content import AnyContent, UnknownContent, decode_content


class PromptArgument(Wire):
    """One argument of a prompt. Its value is a string."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Wire):
    """A prompt as `prompts/list` shows it."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = meta()


class ListPromptsResult(Wire):
    """One page of prompts. `ttl_ms` in milliseconds."""

    prompts: list[Prompt]
    next_cursor: str | None = None
    ttl_ms: int | None = None
    cache_scope: str | None = None
    meta: Meta | None = meta()


class PromptMessage(Wire):
    """One message of a prompt."""

    role: Role
    content: AnyContent | UnknownContent


class GetPromptResult(Wire):
    """The messages of a prompt."""

    messages: list[PromptMessage]
    description: str | None = None
    meta: Meta | None = meta()


class _LooseMessage(Wire):
    role: Role
    content: msgspec.Raw


class _LooseResult(Wire):
    messages: list[_LooseMessage]
    description: str | None = None
    meta: Meta | None = meta()


_decoder = msgspec.json.Decoder(_LooseResult)


def decode_get_prompt_result(raw: bytes | msgspec.Raw) -> GetPromptResult:
    """Decode a result, keeping content blocks of unknown types.

    Raises: msgspec.ValidationError if it has not the shape of a GetPromptResult.
    """
    loose = _decoder.decode(raw)
    messages = [PromptMessage(message.role, decode_content(message.content)) for message in loose.messages]
    return GetPromptResult(messages, loose.description, loose.meta)
