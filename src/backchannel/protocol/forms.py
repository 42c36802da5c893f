"""Forms: the fields of an elicitation in neutral terms, and how each protocol version writes them
(client/elicitation, Requested Schema). Checking an answer is `form_check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import MissingCapability
from .form_check import check_content, problems, with_defaults
from .versions import FEATURES, Version

__all__ = ["Field", "Format", "Kind", "Option", "check_content", "problems", "requested_schema", "with_defaults"]

Kind = Literal["string", "integer", "number", "boolean", "choice", "choices", "files"]
Format = Literal["email", "uri", "date", "date-time"]


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One option of a choice: the string on the wire, and what people see in its place."""

    value: str
    title: str | None = None


class Field(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One field of a form, in terms of no version. Lengths are in characters, `options` belong to the two choice kinds.

    A `default` is what an omitted field means: a tuple of option values for "choices", UNSET where there is none.
    legacy: the titles of a choice go out as `enumNames` at every version, for clients that know nothing else.
    file: what `x-mcp-file` says of a string, or of each of several "files": only clients that take files are told.
    """

    name: str
    kind: Kind
    title: str | None = None
    description: str | None = None
    required: bool = True
    default: str | int | float | tuple[str, ...] | UnsetType = UNSET
    format: Format | None = None
    min_length: int | None = None
    max_length: int | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    options: tuple[Option, ...] = ()
    min_items: int | None = None
    max_items: int | None = None
    legacy: bool = False
    file: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """How a version writes a kind: the JSON type, the keywords it may carry, and where the options go."""

    type: str
    keywords: tuple[str, ...] = ()
    options: Callable[[Field], dict[str, Any]] | None = None


def _titled(field: Field) -> list[dict[str, str]] | None:
    """The options as `const` and `title`, or None where no option has a title."""
    if not any(option.title for option in field.options):
        return None
    return [{"const": option.value, "title": option.title or option.value} for option in field.options]


def _enum(field: Field) -> dict[str, Any]:
    return {"enum": [option.value for option in field.options]}


def _enum_names(field: Field) -> dict[str, Any]:
    """`enumNames`, which is not JSON Schema: 2025-06-18 has nothing else (its schema.ts, EnumSchema)."""
    titled = _titled(field)
    return _enum(field) | ({"enumNames": [option["title"] for option in titled]} if titled else {})


def _one_of(field: Field) -> dict[str, Any]:
    if field.legacy:
        return _enum_names(field)
    titled = _titled(field)
    return {"oneOf": titled} if titled else _enum(field)


def _items(field: Field) -> dict[str, Any]:
    titled = _titled(field)
    return {"items": {"anyOf": titled} if titled else {"type": "string", **_enum(field)}}


def _uris(field: Field) -> dict[str, Any]:
    return {"items": {"type": "string", "format": "uri"}}


_TEXT = ("format", "minLength", "maxLength")
_RANGE = ("minimum", "maximum")

SHAPES: Mapping[str, Mapping[Kind, Shape | str]] = {
    "plain": {
        "string": Shape("string", _TEXT),
        "integer": Shape("integer", _RANGE),
        "number": Shape("number", _RANGE),
        "boolean": Shape("boolean", ("default",)),
        "choice": Shape("string", (), _enum_names),
        "choices": "has no field with several choices. Ask for one choice at a time",
        "files": "has no field with several files. Ask for one file at a time",
    },
    "titled": {
        "string": Shape("string", (*_TEXT, "default")),
        "integer": Shape("integer", (*_RANGE, "default")),
        "number": Shape("number", (*_RANGE, "default")),
        "boolean": Shape("boolean", ("default",)),
        "choice": Shape("string", ("default",), _one_of),
        "choices": Shape("array", ("minItems", "maxItems", "default"), _items),
        "files": Shape("array", ("minItems", "maxItems"), _uris),
    },
}
"""The form style of a version and the kind of a field -> how it is written, or why it cannot be (R167).

What a style lacks and can do without is left out: the degraded form. The plain style has no defaults but a boolean's.
"""


def requested_schema(version: Version, fields: Sequence[Field], files: bool = False) -> dict[str, Any]:
    """The `requestedSchema` of a form as `version` writes it. files: the client declared `fileInputs`.

    Raises: MissingCapability where the version has no elicitation, or a field has no form in it.
    Specification: client/elicitation, Requested Schema.
    """
    shapes = SHAPES.get(FEATURES[version].form)
    if shapes is None:
        raise MissingCapability("elicitation", f"protocol version {version} has no elicitation")
    properties = {}
    for field in fields:
        shape = shapes[field.kind]
        if isinstance(shape, str):
            raise MissingCapability("elicitation.form", f"field {field.name!r}: protocol version {version} {shape}")
        properties[field.name] = property = _property(shape, field)
        if files and field.file is not None:
            property.get("items", property)["x-mcp-file"] = field.file
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [field.name for field in fields if field.required]:
        schema["required"] = required
    return schema


def _property(shape: Shape, field: Field) -> dict[str, Any]:
    """The schema of one field: a primitive schema definition of the specification."""
    members: dict[str, Any] = msgspec.to_builtins(field)
    written = {"type": shape.type}
    written |= {word: members[word] for word in ("title", "description", *shape.keywords) if word in members}
    if isinstance(default := written.get("default"), tuple):
        written["default"] = list(default)
    return written | (shape.options(field) if shape.options else {})
