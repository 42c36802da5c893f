"""Form: what a question asks for, made from a Python type once, written for each protocol version, and read back."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic_core import ErrorDetails, ValidationError

from ..errors import ConfigurationError, InvalidAnswer
from ..protocol.form_check import plain_types, show
from ..protocol.forms import Field, Option, check_content, requested_schema
from ..protocol.versions import SUPPORTED, Version
from .form_fields import VALUE, Entry, entries_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Choices = Sequence[str] | Sequence[tuple[str, str]] | Mapping[str, str]
"""What to choose from at run time: texts, with or without titles."""
CACHED = 512  # forms of types that are kept


class Form:
    """The form of one question. Make it with `Form.of`.

    fields: its fields, in terms of no version. digest: 16 hex digits over them, the same in every process, by which a
    question is matched on replay.
    """

    def __init__(self, entries: Iterable[Entry], adapter: TypeAdapter[Any] | None, *, wrapped: bool) -> None:
        self._entries = tuple(entries)
        self._nullable = {entry.field.name for entry in self._entries if entry.nullable}
        self._adapter = adapter
        self._wrapped = wrapped
        self._schemas: dict[tuple[Version, bool], dict[str, Any]] = {}
        self.fields: tuple[Field, ...] = tuple(entry.field for entry in self._entries)
        self.digest = hashlib.sha256(msgspec.json.encode(self.fields, order="sorted")).hexdigest()[:16]

    @staticmethod
    def of(kind: Any) -> Form:
        """The form of a type: one object per type, which is cheap to ask for again.

        kind: a pydantic model, dataclass or TypedDict of primitive fields; `bool`, `int`, `float`, `str`, `date`,
            `Literal`, an enum, a list of `Literal` or enum, any of them with `| None` or in `Annotated`; a list or
            tuple of strings or of (value, title) pairs, or a dict from value to title, to choose from at run time; None
            to ask for consent only.

        Raises: ConfigurationError where the wire has no form for it, with the path of the field and what is possible.
        """
        if kind is None or kind is type(None):
            return _NOTHING
        if not isinstance(kind, type):
            if isinstance(kind, Form):
                return kind
            if isinstance(kind, list | tuple | Mapping):
                return _choices(kind)
            if isinstance(kind, str):
                raise ConfigurationError(f"{kind!r}: a form is made from a type; give str itself, or a list of choices")
        try:
            hash(kind)
        except TypeError:
            return _form(kind)
        return _cached_form(kind)

    def schema(self, version: Version, files: bool = False) -> dict[str, Any]:
        """The `requestedSchema` for `version`. It is kept: do not change it. files: the client declared `fileInputs`.

        Raises: MissingCapability where the version cannot ask this.
        Specification: client/elicitation, Requested Schema.
        """
        schema = self._schemas.get((version, files))
        if schema is None:
            schema = self._schemas[version, files] = requested_schema(version, self.fields, files)
        return schema

    def read(self, content: Mapping[str, Any] | None) -> Any:
        """The value of an accepted answer, with defaults for what it leaves out.

        Raises: InvalidAnswer where it does not fit or is incomplete; `errors` has one sentence a field.
        Specification: client/elicitation, Response Actions.
        """
        given = dict(content or {})
        errors = [] if self._fits(given) else self._adapted(given)
        if not errors:
            try:
                return self._validated(given)
            except ValidationError as error:
                errors = list(_sentences(error, wrapped=self._wrapped))
        raise InvalidAnswer("; ".join(errors), tuple(errors))

    @functools.cached_property
    def _types(self) -> dict[str, type | None]:
        return plain_types(self.schema(SUPPORTED[0]))

    def _fits(self, given: dict[str, Any]) -> bool:
        """Whether an answer is right at first sight, and as pydantic reads it, as most are: it has every field, of
        which nothing is wanted but a type, and of that each is."""
        return {name: type(value) for name, value in given.items()} == self._types

    def _adapted(self, given: dict[str, Any]) -> list[str]:
        """What is wrong with an answer; if nothing is, it becomes what pydantic reads."""
        filled = given
        if self._nullable:
            filled = {name: value for name, value in given.items() if value is not None or name not in self._nullable}
        # The newest wire can write every field, so its schema checks the answer to any. Only what fits is shown to
        # pydantic, so that a user's validators never see what they did not ask for.
        errors = check_content(self.schema(SUPPORTED[0]), filled)
        if errors:
            return errors
        for entry in self._entries:
            name = entry.field.name
            if name in given:
                given[name] = _native(entry, given[name])
            elif entry.fill:
                given[name] = None
        return []

    def _validated(self, given: dict[str, Any]) -> Any:
        """What pydantic makes of an answer: strict, as JSON, so that dates and enums come from their strings."""
        if self._adapter is None:
            return given.get(VALUE) if self._entries else None
        if self._wrapped and VALUE not in given and (default := self._adapter.get_default_value()):
            return default.value
        return self._adapter.validator.validate_json(
            msgspec.json.encode(given.get(VALUE) if self._wrapped else given), strict=True
        )


def _form(kind: Any) -> Form:
    adapter, entries, wrapped = entries_of(kind)
    return Form(entries, adapter, wrapped=wrapped)


_cached_form = functools.lru_cache(CACHED)(_form)
_NOTHING = Form((), None, wrapped=True)


def _choices(given: Iterable[Any]) -> Form:
    """A choice among strings that are known at run time only, with their titles if there are any."""
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        pairs = [one if isinstance(one, tuple) else (one, None) for one in given]
    if not pairs or not all(map(_is_choice, pairs)):
        raise ConfigurationError(
            f"{show(given)}: choices are one or more strings, (string, title) pairs, or a dict from strings to titles"
        )
    if len({value for value, _ in pairs}) < len(pairs):
        raise ConfigurationError(f"{show(given)}: a choice is listed twice")
    field = Field(VALUE, "choice", options=tuple(Option(value, title) for value, title in pairs))
    return Form([Entry(field, nullable=False, fill=False, values={})], None, wrapped=True)


def _is_choice(pair: tuple[Any, ...]) -> bool:
    """Whether it is a value and its title."""
    return len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str | None)


def _native(entry: Entry, value: Any) -> Any:
    """An answer as pydantic reads it: integers without a fraction, options as the values they stand for."""
    if isinstance(value, float) and entry.field.kind == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_native(entry, item) for item in value]
    return entry.values.get(value, value) if isinstance(value, str) else value


def _sentences(error: ValidationError, *, wrapped: bool) -> Iterable[str]:
    """Pydantic's complaints, one a field, with no name in front of what concerns the whole answer."""
    found: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        place = (VALUE, *detail["loc"]) if wrapped else detail["loc"]
        found.setdefault(f"{place[0]}: " if place else "", _sentence(detail))
    return (name + problem for name, problem in found.items())


def _sentence(detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return "is not asked for"
    if detail["type"] in ("value_error", "assertion_error"):
        return str(detail.get("ctx", {}).get("error", detail["msg"])).partition("\n")[0]
    message = re.sub(r"^(Input|String|Value|List|Set) should", "should", detail["msg"])
    return f"{message[:1].lower()}{message[1:]}, got {show(detail['input'])}"
