"""Content blocks: what tool results, prompts and sampling messages are made of (server/tools, Tool Result)."""

from __future__ import annotations

from typing import Any

import msgspec

from .base import Annotations, Icon, Meta, Wire, meta


class Content(Wire, tag_field="type"):
    """The base of all content blocks. On the wire `type` tells them apart."""


class TextContent(Content, tag="text"):
    """Text."""

    text: str
    annotations: Annotations | None = None
    meta: Meta | None = meta()


class ImageContent(Content, tag="image"):
    """An image, `data` in Base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = meta()


class AudioContent(Content, tag="audio"):
    """A sound, `data` in Base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = meta()


class ResourceLink(Content, tag="resource_link"):
    """A link to a resource, to be read or subscribed to by the client."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta | None = meta()


class ResourceContents(Wire):
    """The contents of a resource: `text`, or `blob` in Base64 (server/resources, Reading Resources)."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None
    meta: Meta | None = meta()


class EmbeddedResource(Content, tag="resource"):
    """A resource that travels inside a result."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta | None = meta()


class ToolUseContent(Content, tag="tool_use"):
    """The model wants a tool called (client/sampling, Sampling with Tools)."""

    id: str
    name: str
    input: dict[str, Any]
    meta: Meta | None = meta()

    def result(self, *content: Any, is_error: bool | None = None) -> ToolResultContent:
        """What the call gave, to go on with. content: texts, content blocks, Images and Audios."""
        blocks = [TextContent(item) if isinstance(item, str) else item for item in content]
        return ToolResultContent(self.id, blocks, is_error=is_error)


class ToolResultContent(Content, tag="tool_result"):
    """What a tool call of the model gave (client/sampling, Sampling with Tools)."""

    tool_use_id: str
    content: list[AnyContent]
    structured_content: Any = msgspec.UNSET
    is_error: bool | None = None
    meta: Meta | None = meta()


class UnknownContent:
    """A content block of a type that this version of the package does not know: its JSON, unchanged."""

    def __init__(self, raw: bytes):
        self.raw = raw

    def __repr__(self) -> str:
        return f"UnknownContent({self.raw!r})"


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
AnyContent = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | ToolUseContent | ToolResultContent
)


class _Tag(msgspec.Struct):
    type: str


_TAGS = {"text", "image", "audio", "resource_link", "resource", "tool_use", "tool_result"}
_decoder = msgspec.json.Decoder(AnyContent)
_tag_decoder = msgspec.json.Decoder(_Tag)


def decode_content(raw: bytes | msgspec.Raw) -> AnyContent | UnknownContent:
    """Decode one block by its tag. A type that is not known is kept as it came, so that one new kind of content does
    not make a whole message unreadable.

    Raises: msgspec.ValidationError if it has no type, or is of a known type and lacks a field.
    """
    if _tag_decoder.decode(raw).type in _TAGS:
        return _decoder.decode(raw)
    return UnknownContent(bytes(raw))
