"""Tools whose schemas the author writes by hand (server/tools, Tool): they are listed as they are, and arguments and
results are checked by them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from ..errors import ConfigurationError
from ..schemas import Validator
from .results import Output, json_of
from .signature import BadArguments, Signature, context_of

_decode = msgspec.json.Decoder().decode


def check_input(
    function: Callable[..., Any], schema: dict[str, Any], context_type: type, exclude: Collection[str] = ()
) -> GivenSignature:
    """The signature of a function whose arguments a schema describes.

    A function with one parameter besides the Context, which the schema does not name, takes all arguments in it as one
    dict. Any other takes each argument by its name. exclude: parameters that the server supplies.

    Raises: ConfigurationError for a schema that is wrong, or does not fit the function.
    """
    where = f"the input_schema of {getattr(function, '__name__', repr(function))}"
    if schema.get("type") != "object":
        raise ConfigurationError(f'{where} lacks "type": "object"')
    context = context_of(function, context_type)
    not_given = {context, *exclude}
    parameters = {name: one for name, one in inspect.signature(function).parameters.items() if name not in not_given}
    read = Signature.of(function, context_type=context_type, exclude={*parameters, *exclude})
    return GivenSignature(schema, read, _checker(schema, where), _whole(parameters, schema, where), parameters)


def _whole(parameters: dict[str, inspect.Parameter], schema: dict[str, Any], where: str) -> str | None:
    """The parameter that takes all arguments as one dict, or None."""
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    if len(parameters) == 1:
        [(name, only)] = parameters.items()
        if name not in properties and only.kind in (only.POSITIONAL_OR_KEYWORD, only.KEYWORD_ONLY):
            return name
    for name, one in parameters.items():
        if one.kind is one.VAR_KEYWORD:
            continue
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise ConfigurationError(f"{where}: the parameter {name!r} cannot be given by name")
        if one.default is one.empty and name not in required:
            raise ConfigurationError(f"{where} does not require {name!r}, which the function does: give it a default")
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        if missing := [name for name in properties if name not in parameters]:
            raise ConfigurationError(f"{where} has {', '.join(missing)}, for which the function has no parameter")
    return None


class GivenSignature(Signature):
    """The signature of a function whose arguments a schema describes. Made by `check_input`."""

    def __init__(
        self,
        schema: dict[str, Any],
        read: Signature,
        validator: Validator,
        whole: str | None,
        parameters: dict[str, inspect.Parameter],
    ):
        self.input_schema = schema
        self.context, self.is_async, self.output = read.context, read.is_async, read.output
        self._validator = validator
        self._whole = whole
        self._takes = None if any(one.kind is one.VAR_KEYWORD for one in parameters.values()) else frozenset(parameters)
        properties = schema.get("properties") or {}
        hidden = [name for name, node in properties.items() if isinstance(node, dict) and node.get("writeOnly") is True]
        self._hidden = re.compile(rf"({'|'.join(map(re.escape, hidden))})\b.*, got ") if hidden else None

    def bind(self, arguments: bytes | msgspec.Raw | msgspec.UnsetType | None) -> dict[str, Any]:
        """As for any signature. Values are as JSON has them. Raises: BadArguments."""
        try:
            value = _decode(arguments) if arguments else {}
        except msgspec.DecodeError as error:
            raise BadArguments((f"arguments: not valid JSON: {error}",)) from None
        except RecursionError:
            raise BadArguments(("arguments: nested too deeply",)) from None
        value = {} if value is None else value
        errors = tuple(self._masked(text) for text in self._validator.errors(value))
        if self._whole is not None and not errors:
            return {self._whole: value}
        if self._takes is not None and not errors:
            errors = tuple(f"{name}: unexpected" for name in value if name not in self._takes)
        if errors or (self.context is not None and self.context in value):
            raise BadArguments(errors or (f"{self.context}: unexpected",))
        return dict(value)

    def _masked(self, text: str) -> str:
        text = re.sub(r"^the value\b", "arguments", text)
        found = self._hidden.match(text) if self._hidden is not None else None
        return f"{found[0]}***" if found is not None else text


class GivenOutput(Output):
    """The results of a function, as a schema describes them.

    where: the function's name, for messages.

    Raises: ConfigurationError for a schema that is wrong.
    """

    def __init__(self, schema: dict[str, Any], where: str):
        self.where = where
        self.schema = schema
        self._validator = _checker(schema, f"the output_schema of {where}")

    def dump(self, value: Any) -> bytes:
        """The JSON of `value` (server/tools, Output Schema: results MUST conform).

        Raises: ValueError if the schema does not allow it; ToolError if it holds text that cannot be encoded.
        """
        data = json_of(value).encode()
        self.check(_decode(data))
        return data

    def check(self, value: Any) -> None:
        """Raises: ValueError if the schema does not allow this value of JSON."""
        if errors := self._validator.errors(value):
            raise ValueError(f"{self.where} returned what its output_schema does not allow: {'; '.join(errors[:5])}")


def _checker(schema: dict[str, Any], what: str) -> Validator:
    try:
        return Validator(schema)
    except ValueError as error:
        raise ConfigurationError(f"{what}: {error}") from None
