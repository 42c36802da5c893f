"""What the values of a handler look like as JSON: their schemas, what is wrong with them, and the results that they
become (server/tools, Tool Result)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from pydantic_core import (
    ErrorDetails,
    SchemaError,
    SchemaSerializer,
    ValidationError,
    to_json,
)

from ..errors import ConfigurationError, ToolError
from ..media import Media as Media
from ..protocol.types.content import ContentBlock, TextContent, UnknownContent
from ..protocol.types.tools import CallToolResult
from .plain import Plain, plain_type

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_SURROGATE = "the result holds half of a surrogate pair, such as \\ud83d, which is no text and cannot be sent"
_ABSENT = {"missing", "missing_argument", "missing_keyword_only_argument"}
_EXTRA = {"extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument"}
_BLOCK = ContentBlock | UnknownContent | Media
_scan = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Output:
    """How the results of a function are described: `schema` for `outputSchema`, `dump` for `structuredContent`.

    annotation: the resolved type. where: the function's name, for messages. namespace: names for string annotations
    inside of the type. inline_refs: write the schema without `$ref`.

    Raises: ConfigurationError for a type that JSON Schema cannot carry.
    """

    def __init__(self, annotation: Any, where: str, namespace: dict[str, Any] | None = None, inline_refs: bool = False):
        self.where = where
        what = f"{where}: the return annotation"
        self._adapter, self.schema = describe(annotation, what, "serialization", namespace, inline_refs)
        core = self._adapter.core_schema
        self._plain = core["type"] in ("bool", "int", "str") and "serialization" not in core
        self._has_floats = may_hold_floats(core)

    def dump(self, value: Any) -> bytes:
        """The JSON of `value`, as the schema describes it (server/tools, Output Schema: results MUST conform).

        Raises: ValueError if it does not fit the annotation; ToolError if it holds text that cannot be encoded.
        """
        try:
            valid, serializer = self._adapter.validator.validate_python(value), self._adapter.serializer
            if self._plain:  # there is nothing to warn of
                return serializer.to_json(valid)
            data = serializer.to_json(valid, by_alias=True, warnings="error")
            # What pydantic makes of NaN, and of half a pair in a key.
            suspect = self._has_floats and b"null" in data and _has_nan(serializer, valid)
            if suspect or (not data.isascii() and b"\xef\xbf\xbd" in data):
                inspect_value(serializer.to_python(valid, warnings=False))
        except ValidationError as error:
            texts = "; ".join(faults(error, value, "result")[:5])
            raise ValueError(f"{self.where} returned what its return annotation does not allow: {texts}") from None
        except ValueError as error:
            _refuse(f"{self.where} returned", error)
        return data

    def check(self, value: Any) -> None:
        """Whether the author's own structured content conforms: of what an annotation describes, it is the author's
        affair."""


def _has_nan(serializer: SchemaSerializer, valid: Any) -> bool:
    """Whether there may be a number that is not finite. It is read twice, for that is faster than to look at each."""
    python = serializer.to_python(valid, warnings=False)
    data = to_json(python, inf_nan_mode="constants", serialize_unknown=True)
    return b"NaN" in data or b"Infinity" in data


def to_result(value: Any, output: Output | None) -> CallToolResult:
    """The result of a tool call whose function returned `value`.

    Text and content blocks become `content`. With an `output`, anything becomes structured content, and its JSON a text
    block beside it (server/tools, Structured Content); without one, there is no schema to conform to, and only the
    text block is sent. A CallToolResult is passed on as it is.

    Raises: ToolError if it holds text that cannot be encoded; ValueError, for the log, if JSON cannot carry it.
    """
    if isinstance(value, CallToolResult):
        return _passed(value, output)
    if output is not None:
        data = output.dump(value)
        return CallToolResult([TextContent(data.decode())], msgspec.Raw(data))
    if isinstance(value, str):
        return CallToolResult([text_content(value)])
    if value is None:
        return CallToolResult()
    if isinstance(value, _BLOCK):
        value = [value]
    if isinstance(value, list | tuple) and (not value or any(isinstance(item, _BLOCK) for item in value)):
        return CallToolResult([_block(item) for item in value])
    return CallToolResult([TextContent(json_of(value))])


def error_result(text: str) -> CallToolResult:
    """A failed call, told to the model (server/tools, Error Handling). Any `text` will do: what cannot be encoded is
    replaced."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return CallToolResult([TextContent(text)], is_error=True)


def text_content(text: str) -> TextContent:
    inspect_value(text)
    return TextContent(text)


def _block(item: Any) -> Any:
    if isinstance(item, str):
        return text_content(item)
    if isinstance(item, Media):
        return item.block()
    if not isinstance(item, ContentBlock | UnknownContent):
        raise ValueError(f"a list of content blocks holds a {type(item).__name__}; only blocks and str can be mixed")
    inspect_value(item)
    return item


def _passed(result: CallToolResult, output: Output | None) -> CallToolResult:
    """The author's own result, when it can be sent. A failure need not conform to the output schema."""
    result.content = [item.block() if isinstance(item, Media) else item for item in result.content]
    if output is not None and not result.is_error:
        output.check(result.structured_content)
    inspect_value(result.content)
    inspect_value(result.meta)
    if not isinstance(result.structured_content, msgspec.UnsetType | msgspec.Raw):
        try:
            inspect_value(result.structured_content)
            _encode(result.structured_content)
        except TypeError as error:
            raise ValueError(f"structured_content is not JSON: {error}; return the object itself") from None
    return result


def json_of(value: Any) -> str:
    """The JSON text of a value that no annotation describes.

    Raises: ToolError if it holds text that cannot be encoded; ValueError if JSON cannot carry it.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        raise ValueError(
            "bytes are no result: return text, or an Image, Audio or File of backchannel.types, which take bytes"
        )
    try:
        data = to_json(value, by_alias=True, inf_nan_mode="constants", fallback=msgspec.to_builtins)
        if b"NaN" in data or b"Infinity" in data:
            _scan(data)
        if b"\xef\xbf\xbd" in data:
            inspect_value(value)
    except ValueError as error:
        _refuse(f"a result of type {type(value).__name__} is", error)
    return data.decode()


def _refuse(what: str, error: ValueError) -> NoReturn:
    if "surrogates not allowed" in str(error):
        raise ToolError(_SURROGATE) from None
    raise ValueError(f"{what} what JSON cannot carry: {error}") from error


def inspect_value(value: Any) -> None:
    """Raises: ToolError for half a surrogate pair, ValueError for a number that is not finite, wherever it is."""
    if isinstance(value, str):
        try:
            value.isascii() or msgspec.Raw(value)  # the string keeps its UTF-8, which the encoder wants then
        except UnicodeEncodeError:
            raise ToolError(_SURROGATE) from None
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is not finite")
    elif isinstance(value, dict):
        for name, item in value.items():
            inspect_value(name)
            inspect_value(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            inspect_value(item)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            inspect_value(getattr(value, field))


def describe(
    annotation: Any, what: str, mode: Any, namespace: dict[str, Any] | None, inline_refs: bool
) -> tuple[TypeAdapter[Any] | Plain, dict[str, Any]]:
    """Validator, serializer and JSON Schema 2020-12 of a type. mode: "validation" or "serialization".

    Raises: ConfigurationError, which begins with `what`.
    """
    if (found := plain_type(annotation)) is not None:
        return found
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticUndefinedAnnotation

    from .json_schema import ToolSchema

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True, _types_namespace=namespace or {})
        schema = adapter.json_schema(schema_generator=ToolSchema, mode=mode)
    except PydanticUndefinedAnnotation as error:
        raise ConfigurationError(f"{what} mentions {error.name!r}, which is not defined yet") from None
    except (PydanticUserError, SchemaError, TypeError, ValueError, NameError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise ConfigurationError(f"{what} cannot be described by JSON Schema: {reason}") from error
    definitions = schema.get("$defs", {})
    for name, node in [(getattr(annotation, "__name__", ""), schema), *definitions.items()]:
        if name.endswith(re.sub(r"[^\w.\-]", "_", node.get("title", "-"))):  # it only repeats the name of the class
            node.pop("title", None)
    if inline_refs:
        schema.pop("$defs", None)
        return adapter, _inlined(schema, definitions, what)
    if (root := schema.pop("$ref", None)) is not None:  # clients look for `type` at the top
        schema = {**definitions[_name(root)], **schema}
    return adapter, schema


_WITHOUT_FLOATS = {
    *("bool", "int", "str", "bytes", "none", "literal", "enum", "uuid", "url", "date", "time", "datetime"),
    *("list", "set", "frozenset", "tuple", "dict", "union", "tagged-union", "nullable", "default", "definitions"),
    *("definition-ref", "typed-dict", "typed-dict-field", "model", "model-fields", "model-field", "dataclass"),
    *("dataclass-args", "dataclass-field"),
}


def may_hold_floats(core: Any) -> bool:
    """Whether what fits one of pydantic's core schemas, or is written with it, can have a float somewhere. What is not
    known for sure to have none may."""
    if isinstance(core, list | tuple):
        return any(map(may_hold_floats, core))
    if not isinstance(core, dict):
        return False
    kind = core.get("type")
    if "serialization" in core or (isinstance(kind, str) and kind not in _WITHOUT_FLOATS):
        return True
    if "allow" in (core.get("extra_behavior"), core.get("extra_fields_behavior")):
        return True
    return any(may_hold_floats(part) for name, part in core.items() if name != "metadata")


def holds_secret(node: Any, definitions: dict[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Whether a schema has a secret somewhere, such as a SecretStr: `writeOnly` marks it."""
    if isinstance(node, list):
        return any(holds_secret(item, definitions, seen) for item in node)
    if not isinstance(node, dict):
        return False
    if isinstance(ref := node.get("$ref"), str) and (name := _name(ref)) not in seen:
        if holds_secret(definitions.get(name), definitions, seen | {name}):
            return True
    return node.get("writeOnly") is True or any(holds_secret(item, definitions, seen) for item in node.values())


def _name(ref: str) -> str:
    return ref.rpartition("/")[2]


def _inlined(
    node: Any, definitions: dict[str, Any], path: str, within: tuple[str, ...] = (), names: bool = False
) -> Any:
    """The schema with every `$ref` replaced. path: where we are, for the message. names: the keys are properties."""
    if isinstance(node, list):
        return [_inlined(item, definitions, path, within) for item in node]
    if not isinstance(node, dict):
        return node
    if not names and isinstance(ref := node.get("$ref"), str):
        if (name := _name(ref)) in within:
            raise ConfigurationError(f"{path}: {name} contains itself, which a schema without $ref cannot say")
        merged = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
        return _inlined(merged, definitions, path, (*within, name))
    inlined = {}
    for key, value in node.items():
        if names:
            inlined[key] = _inlined(value, definitions, f"{path}.{key}", within)
        elif key in ("default", "const", "enum", "examples"):
            inlined[key] = value
        elif key != "discriminator":  # its mapping holds references, and the alternatives say the same
            step = "[]" if key in ("items", "prefixItems", "additionalProperties") else ""
            inlined[key] = _inlined(value, definitions, path + step, within, key in ("properties", "patternProperties"))
    return inlined


def faults(error: ValidationError, value: Any, root: str, secret: Collection[int | str] = ()) -> tuple[str, ...]:
    """What is wrong, one sentence for each place: `items[0].count: expected integer, got "x"`.

    value: what was validated, to tell its steps from pydantic's names of union members. root: what to call the whole.
    secret: the members whose values are never shown.
    """
    found: dict[str, tuple[list[str], str]] = {}
    for problem in error.errors(include_url=False):
        loc = problem["loc"]
        path = follow(loc, value)[0]
        if problem["type"] in _ABSENT:
            path.append(loc[-1])
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{cut(step, 40)}" for step in path).lstrip(".")
        hidden = bool(secret) and (not loc or loc[0] in secret)
        found.setdefault(place or root, ([], _got(problem, hidden)))[0].append(_reason(problem))
    return tuple(f"{place}: {_join(reasons)}{got}" for place, (reasons, got) in found.items())


def follow(loc: tuple[int | str, ...], value: Any) -> tuple[list[int | str], Any]:
    """The steps of a location that are steps in `value`, and where they lead."""
    path: list[int | str] = []
    for step in loc:
        if isinstance(step, str) and isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(step, int) and isinstance(value, list | tuple) and step < len(value):
            value = value[step]
        elif isinstance(step, str) and isinstance(there := getattr(value, "__dict__", None), dict) and step in there:
            value = there[step]
        else:
            continue
        path.append(step)
    return path, value


def cut(text: str, limit: int) -> str:
    """Text of at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _reason(problem: ErrorDetails) -> str:
    """Pydantic's message in fewer words."""
    kind, text = problem["type"], problem["msg"]
    if kind in _ABSENT | _EXTRA:
        return "missing" if kind in _ABSENT else "unexpected"
    if kind.endswith("_parsing"):
        text = text.partition(", ")[0]
    text = re.sub(r"^Input should be (an? )?(valid )?", "expected ", text)
    return cut(" ".join(re.sub(r"^(Value error, |Assertion failed, |Input )", "", text).split()), 200)


def _join(reasons: list[str]) -> str:
    """The members of a union each give a reason."""
    expected = dict.fromkeys(reason[9:] for reason in reasons if reason.startswith("expected "))
    others = dict.fromkeys(reason for reason in reasons if not reason.startswith("expected "))
    return ", ".join([f"expected {' or '.join(expected)}"] * bool(expected) + list(others))


def _got(problem: ErrorDetails, hidden: bool) -> str:
    """What came, short enough to read, and never what a container holds."""
    given = problem["input"]
    if problem["type"] in _ABSENT | _EXTRA:
        return ""
    if hidden:
        return ", got ***"
    if isinstance(given, dict | list):
        return f", got {'object' if isinstance(given, dict) else 'array'}"
    if isinstance(given, str):
        return f", got {json.dumps(cut(given, 40), ensure_ascii=False)}"
    if given is None or isinstance(given, int | float):
        return f", got {cut(json.dumps(given), 40)}"
    return ""
