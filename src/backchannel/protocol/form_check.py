"""A small checker of an elicitation's answer, for the restricted subset of JSON Schema that forms are written in
(client/elicitation, Requested Schema). Both sides use it: the client before it sends, the server on what came.

How it works: the subset of every version is covered at once, `enumNames` as well as `oneOf`, and `anyOf` with null,
which older servers send for optional fields. The schema comes from the other side, so a keyword that is unknown or
makes no sense is passed over.
"""

from __future__ import annotations

import copy
import datetime
import json
import re
import sys
from collections.abc import Callable
from typing import Any

SHOWN = 40  # characters of a wrong value that a sentence repeats
LISTED = 10  # options of a choice that a sentence lists
_NAMES = {str: "string", int: "integer", bool: "boolean"}
_SILENT = frozenset(("type", "title", "description", "default"))  # words that rule nothing out
DEPTH = 4  # levels of a property's schema that are looked at; the subset has three: property, items, option


def with_defaults(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """A copy of `content` with the schema's defaults for what it leaves out. Null counts as given.

    Specification: client/elicitation, "All primitive types support optional default values".
    """
    defaults = {
        name: copy.deepcopy(member["default"])
        for name, member in _properties(schema).items()
        if isinstance(member, dict) and "default" in member and name not in content
    }
    return {**content, **defaults}


def check_content(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    """What is wrong with an answer: one sentence a field, such as `age: expected integer, got "old"`."""
    found = problems(schema, content)
    return [f"{name}: {problem}" for name, problem in found.items()] if found else []


def problems(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, str]:
    """What is wrong with an answer, as field name -> sentence, in the order of the form.

    schema: a `requestedSchema` of any version. A key it does not name is wrong only with `additionalProperties: false`.
    """
    properties = _properties(schema)
    names = schema.get("required")
    required = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    found = {}
    for name in dict.fromkeys([*properties, *required, *content]):
        if name not in content:
            problem = "is required" if name in required else None
        elif name in properties:
            problem = _problem(properties[name], content[name])
        else:
            problem = "is not asked for" if schema.get("additionalProperties") is False else None
        if problem is not None:
            found[name] = problem
    return found


def plain_types(schema: dict[str, Any]) -> dict[str, type | None]:
    """The type of the answer to each field of a form of ours; None where more is wanted than a type."""
    types = {name: type for type, name in _NAMES.items()}
    return {
        name: types.get(member["type"]) if member.keys() <= _SILENT else None
        for name, member in _properties(schema).items()
    }


def show(value: Any) -> str:
    """A value as a sentence repeats it: as JSON, and shortened."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _problem(schema: Any, value: Any, depth: int = DEPTH) -> str | None:
    """What is wrong with one value, or None."""
    if not isinstance(schema, dict) or depth == 0 or _is_plain(schema, value):
        return None
    return (
        _wrong_type(schema, value)
        or _wrong_choice(schema, value)
        or _wrong_branch(schema, value, depth)
        or _wrong_number(schema, value)
        or _wrong_text(schema, value)
        or _wrong_items(schema, value, depth)
    )


def _is_plain(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is right at first sight, as most are: the schema has no more than its type."""
    name = schema.get("type")
    return _NAMES.get(type(value)) == name and schema.keys() <= _SILENT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# A float without a fraction is an integer, as in JSON Schema; a boolean is none.
_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": lambda value: _is_number(value) and abs(value) <= sys.float_info.max,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _wrong_type(schema: dict[str, Any], value: Any) -> str | None:
    types = schema.get("type")
    names = types if isinstance(types, list) else [types]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not known or any(_TYPES[name](value) for name in known):
        return None
    return f"expected {' or '.join(known)}, got {show(value)}"


def _wrong_choice(schema: dict[str, Any], value: Any) -> str | None:
    for options in ([schema["const"]] if "const" in schema else None, schema.get("enum"), _constants(schema)):
        if isinstance(options, list) and not any(_same(option, value) for option in options):
            some = ", ".join(map(show, options[:LISTED])) + ", …" * (len(options) > LISTED)
            return f"expected {'one of ' * (len(options) > 1)}{some}, got {show(value)}"
    return None


def _constants(schema: dict[str, Any]) -> list[Any] | None:
    """The values of a choice that is written as `oneOf` or `anyOf` of constants, or None."""
    for branches in (schema.get("oneOf"), schema.get("anyOf")):
        if isinstance(branches, list) and all(isinstance(branch, dict) and "const" in branch for branch in branches):
            return [branch["const"] for branch in branches]
    return None


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _wrong_branch(schema: dict[str, Any], value: Any, depth: int) -> str | None:
    """The problem with the first branch of an `anyOf` or `oneOf` if none of them fits."""
    for branches in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(branches, list) and branches:
            found = [_problem(branch, value, depth - 1) for branch in branches]
            if all(found):
                return found[0]
    return None


def _wrong_number(schema: dict[str, Any], value: Any) -> str | None:
    if not _is_number(value):
        return None
    least, most = schema.get("minimum"), schema.get("maximum")
    if _is_number(least) and value < least:
        return f"expected at least {show(least)}, got {show(value)}"
    if _is_number(most) and value > most:
        return f"expected at most {show(most)}, got {show(value)}"
    return None


def _wrong_count(size: int, least: Any, most: Any, unit: str) -> str | None:
    """A size outside of its limits, which count only if they are numbers."""
    if _is_number(least) and size < least:
        return f"expected at least {show(least)} {unit}{'s' * (least != 1)}, got {size}"
    if _is_number(most) and size > most:
        return f"expected at most {show(most)} {unit}{'s' * (most != 1)}, got {size}"
    return None


def _wrong_items(schema: dict[str, Any], value: Any, depth: int) -> str | None:
    if not isinstance(value, list):
        return None
    for number, item in enumerate(value, 1):
        if problem := _problem(schema.get("items"), item, depth - 1):
            return f"item {number}: {problem}"
    return _wrong_count(len(value), schema.get("minItems"), schema.get("maxItems"), "item")


def _wrong_text(schema: dict[str, Any], value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    if problem := _wrong_count(len(value), schema.get("minLength"), schema.get("maxLength"), "character"):
        return problem
    name = schema.get("format")
    what, fits = _FORMATS.get(name if isinstance(name, str) else "", ("", None))
    return f"expected {what}, got {show(value)}" if fits and not fits(value) else None


def _parses(pattern: str, parse: Callable[[str], object]) -> Callable[[str], bool]:
    """A test whether a text looks like `pattern` and is a real day or moment."""

    def fits(text: str) -> bool:
        try:
            return re.fullmatch(pattern, text) is not None and bool(parse(text.upper()))
        except ValueError:
            return False

    return fits


_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
# RFC 3339, but seconds and offset may be missing: that is what forms and defaults without a time zone give.
_MOMENT = _DATE + r"[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
_FORMATS: dict[str, tuple[str, Callable[[str], Any] | None]] = {
    "email": ("an email address", re.compile(r"[^@\s]+@[^@\s]+").fullmatch),
    "uri": ("a URI", re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+").fullmatch),
    "date": ("a date (YYYY-MM-DD)", _parses(_DATE, datetime.date.fromisoformat)),
    "date-time": ("a date and time (YYYY-MM-DDThh:mm:ssZ)", _parses(_MOMENT, datetime.datetime.fromisoformat)),
}
