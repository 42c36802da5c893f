"""The JSON schema of a Python type for a form, as pydantic writes it, with what plain JSON Schema loses.

Three keywords of our own stay inside the server: `x-names` has the names of an enum's members, `x-titles` the titles of
a choice that is written as constants, and `x-invalid` says why a place has no schema, so that the error can name the
field.
"""

from __future__ import annotations

import sys
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NotRequired,
    Required,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic_core import SchemaError

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Schema = dict[str, Any]

POSSIBLE = "a form has str, int, float, bool, date, datetime, Literal and enum fields, list[Literal] and list[Enum]"
NAMES = "x-names"
TITLES = "x-titles"
INVALID = "x-invalid"


def schema_of(kind: Any) -> tuple[TypeAdapter[Any], Schema]:
    """The adapter of a type, and its schema in validation mode.

    Raises: ConfigurationError where pydantic cannot work with the type, naming the field if it is one's fault.
    """
    from pydantic import TypeAdapter

    from .form_generator import FAILURES, FormSchema

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_modern_typed_dict(kind))
        return adapter, adapter.json_schema(schema_generator=FormSchema)
    except FAILURES as error:
        name, hint, cause = _culprit(kind) or ("", kind, error)
        raise ConfigurationError(f"{label(kind)}{name}: {_reason(hint, cause)}; {POSSIBLE}") from error


def label(kind: Any) -> str:
    """A type as a message names it: `Person`, `list[int]`."""
    if get_origin(kind) is Annotated:
        return label(get_args(kind)[0])
    return kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else repr(kind).replace("typing.", "")


def _modern_typed_dict(kind: Any) -> Any:
    """A `typing.TypedDict` as pydantic accepts it: before Python 3.12 it wants the one of `typing_extensions`."""
    if sys.version_info >= (3, 12) or not is_typeddict(kind) or type(kind).__module__ != "typing":
        return kind
    from typing_extensions import TypedDict  # comes with pydantic

    hints = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        said = name in kind.__required_keys__ or get_origin(hint) in (Required, NotRequired)
        hints[name] = hint if said else NotRequired[hint]
    rebuilt = cast(Any, TypedDict)(kind.__name__, hints)
    rebuilt.__module__, rebuilt.__doc__ = kind.__module__, kind.__doc__
    return rebuilt


def _culprit(kind: Any) -> tuple[str, Any, Exception] | None:
    """The field of a dataclass or TypedDict that pydantic has no schema for, its type and the failure."""
    from pydantic import TypeAdapter

    from .form_generator import FAILURES

    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError):
        return None
    for name, hint in hints.items():
        try:
            TypeAdapter(hint)
        except FAILURES as error:
            return f".{name}", hint, error
    return None


def _reason(kind: Any, error: Exception) -> str:
    """Pydantic's failure in a few words, without its advice about pydantic."""
    code = getattr(error, "code", None)
    if isinstance(error, NameError) or code in ("class-not-fully-defined", "undefined-annotation"):
        return "one of its annotations names something that is not defined where the class is"
    if isinstance(error, SchemaError | TypeError):
        return str(error).partition("\n")[0]
    return f"a form cannot ask for {label(kind)}"
