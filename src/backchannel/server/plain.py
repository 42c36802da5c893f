"""Plain types, for which pydantic is not needed: numbers, texts, lists of these and the like.

How it works: a tool that has no others gets what pydantic would make of them, for the same validator to compile. To
import pydantic takes as long as all else that a small server does until it answers, so that is left to those who use
more of it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic_core import SchemaSerializer, SchemaValidator

Schema = dict[str, Any]
Parameter = tuple[Any, Any, str | None]
"""Annotation, default and description."""
_NAMES = {bool: ("bool", "boolean"), int: ("int", "integer"), float: ("float", "number"), str: ("str", "string")}


class Plain:
    """A compiled type, with what is used of a TypeAdapter."""

    __slots__ = ("core_schema", "serializer", "validator")

    def __init__(self, core: Any):
        self.core_schema = core
        self.validator = SchemaValidator(core)
        self.serializer = SchemaSerializer(core)


def plain_type(annotation: Any) -> tuple[Plain, Schema] | None:
    """A type and its JSON Schema, if it is plain."""
    found = _schemas(annotation)
    return (Plain(found[0]), found[1]) if found is not None else None


def plain_arguments(parameters: Mapping[str, Parameter]) -> tuple[Plain, Schema] | None:
    """The object of a function's arguments, if all are plain."""
    fields: Schema = {}
    properties: Schema = {}
    for name, (annotation, default, text) in parameters.items():
        found = _schemas(annotation)
        if found is None or not (default is inspect.Parameter.empty or _is_plain(default)):
            return None
        core, schema = found
        required = default is inspect.Parameter.empty
        if not required:
            core, schema = {"type": "default", "schema": core, "default": default}, {**schema, "default": default}
        fields[name] = {"type": "typed-dict-field", "schema": core, "required": required}
        properties[name] = dict(sorted(({**schema, "description": text} if text else schema).items()))
    schema = {"additionalProperties": False, "properties": properties}
    if needed := [name for name, field in fields.items() if field["required"]]:
        schema["required"] = needed
    config = {"title": "Arguments", "extra_fields_behavior": "forbid"}
    core = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid", "config": config}
    return Plain(core), {**schema, "type": "object"}


def _schemas(annotation: Any) -> tuple[Schema, Schema] | None:
    """The schemas of a plain type: for the validator, and as JSON Schema."""
    if isinstance(annotation, type) and annotation in _NAMES:
        kind, name = _NAMES[annotation]
        return {"type": kind}, {"type": name}
    origin, parts = get_origin(annotation), get_args(annotation)
    if not parts:
        return None
    if origin is Literal and all(type(part) is str and _is_plain(part) for part in parts):
        values = {"enum": list(parts)} if len(parts) > 1 else {"const": parts[0]}
        return {"type": "literal", "expected": list(parts)}, {**values, "type": "string"}
    if origin is list and (item := _schemas(parts[0])):
        return {"type": "list", "items_schema": item[0]}, {"items": item[1], "type": "array"}
    if origin is dict and parts[0] is str and (item := _schemas(parts[1])):
        core = {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": item[0]}
        return core, {"additionalProperties": item[1], "type": "object"}
    if origin in (Union, UnionType) and len(parts) == 2 and NoneType in parts:
        if item := _schemas(parts[0] if parts[1] is NoneType else parts[1]):
            return {"type": "nullable", "schema": item[0]}, {"anyOf": [item[1], {"type": "null"}]}
    return None


def _is_plain(default: Any) -> bool:
    """Whether it is a value that JSON can carry as it is."""
    if type(default) is float:
        return math.isfinite(default)
    return type(default) in (NoneType, bool, int) or (type(default) is str and default.isascii())
