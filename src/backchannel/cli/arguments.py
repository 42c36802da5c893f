"""`key=value` and `key:=json` on a command line, as the arguments of a tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import ConfigurationError
from .finding import known

_DEPTH = 8
_MORE = frozenset(("patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"))
EXPECTED = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": 'a JSON array such as ["a", "b"]',
    "object": 'a JSON object such as {"a": 1}',
}


def parse(given: Iterable[str], schema: dict[str, Any], owner: str = "the tool") -> dict[str, Any]:
    """The arguments: for `key=value` as the tool's input schema has them, a string where it allows one and JSON
    elsewhere; for `key:=json` as JSON. owner: whose they are, for messages.

    Raises: ConfigurationError for what is neither, no JSON, or a key that the schema does not know.
    """
    return dict(_pair(one, schema, owner) for one in given)


def _pair(given: str, schema: dict[str, Any], owner: str) -> tuple[str, Any]:
    key, equals, text = given.partition("=")
    if not equals or key in ("", ":"):
        raise ConfigurationError(f"{given!r} is no argument: give key=value, or key:=json")
    if key.endswith(":"):
        return key[:-1], _json(key[:-1], text)
    if _is_closed(schema):
        known(owner, key, schema.get("properties") or {})
    member = (schema.get("properties") or {}).get(key)
    if member is None:
        return key, _json_or_text(text)
    branches = list(_branches(member, schema, _DEPTH))
    if any(_takes_text(branch, text) for branch in branches):
        return key, text
    return key, _typed(key, text, branches) if all("type" in branch for branch in branches) else _json_or_text(text)


def _is_closed(schema: dict[str, Any]) -> bool:
    """Whether the names of all arguments are known: the properties are, and nothing says that there are more."""
    if "additionalProperties" in schema:
        return schema["additionalProperties"] is False and "patternProperties" not in schema
    return bool(schema.get("properties")) and schema.keys().isdisjoint(_MORE)


def _branches(member: Any, schema: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """What a property may be: the schemas that `$ref`, `anyOf`, `oneOf` and `allOf` lead to."""
    if not isinstance(member, dict) or not depth:
        return
    reference = str(member.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        target = (schema.get("$defs") or {}).get(reference.removeprefix("#/$defs/"))
        yield from _branches(target, schema, depth - 1)
        return
    inner = [one for word in ("anyOf", "oneOf", "allOf") for one in member.get(word) or ()]
    if not inner or "type" in member:
        yield member
    for one in inner:
        yield from _branches(one, schema, depth - 1)


def _takes_text(branch: dict[str, Any], text: str) -> bool:
    types = branch.get("type")
    return types == "string" or (isinstance(types, list) and "string" in types) or text in (branch.get("enum") or ())


def _typed(key: str, text: str, branches: Sequence[dict[str, Any]]) -> Any:
    """A value of a type that is no string. What is JSON of the wrong type is left to the server."""
    try:
        return json.loads(text)
    except ValueError:
        types = [branch["type"] if isinstance(branch["type"], list) else [branch["type"]] for branch in branches]
        expected = " or ".join(dict.fromkeys(EXPECTED.get(name, str(name)) for names in types for name in names))
        raise ConfigurationError(f"the argument {key!r} takes {expected}, not {text!r}") from None


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"the argument {key!r} takes JSON, and {text!r} is none: {error}") from None


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
