"""Tools (server/tools)."""

from __future__ import annotations

from typing import Any

import msgspec

from .base import Icon, Meta, Wire, meta
from .content import AnyContent, TextContent, UnknownContent, decode_content


class ToolAnnotations(Wire):
    """Hints about what a tool does. Untrusted, unless the server is trusted."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Tool(Wire):
    """A tool as `tools/list` shows it."""

    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = meta()


class ListToolsResult(Wire):
    """One page of tools. `ttl_ms` in milliseconds."""

    tools: list[Tool]
    next_cursor: str | None = None
    ttl_ms: int | None = None
    cache_scope: str | None = None
    meta: Meta | None = meta()


def _no_blocks() -> list[AnyContent | UnknownContent]:
    return []  # not `list`, whose empty value msgspec would leave out; every version requires the member


class CallToolResult(Wire):
    """What a tool gave: content blocks, and `structured_content` where the tool has an output schema. It is read with
    `decode_call_tool_result`.

    `is_error`: the tool ran and failed; the text says why, for the model to read.
    """

    content: list[AnyContent | UnknownContent] = msgspec.field(default_factory=_no_blocks)
    structured_content: Any = msgspec.UNSET
    is_error: bool = False
    meta: Meta | None = meta()

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


class CompleteToolResult(Wire):
    """The same with what the stateless protocol adds (basic/index, Per-response protocol fields)."""

    content: list[Any]
    structured_content: Any = msgspec.UNSET
    is_error: bool = False
    result_type: str = ""
    meta: Meta | None = meta()


class _LooseResult(Wire):
    content: list[msgspec.Raw] = msgspec.field(default_factory=list)
    structured_content: Any = msgspec.UNSET
    is_error: bool | None = None
    meta: Meta | None = meta()


_decoder = msgspec.json.Decoder(_LooseResult)


def decode_call_tool_result(raw: bytes | msgspec.Raw) -> CallToolResult:
    """Decode a result, keeping content blocks of unknown types.

    Raises: msgspec.ValidationError if it has not the shape of a CallToolResult.
    """
    loose = _decoder.decode(raw)
    content = [decode_content(block) for block in loose.content]
    return CallToolResult(content, loose.structured_content, loose.is_error or False, loose.meta)
