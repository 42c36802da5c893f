"""From a Python type to the fields of a form: what the wire can express of it, else an error that names the field.

How it works: each property of the type's JSON schema becomes one neutral `Field`. What the schema says beyond that
(`pattern`, `multipleOf`, other formats) stays with pydantic, which checks it on the answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import UNSET

from ..errors import ConfigurationError
from ..protocol.forms import Field, Kind, Option, problems, requested_schema
from ..protocol.versions import SUPPORTED
from .form_schema import INVALID, NAMES, POSSIBLE, TITLES, Schema, label, schema_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VALUE = "value"
"""The one property of a form whose type is no object."""
EXACT = 2**53  # beyond this, readers of JSON round
_FORMATS = ("email", "uri", "date", "date-time")
_FILE = "x-mcp-file"  # of a withdrawn proposal (SEP-2356): a string that is a file, as a data: URI
_LEGACY = "enumNames"  # titles as 2025-06-18 has them, which the later versions deprecate
_PLAIN: dict[Any, Kind] = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean"}


class Entry(msgspec.Struct, frozen=True):
    """One field, and how its answer becomes what pydantic reads.

    nullable: None is one of its values. fill: an omitted field is None, though pydantic wants a value.
    values: option on the wire -> value in JSON, empty if they are the same. Options are strings, the values of a
        Literal or an enum may be integers.
    """

    field: Field
    nullable: bool
    fill: bool
    values: Mapping[str, Any]


def entries_of(kind: Any) -> tuple[TypeAdapter[Any], tuple[Entry, ...], bool]:
    """The adapter of a type, the entries of its form, and whether the form wraps it as the one property `value`.

    Raises: ConfigurationError where the wire has no form for it, with the path of the field and what is possible.
    """
    adapter, schema = schema_of(kind)
    defs = schema.pop("$defs", {})
    path = label(kind)
    top, _ = _resolve(schema, defs, path)
    if top.get("type") != "object" or "properties" not in top:
        return adapter, (_entry(VALUE, schema, defs, path, required="default" not in schema),), True
    entries = []
    for name, member in top["properties"].items():
        titled = {"title": name.replace("_", " ").strip().title(), **member}
        entries.append(_entry(name, titled, defs, f"{path}.{name}", required=name in top.get("required", ())))
    return adapter, tuple(entries), False


def _refuse(path: str, reason: str, instead: str) -> NoReturn:
    raise ConfigurationError(f"{path}: {reason}; {instead}")


def _resolve(schema: Schema, defs: Schema, path: str) -> tuple[Schema, bool]:
    """A schema without references and without its null branch, and whether it had one."""
    nullable = False
    while True:
        rest = {word: value for word, value in schema.items() if word not in ("$ref", "allOf", "anyOf", "oneOf")}
        if "$ref" in schema:
            branches = [defs[schema["$ref"].rpartition("/")[2]]]
        else:
            branches = next((schema[word] for word in ("allOf", "anyOf", "oneOf") if word in schema), [])
        if not branches:
            return schema, nullable
        wanted = [branch for branch in branches if branch.get("type") != "null"]
        nullable |= len(wanted) < len(branches)
        if len(wanted) > 1 and all("const" in branch or "enum" in branch for branch in wanted):
            return {**rest, **_united(wanted)}, nullable
        if len(wanted) != 1:
            _refuse(path, "a field has one type, not a union of several", "use one of them, or ask a second question")
        schema = {**wanted[0], **rest}


def _united(branches: list[Schema]) -> Schema:
    """Choices that are written as one: constants with their titles, or a union of literals."""
    listed = [
        (value, branch.get("title")) for branch in branches for value in branch.get("enum", [branch.get("const")])
    ]
    return {"enum": [value for value, _ in listed], TITLES: [title for _, title in listed]}


def _entry(name: str, schema: Schema, defs: Schema, path: str, *, required: bool) -> Entry:
    """The entry of one property."""
    schema, nullable = _resolve(schema, defs, path)
    nullable |= None in schema.get("enum", ())
    if schema.get("type") == "array":
        items, _ = _resolve(schema.get("items", {}), defs, f"{path}[]")
        options, values = _options(items, f"{path}[]")
        file = items.get(_FILE) if items.get("type") == "string" else None
        if not options and file is None:
            _refuse(path, "a list in a form is a choice among given options", "use list[Literal[...]] or list[Enum]")
        kind: Kind = "choices" if options else "files"
    else:
        options, values, file = *_options(schema, path), schema.get(_FILE)
        kind = "choice" if options else _plain_kind(schema, path)
    field = Field(
        name=name,
        kind=kind,
        title=schema.get("title"),
        description=schema.get("description"),
        required=required and not nullable,
        default=_default(schema, kind, options),
        options=options,
        legacy=kind == "choice" and _LEGACY in schema,
        file=file if isinstance(file, dict) and kind in ("string", "files") else None,
        **_limits(schema, kind),
    )
    return Entry(_with_valid_default(field), nullable, required and nullable, values)


def _plain_kind(schema: Schema, path: str) -> Kind:
    """The kind of a field without options."""
    if INVALID in schema:
        _refuse(path, schema[INVALID], POSSIBLE)
    if schema.get("format") == "password":
        # "Servers MUST NOT use form mode elicitation to request sensitive information" (client/elicitation)
        _refuse(path, "a form must not ask for a secret", "ask with ctx.elicit_url")
    if schema.get("type") == "object" and "properties" in schema:
        _refuse(path, "a form is flat", "put the fields of the nested object into it, or ask a second question")
    kind = _PLAIN.get(schema.get("type"))
    if kind is None or schema.get("format") == "binary":
        what = {"object": "a dict", "string": "bytes", "null": "None"}.get(
            schema.get("type", ""), "a value of any type"
        )
        _refuse(path, f"a form cannot ask for {what}", POSSIBLE)
    return kind


def _limits(schema: Schema, kind: Kind) -> dict[str, Any]:
    """The limits and the format that the wire has for a kind."""
    if kind in ("choices", "files"):
        return {"min_items": schema.get("minItems"), "max_items": schema.get("maxItems")}
    if kind in ("integer", "number"):
        whole = kind == "integer"
        return {
            "minimum": _bound(schema.get("minimum"), schema.get("exclusiveMinimum"), int(whole)),
            "maximum": _bound(schema.get("maximum"), schema.get("exclusiveMaximum"), -int(whole)),
        }
    if kind == "string":
        wire_format = schema.get("format")
        return {
            "format": wire_format if wire_format in _FORMATS else None,
            "min_length": schema.get("minLength"),
            "max_length": schema.get("maxLength"),
        }
    return {}


def _bound(inclusive: Any, exclusive: Any, step: int) -> int | float | None:
    """A bound as the wire has it. An exclusive one becomes the next integer towards `step`; that is 0 for numbers:
    there the wire says a little less than pydantic checks."""
    bound = _number(exclusive)
    if bound is None:
        return _number(inclusive)
    return bound if not step else step + (math.floor(bound) if step > 0 else math.ceil(bound))


def _number(value: Any) -> int | float | None:
    """A number in its one spelling, or None for what JSON does not carry exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= EXACT:
        return None
    return int(value) if value == int(value) else value


def _options(schema: Schema, path: str) -> tuple[tuple[Option, ...], dict[str, Any]]:
    """The options of a choice, and option -> value if any differs from its option. A choice of booleans is none."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if all(isinstance(value, bool | None) for value in listed):
        return (), {}
    if not all(isinstance(value, str | int | None) and not isinstance(value, bool) for value in listed):
        _refuse(path, "the options of a choice are strings or integers", "use such values, or bool for yes and no")
    titles: dict[Any, str | None] = {}
    nothing = [None] * len(listed)
    for value, name, title in zip(listed, schema.get(NAMES, nothing), schema.get(TITLES, nothing), strict=False):
        if value is not None:
            titles.setdefault(value, title or _title(name, value))  # the second name of an enum's value is an alias
    if _LEGACY in schema:
        given = schema[_LEGACY]
        if not isinstance(given, list) or [type(title) for title in given] != [str] * len(titles):
            _refuse(path, f"{_LEGACY} has one title for each option, in their order", "list as many titles as options")
        titles = dict(zip(titles, given, strict=True))
    values = {str(value): value for value in titles}
    if len(values) < len(titles):
        _refuse(path, "two options are the same string on the wire", "give them different values")
    options = tuple(Option(str(value), title) for value, title in titles.items())
    return options, values if any(option != value for option, value in values.items()) else {}


def _title(name: str | None, value: Any) -> str | None:
    """What people see of an enum member: EXTRA_LARGE is "Extra large". None where the value says the same."""
    if name is None:
        return None
    words = name.replace("_", " ").strip()
    title = words.capitalize() if words.isupper() or words.islower() else words[:1].upper() + words[1:]
    return None if title == value else title


def _default(schema: Schema, kind: Kind, options: tuple[Option, ...]) -> Any:
    """The default as the wire has it, or UNSET."""
    default = schema.get("default")
    if default is None:
        return UNSET
    if kind == "choice":
        return str(default)
    if kind == "files":
        return UNSET
    if kind == "choices":
        chosen = [str(value) for value in default]
        ordered = [option.value for option in options if option.value in chosen]
        return tuple(ordered if schema.get("uniqueItems") else chosen)  # a set has another order in each process
    return UNSET if kind in ("integer", "number") and (default := _number(default)) is None else default


def _with_valid_default(field: Field) -> Field:
    """The field, without a default that the form itself would not take: pydantic still applies it."""
    schema = requested_schema(SUPPORTED[0], [field])
    default = schema["properties"][field.name].get("default")
    if default is None or not problems(schema, {field.name: default}):
        return field
    return msgspec.structs.replace(field, default=UNSET)
