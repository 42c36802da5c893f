"""JSON Schemas that somebody else wrote, and values checked by them (basic/index, JSON Schema Usage).

The dialects: 2020-12, which is meant where `$schema` is absent, 2019-09, draft-07, draft-06 and draft-04.

How it works: jsonschema-rs compiles the schema, with a retriever that refuses, so nothing is ever fetched. Before that
the schema is measured: its depth, its size, and how many subschemas one place of a value can meet, since references
that fork again and again would make checking exponential. A value is first only checked; what is wrong with it is
looked for where that fails.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import jsonschema_rs

MOST_ERRORS = 10
"""Sentences about one value."""
DEEPEST = 200
"""Levels of objects and arrays in a schema, and of references from one subschema to the next."""
LARGEST = 20_000
"""Objects in a schema."""
MOST_VISITS = 10_000
"""Subschemas that one place of a value may meet, and what else costs as much."""
_TOO_MANY = 100_000  # characters of a wrong value, over which only the first error is looked for
_TOO_MUCH = 10**8  # the same, times the characters of the schema, of which each error may repeat much
_INNER, _EXACT = 10, 100  # what comparing costs: with what is in an object or array, and with a number that is no int64

_DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
_HERE_LISTS = ("allOf", "anyOf", "oneOf")
_HERE = ("not", "if", "then", "else")
_BELOW = (
    *("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)
_BELOW_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies")


class Validator:
    """Checks values by one schema.

    schema: a JSON Schema as a dict.

    Raises: ValueError, which says what is wrong: an unknown dialect, a schema that is not valid in its dialect, a
    reference that leads nowhere or out of the schema, and one over the bounds of this module.
    """

    def __init__(self, schema: dict[str, Any]):
        import jsonschema_rs  # 60 ms that only those pay who have such schemas

        if not isinstance(schema, dict):
            raise ValueError(f"the schema is a {type(schema).__name__}, not an object")
        _Measure(schema)
        self._most = min(_TOO_MANY, _TOO_MUCH // _length(schema))
        kind: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, _dialect(schema))
        try:
            self._validator = kind(schema, retriever=_refuse, mask="the value", validate_formats=False)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise ValueError(_why(error)) from None

    def errors(self, value: Any) -> list[str]:
        """What is wrong with a value of JSON, one plain sentence for each fault, with its place: `items[0].count:
        expected integer, got "x"`. At most 10; none if the schema allows the value."""
        try:
            if self._validator.is_valid(value):
                return []
            found = self._first(value) if _length(value) > self._most else self._validator.iter_errors(value)
            texts: dict[str, None] = {}
            for error in found:
                texts.update(dict.fromkeys(_sentences(error, value)))
                if len(texts) >= MOST_ERRORS:
                    break
        except (ValueError, RecursionError) as error:
            return [f"the value cannot be checked: {_cut(str(error), 200)}"]
        return list(texts)[:MOST_ERRORS]

    def _first(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        import jsonschema_rs

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []


def _dialect(schema: dict[str, Any]) -> str:
    stated = schema.get("$schema", next(iter(_DIALECTS)))
    found = _DIALECTS.get(stated.removesuffix("#")) if isinstance(stated, str) else None
    if found is None:
        known = ", ".join(_DIALECTS)
        raise ValueError(f"the schema dialect {_cut(str(stated), 100)!r} is not supported; supported are {known}")
    return found


def _refuse(uri: str) -> NoReturn:
    """ "Implementations MUST NOT automatically dereference `$ref` values that resolve to a network URI" (basic/index,
    `$ref` Resolution)."""
    raise ValueError(uri)


def _why(error: Any) -> str:
    text, path = str(getattr(error, "message", error)).partition("\n")[0], getattr(error, "instance_path", None)
    missing, _, refused = text.partition(" is not present in a registry")
    if refused:
        uri = missing.removeprefix("Resource ").strip("'")
        return f"the schema refers to {_cut(uri, 100)!r}, which is outside of it, and is never fetched"
    return f"the schema is not valid: {_place(path or [], 'at the top')}: {_cut(text, 200)}"


class _Measure:
    """Measures a schema. Raises: ValueError if it is over one of the bounds."""

    def __init__(self, schema: dict[str, Any]):
        self._root = schema
        self._size = 0
        self._anchors: dict[str, Any] = {}
        self._visits: dict[int, int] = {}
        self._walk(schema, 0)
        self._count(schema, 0)

    def _walk(self, node: Any, depth: int) -> None:
        if depth > DEEPEST:
            raise ValueError(f"the schema is nested more than {DEEPEST} levels deep")
        if isinstance(node, dict):
            self._size += 1
            if self._size > LARGEST:
                raise ValueError(f"the schema has more than {LARGEST} objects")
            for key in ("$anchor", "$dynamicAnchor", "$id"):
                if isinstance(name := node.get(key), str):
                    self._anchors.setdefault(name, node)
            for child in node.values():
                self._walk(child, depth + 1)
        elif isinstance(node, list):
            for child in node:
                self._walk(child, depth + 1)

    def _count(self, node: Any, depth: int) -> int:
        """How many subschemas one place of a value can meet, from this one on. What applies to the same place adds up;
        of what applies to places below it, the most counts. A reference back to where one comes from is not followed
        again."""
        if not isinstance(node, dict):
            return 0
        if (known := self._visits.get(id(node))) is not None:
            return known
        if depth > DEEPEST:
            raise ValueError(f"the schema has a chain of more than {DEEPEST} references")
        self._visits[id(node)] = 0
        total = 1 + _comparing(node) + sum(self._count(child, depth + 1) for child in self._here(node))
        total += max((self._count(child, depth + 1) for child in _below(node)), default=0)
        if total > MOST_VISITS:
            raise ValueError(f"the schema is too costly: one place of a value can meet more than {MOST_VISITS} of it")
        self._visits[id(node)] = total
        return total

    def _here(self, node: dict[str, Any]) -> Iterator[Any]:
        for key in _HERE_LISTS:
            if isinstance(children := node.get(key), list):
                yield from children
        for key in _HERE:
            yield node.get(key)
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(ref := node.get(key), str):
                yield self._follow(ref)

    def _follow(self, ref: str) -> Any:
        """Where a reference leads, as far as measuring needs it; the compiler says which ones are wrong."""
        base, _, fragment = ref.partition("#")
        node: Any = self._anchors.get(base) if base else self._root
        if not fragment.startswith("/"):
            return self._anchors.get(fragment, node) if fragment else node
        for step in fragment[1:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(step)
            elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            else:
                return None
        return node


def _below(node: dict[str, Any]) -> Iterator[Any]:
    for key in _BELOW:
        child = node.get(key)
        yield from child if isinstance(child, list) else [child]
    for key in _BELOW_NAMED:
        yield from node[key].values() if isinstance(node.get(key), dict) else ()


def _comparing(node: dict[str, Any]) -> int:
    """What it costs to compare a value with the options of `enum` and `const`, one by one; texts alone and integers
    alone are looked up."""
    enum = node.get("enum")
    options = [*(enum if isinstance(enum, list) else ()), *([node["const"]] if "const" in node else ())]
    if all(isinstance(option, str) for option in options) or all(map(_is_small, options)):
        return 0
    return sum(map(_weight, options))


def _weight(option: Any) -> int:
    if isinstance(option, dict | list):
        inner = option.values() if isinstance(option, dict) else option
        return _INNER + sum(max(_INNER, _weight(value)) for value in inner)
    return _EXACT if isinstance(option, float) or (isinstance(option, int) and not _is_small(option)) else 1


def _is_small(option: Any) -> bool:
    return isinstance(option, int) and -(2**63) <= option < 2**63


def _length(value: Any) -> float:
    """Characters of a value as JSON."""
    try:
        return len(json.dumps(value, default=str))
    except (ValueError, TypeError):
        return math.inf


def _at(value: Any, path: list[str | int]) -> Any:
    """What lies at a path. Raises: LookupError, TypeError where the path does not lead there: "" is left out of it."""
    for step in path:
        value = value[str(step) if isinstance(value, dict) else step]  # "0" comes as a number
    return value


def _sentences(error: jsonschema_rs.ValidationError, whole: Any) -> Iterator[str]:
    kind, path, value = error.kind, list(error.instance_path), error.instance
    with contextlib.suppress(LookupError, TypeError):
        value = _at(whole, path)  # which is not always the instance, as where a property is too many
    if kind.name == "required":
        yield f"{_place([*path, kind.value], '')}: missing"
    elif kind.name in ("additionalProperties", "unevaluatedProperties"):
        yield from (f"{_place([*path, name], '')}: unexpected" for name in kind.value)
    elif error.schema_path[-1:] == ["additionalProperties"] and isinstance(value, dict):  # false, and no others named
        yield from (f"{_place([*path, name], '')}: unexpected" for name in itertools.islice(value, MOST_ERRORS))
    else:
        yield f"{_place(path, 'the value')}: {_reason(error)}{_got(value)}"


def _reason(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind
    if kind.name == "type":
        return f"expected {' or '.join(kind.value)}"
    if kind.name in ("enum", "const"):
        options = kind.value if kind.name == "enum" else [kind.value]
        return f"expected {_cut(' or '.join(json.dumps(option, ensure_ascii=False) for option in options), 200)}"
    if kind.name == "pattern":
        return f"expected text that matches {_cut(str(kind.value), 100)}"
    if kind.name in ("anyOf", "oneOf"):
        inner = dict.fromkeys(_reason(first[0]) for first in kind.as_dict().get("context", ()) if first)
        wanted = [text.removeprefix("expected ") for text in inner if text.startswith("expected ")]
        if kind.name == "anyOf" and wanted and len(wanted) == len(inner):
            return f"expected {_cut(' or '.join(wanted), 200)}"
    return _cut(" ".join(error.message.removeprefix("the value ").split()), 200)


def _got(value: Any) -> str:
    """What came, short enough to read, and never what a container holds."""
    if isinstance(value, dict | list | tuple):
        return f", got {'object' if isinstance(value, dict) else 'array'}"
    if isinstance(value, str):
        return f", got {json.dumps(_cut(value, 40), ensure_ascii=False)}"
    return f", got {_cut(json.dumps(value), 40)}"


def _place(path: list[str | int], root: str) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{_cut(_printable(step), 40)}" for step in path)
    return "".join(steps).lstrip(".") or root


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
