"""Arguments of tools that are mirrored into `Mcp-Param-*` headers (basic/transports/streamable-http, Custom Headers
from Tool Parameters)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..errors import INVALID_PARAMS, LocalProtocolError
from .http import Headers, decode_value, encode_value

MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_KINDS = ("string", "integer", "boolean")
_SAFE = 2**53 - 1
_PREFIX = "Mcp-Param-"
_LITERAL = {MARK, "enum", "const", "default", "examples"}
_BY_NAME = {
    *("properties", "patternProperties", "$defs", "definitions"),
    *("dependentSchemas", "dependentRequired", "dependencies"),
}
"""Keywords whose members have names that somebody chose, so that no name in them is a keyword."""


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """One mirrored argument: the path of `properties` keys that leads to it, its header's name and its type."""

    path: tuple[str, ...]
    header: str
    kind: str


def param_headers(schema: Mapping[str, Any]) -> tuple[ParamHeader, ...]:
    """The mirrored arguments of an input schema.

    A type may be nullable as in `["string", "null"]`; `anyOf` is no type here, for other clients would reject the tool.

    Raises: ValueError that says which annotation breaks which rule; then the whole tool definition is invalid.
    """
    found: dict[str, ParamHeader] = {}
    for where, path, node in _annotated(schema):
        if not path:
            raise ValueError(f"{MARK} at {where or 'the root'} is not reached by properties alone")
        one = ParamHeader(path, _name(node[MARK], where), _kind(node.get("type"), where))
        other = found.setdefault(one.header.lower(), one)
        if other is not one:
            raise ValueError(f"{MARK} {one.header!r} stands at {where} and at {'.'.join(other.path)}")
    return tuple(found.values())


def _annotated(schema: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], Mapping[str, Any]]]:
    """Every schema with an annotation: where it is, and the path of `properties` keys that leads there, which is empty
    where there is none. The schema is somebody else's: there is no recursion to exhaust."""
    queue: deque[tuple[str, tuple[str, ...] | None, Any]] = deque([("", (), schema)])
    while queue:
        where, path, node = queue.popleft()
        if isinstance(node, list):
            queue.extend((where, None, item) for item in node)
        if not isinstance(node, Mapping):
            continue
        if MARK in node:
            yield where, path or (), node
        for keyword, value in node.items():
            if keyword in _BY_NAME and isinstance(value, Mapping):
                reached = path is not None and keyword == "properties"
                for name, child in value.items():
                    below = (*path, name) if path is not None and reached else None
                    queue.append((_below(where, name if reached else f"{keyword}.{name}"), below, child))
            elif keyword not in _LITERAL:
                queue.append((_below(where, keyword), None, value))


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _name(name: Any, where: str) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"{MARK} of {where} is no header name: {name!r}")
    return name


def _kind(stated: Any, where: str) -> str:
    kinds = [one for one in stated if one != "null"] if isinstance(stated, list) else [stated]
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        raise ValueError(f"{MARK} of {where} stands on type {stated!r}: it may stand on {', '.join(_KINDS)}")
    return str(kinds[0])


def mirror(headers: tuple[ParamHeader, ...], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers for these arguments. What is absent or null has none, nor has a value of a wrong type, which the
    tool's own schema judges.

    Raises: LocalProtocolError for an integer that may not be mirrored, beyond ±(2**53 - 1).
    """
    result = {}
    for one in headers:
        value = _value(arguments, one.path)
        if _is_unsafe(one.kind, value):
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: {_too_large(one)}")
        text = _text(one.kind, value)
        if text is not None:
            result[_PREFIX + one.header] = encode_value(text)
    return result


def mismatch(headers: tuple[ParamHeader, ...], given: Headers, arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with the headers of a request that has these arguments, or None (Server Behavior for Custom
    Headers)."""
    for one in headers:
        header, value = given.get((_PREFIX + one.header).lower()), _value(arguments, one.path)
        if value is None and header is not None:
            return f"{_PREFIX}{one.header} is given, and the body has no value for {'.'.join(one.path)}"
        if _is_unsafe(one.kind, value):
            return _too_large(one)
        wanted = _text(one.kind, value)
        if wanted is None:
            continue
        decoded = decode_value(header)
        if decoded is None or not _agree(one.kind, decoded, wanted):
            what = "is missing or malformed" if decoded is None else f"is {decoded[:200]!r}"
            return f"{_PREFIX}{one.header} {what}, the body says {wanted[:200]!r}"
    return None


def _value(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(arguments, Mapping) or key not in arguments:
            return None
        arguments = arguments[key]
    return arguments


def _is_unsafe(kind: str, value: Any) -> bool:
    return kind == "integer" and isinstance(value, int | float) and abs(value) > _SAFE


def _too_large(one: ParamHeader) -> str:
    return f"{'.'.join(one.path)} is beyond ±(2**53 - 1), so it cannot be mirrored in {_PREFIX}{one.header}"


def _text(kind: str, value: Any) -> str | None:
    """The string form of a value; None for what is not of its type (Value Encoding, Type conversion)."""
    if kind == "string":
        return value if isinstance(value, str) else None
    if isinstance(value, bool):
        return str(value).lower() if kind == "boolean" else None
    if kind == "integer" and isinstance(value, int | float) and value % 1 == 0:
        return str(int(value))
    return None


def _agree(kind: str, given: str, wanted: str) -> bool:
    """Integers are compared as numbers: 42.0 is 42 (Server Validation, note)."""
    if kind == "integer" and _NUMBER.fullmatch(given):
        return Decimal(given) == int(wanted)
    return given == wanted
