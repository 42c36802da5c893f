"""Content for people, and results as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from ..protocol.types.content import EmbeddedResource, ResourceLink, UnknownContent


def block_text(block: Any) -> str:
    """A content block for people: text as it is, anything else by its kind."""
    if isinstance(block, UnknownContent):
        return block.raw.decode()
    if isinstance(block, ResourceLink):
        return f"[{block.name}: {block.uri}]"
    if isinstance(block, EmbeddedResource):
        contents = block.resource
        return contents.text if contents.text is not None else f"[{contents.uri}: {contents.mime_type or 'binary'}]"
    text: str | None = getattr(block, "text", None)
    return text if text is not None else f"[{block.mime_type}, {len(block.data) * 3 // 4} bytes]"


def as_json(value: Any) -> str:
    """A result as indented JSON; what is JSON already keeps all that it has."""
    encoded = bytes(value) if isinstance(value, msgspec.Raw) else msgspec.json.encode(value)
    return msgspec.json.format(encoded, indent=2).decode()
