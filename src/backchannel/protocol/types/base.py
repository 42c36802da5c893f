"""What all wire types share, and the small types that many features use (basic/index, General fields)."""

from __future__ import annotations

import functools
from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant"]
Meta = dict[str, Any]
"""The open `_meta` object."""


class Wire(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A type of the wire: camelCase names, fields that were not set are left out."""

    def members(self) -> dict[str, Any]:
        """The fields that are set, by their names on the wire. Their values stay as they are."""
        values = {}
        for field, name, default in _fields(type(self)):
            value = getattr(self, field)
            if value is not default:
                values[name] = value
        return values


@functools.cache
def _fields(type: type[Wire]) -> tuple[tuple[str, str, Any], ...]:
    return tuple((field.name, field.encode_name, field.default) for field in msgspec.structs.fields(type))


def meta() -> Any:
    """The `_meta` field that every type of the specification may carry."""
    return msgspec.field(default=None, name="_meta")


class Icon(Wire):
    """An image for a user interface (basic/index, icons)."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Annotations(Wire):
    """Who content is for and how much it matters (server/resources, Annotations)."""

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Implementation(Wire):
    """Name and version of a client's or server's software. Self-reported: for display only (basic/index, _meta)."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None
