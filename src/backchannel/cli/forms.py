"""One field of a form as the terminal shows it: its label, what may be entered, and how what was typed is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..protocol.forms import problems

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
    def prompt(self) -> str:
        """The line that asks: label, what may be entered, the default."""
        label = self._schema.get("title") or (self.name if self.name != "value" else "Answer")
        default = "" if "default" not in self._schema else f" [{self._show(self._schema['default'])}]"
        return f"{label} ({self._hint()}){default}: "

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
            if self.required:
                raise ValueError("is required")
            return False, None
        kind = self._schema.get("type")
        value = _READERS[kind](self, text) if kind in _READERS else self._choice(text)
        found = problems({"properties": {self.name: self._schema}}, {self.name: value})
        if found:
            raise ValueError(found[self.name])
        return True, value

    def _hint(self) -> str:
        titles = list(self.options.values())
        kind = self._schema.get("type")
        if kind == "boolean":
            return "y/n"
        if titles:
            return ("some of: " if kind == "array" else "") + ", ".join(titles)
        hint = _FORMATS.get(self._schema.get("format", ""), "text") if kind == "string" else str(kind or "text")
        return hint + self._range() + ("" if self.required or "default" in self._schema else ", optional")

    def _range(self) -> str:
        least, most = self._schema.get("minimum"), self._schema.get("maximum")
        if least is not None and most is not None:
            return f", {least} to {most}"
        return f", at least {least}" if least is not None else f", at most {most}" if most is not None else ""

    def _show(self, value: Any) -> str:
        if isinstance(value, bool):
            return "y" if value else "n"
        if isinstance(value, list):
            return ", ".join(map(self._show, value))
        return self.options.get(value, value) if isinstance(value, str) else json.dumps(value)

    def _choice(self, text: str) -> str:
        """An option by its value or its title, whatever the case; anything else stays as it was typed."""
        for value, title in self.options.items():
            if text.casefold() in (value.casefold(), title.casefold()):
                return value
        return text

    def _choices(self, text: str) -> list[str]:
        return [self._choice(part.strip()) for part in text.split(",") if part.strip()]

    def _number(self, text: str) -> Any:
        try:
            return json.loads(text, parse_constant=str)
        except ValueError:
            return text

    def _boolean(self, text: str) -> Any:
        return True if text.casefold() in _YES else False if text.casefold() in _NO else text


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
