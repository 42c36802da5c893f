"""One field of a form as the terminal shows it: its label, what may be entered, and how what was typed is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..protocol.form_check import problems, show

_YES, _NO = frozenset(("y", "yes", "true", "1")), frozenset(("n", "no", "false", "0"))
_FORMATS = {"date": "YYYY-MM-DD", "date-time": "YYYY-MM-DDThh:mm:ssZ", "email": "an email address", "uri": "a URI"}


class Blank:
    """One field to fill in.

    name: its key in the answer.  schema: its property in the form's schema.  required: whether it may be left out.
    """

    def __init__(self, name: str, schema: Any, required: bool):
        self.name = name
        self.required = required
        self._schema = _not_null(schema if isinstance(schema, dict) else {})
        self.options = _options(self._schema)

    @classmethod
    def all(cls, schema: dict[str, Any] | None) -> list[Blank]:
        """The fields of a form, in its order."""
        schema = schema or {}
        required = schema.get("required") or ()
        return [cls(name, member, name in required) for name, member in (schema.get("properties") or {}).items()]

    @property
    def label(self) -> str:
        """What people call the field."""
        return str(self._schema.get("title") or (self.name if self.name != "value" else "Answer"))

    @property
    def prompt(self) -> str:
        """The line that asks: label, what may be entered, the default."""
        default = "" if "default" not in self._schema else f" [{self._show(self._schema['default'])}]"
        return f"{self.label} ({self._hint()}){default}: "

    @property
    def description(self) -> str:
        """What the server says about the field, or nothing."""
        return str(self._schema.get("description") or "")

    def read(self, text: str) -> tuple[bool, Any]:
        """What was typed: whether there is a value, and the value.

        Raises: ValueError that says what is wrong.
        """
        if not text:
            if "default" in self._schema:
                return True, self._schema["default"]
            if not self.required:
                return False, None
            if self._schema.get("type") != "array":  # of which none may be a choice, too
                raise ValueError("is required")
        kind = self._schema.get("type")
        value = _READERS[kind](self, text) if kind in _READERS else self._choice(text)
        found = problems({"properties": {self.name: self._schema}}, {self.name: value})
        if found:
            raise ValueError(found[self.name])
        return True, value

    def _hint(self) -> str:
        kind, titles = self._schema.get("type"), ", ".join(self.options.values())
        if kind == "boolean":
            hint = "y/n"
        elif kind == "array":
            hint = f"some of: {titles}{self._bounds('minItems', 'maxItems')}"
        elif titles:
            hint = titles
        elif kind == "string":
            hint = _FORMATS.get(self._schema.get("format", ""), "text")
            hint += self._bounds("minLength", "maxLength", " characters")
        else:
            hint = str(kind or "text") + self._bounds("minimum", "maximum")
        return hint + ("" if self.required or "default" in self._schema else ", optional")

    def _bounds(self, lower: str, upper: str, unit: str = "") -> str:
        """What two keywords of the schema say about least and most."""
        least, most = self._schema.get(lower), self._schema.get(upper)
        if least is not None and most is not None:
            return f", {least}{unit}" if least == most else f", {least} to {most}{unit}"
        if least is None and most is None:
            return ""
        return f", at least {least}{unit}" if most is None else f", at most {most}{unit}"

    def _show(self, value: Any) -> str:
        if isinstance(value, bool):
            return "y" if value else "n"
        if isinstance(value, list):
            return ", ".join(map(self._show, value))
        return self.options.get(value, value) if isinstance(value, str) else json.dumps(value)

    def _choice(self, text: str) -> str:
        """An option by its value or its title, whatever the case; where there are none, the text."""
        for value, title in self.options.items():
            if text.casefold() in (value.casefold(), title.casefold()):
                return value
        if self.options:
            raise ValueError(f"expected one of {', '.join(map(show, self.options.values()))}, got {show(text)}")
        return text

    def _choices(self, text: str) -> list[str]:
        return [self._choice(part.strip()) for part in text.split(",") if part.strip()]

    def _number(self, text: str) -> Any:
        try:
            return json.loads(text, parse_constant=str)
        except ValueError:
            return text

    def _boolean(self, text: str) -> bool:
        if text.casefold() not in _YES | _NO:
            raise ValueError(f"expected y or n, got {show(text)}")
        return text.casefold() in _YES


_READERS: dict[Any, Callable[[Blank, str], Any]] = {
    "boolean": Blank._boolean,
    "integer": Blank._number,
    "number": Blank._number,
    "array": Blank._choices,
}


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The branch that is not null of an `anyOf`, which older servers send for optional fields."""
    branches = [one for one in schema.get("anyOf") or () if isinstance(one, dict) and one.get("type") != "null"]
    if len(branches) != 1 or schema.get("type") == "array":
        return schema
    return {**{word: value for word, value in schema.items() if word != "anyOf"}, **branches[0]}


def _options(schema: dict[str, Any]) -> dict[str, str]:
    """The options of a choice, as value -> title, however the version writes them."""
    place = schema["items"] if isinstance(schema.get("items"), dict) else schema
    for branches in (place.get("oneOf"), place.get("anyOf")):
        if isinstance(branches, list):
            titled = [one for one in branches if isinstance(one, dict) and isinstance(one.get("const"), str)]
            return {one["const"]: str(one.get("title") or one["const"]) for one in titled}
    values = [value for value in place.get("enum") or () if isinstance(value, str)]
    names = place.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return {value: str(title) for value, title in zip(values, titles, strict=True)}
