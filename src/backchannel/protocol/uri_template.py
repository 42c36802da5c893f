"""URI templates of RFC 6570: expanded by clients, and matched by servers, which the RFC leaves open.

How it works: a template is literals and expressions. Each operator is a row of the RFC's own table (first character,
separator, whether names are written, what follows the name of an empty value, whether reserved characters stay), and
expansion is the RFC's algorithm over that row. Matching is in `uri_match`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from .uri_match import Matcher

Value = str | Sequence[str] | Mapping[str, str | None] | None
_RESERVED = ":/?#[]@!$&'()*+,;="


class Operator(msgspec.Struct, frozen=True):
    """A row of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool
    empty: str
    reserved: bool


_OPERATORS = {
    "": Operator("", ",", False, "", False),
    "+": Operator("", ",", False, "", True),
    "#": Operator("#", ",", False, "", True),
    ".": Operator(".", ".", False, "", False),
    "/": Operator("/", "/", False, "", False),
    ";": Operator(";", ";", True, "", False),
    "?": Operator("?", "&", True, "=", False),
    "&": Operator("&", "&", True, "=", False),
}


class Variable(msgspec.Struct, frozen=True):
    """`name`, `name:3` (a prefix of at most 3 characters) or `name*` (exploded)."""

    name: str
    prefix: int | None = None
    explode: bool = False


class Expression(msgspec.Struct, frozen=True):
    """What stands between braces."""

    operator: Operator
    variables: tuple[Variable, ...]


_PART = re.compile(r"\{([+#./;?&]?)([^{}]*)\}|([^{}]+)|([{}])")
_VARIABLE = re.compile(r"((?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*)(?::([1-9]\d{0,3})|(\*))?", re.ASCII)


class UriTemplate:
    """A parsed template. `names`: its variables, in order and once each; percent triplets in a name are a part of it.

    Raises: ValueError that says where the template is wrong.
    """

    def __init__(self, template: str):
        self.template = template
        self._parts = tuple(_parse(template))
        found = [variable.name for part in self._parts if isinstance(part, Expression) for variable in part.variables]
        self.names = tuple(dict.fromkeys(found))
        self._matcher = Matcher(self._parts)

    @property
    def is_template(self) -> bool:
        """False for a plain URI."""
        return bool(self.names)

    def expand(self, values: Mapping[str, Value]) -> str:
        """The URI for these values. What is None, missing or empty as a list or mapping is left out.

        Raises: ValueError for a prefix of a list or mapping; TypeError for a value of another type.
        """
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """The values that give this URI, percent-decoded, or None if it is none of this template's.

        An exploded variable is a list, any other is text. What need not be there has no entry: the variables of
        `{?a}`, `{&a}` and `{;a}`, which come in any order, and those of `{/a}`, `{.a}` and `{#a}`, from the last one
        on. A `{+a}` may be empty. Where a URI can be read in several ways, earlier variables take the least. A query
        parameter that the template does not name, or one that is given twice, is no match. A mapping is not read back.

        Security: a value of `{a}`, `{.a}`, `{/a}` and each item of `{/a*}` is one segment of a path. It has no slash
        and no backslash, plain or encoded, and is not `.` or `..`; a URI with `%2F` there is no match. A value of
        `{+a}`, `{#a}`, `{?a}`, `{&a}` and `{;a}` may be anything, such as `../../etc/passwd`, written so or as
        `%2E%2E%2F`: who makes a path of it must resolve that path and see that it is still inside ("Servers MUST
        sanitize file paths", server/resources, Security Considerations).
        """
        return self._matcher.match(uri)


def _parse(template: str) -> list[str | Expression]:
    parts: list[str | Expression] = []
    for match in _PART.finditer(template):
        operator, body, literal, stray = match.groups()
        if stray is not None:
            raise ValueError(f"the URI template {template!r} has a brace without a partner")
        if literal is not None:
            parts.append(_encode(literal, reserved=True))
            continue
        variables = []
        for item in body.split(","):
            found = _VARIABLE.fullmatch(item)
            if found is None:
                raise ValueError(f"the URI template {template!r} has no valid variable in {match[0]!r}")
            prefix = int(found[2]) if found[2] else None
            variables.append(Variable(found[1], prefix, found[3] is not None))
        parts.append(Expression(_OPERATORS[operator], tuple(variables)))
    return parts


def _expand(expression: Expression, values: Mapping[str, Value]) -> str:
    operator = expression.operator
    expanded = [_expand_variable(operator, variable, values.get(variable.name)) for variable in expression.variables]
    pieces = [piece for piece in expanded if piece is not None]
    return operator.first + operator.separator.join(pieces) if pieces else ""


def _expand_variable(operator: Operator, variable: Variable, value: Value) -> str | None:
    """What a variable adds, or None if its value is undefined (RFC 6570, section 3.2.1)."""

    def named(name: str, text: str) -> str:
        if not operator.named:
            return text
        return f"{name}={text}" if text else name + operator.empty

    if value is None:
        return None
    if isinstance(value, str):
        cut = _prefix(value, variable.prefix, operator.reserved) if variable.prefix else value
        return named(variable.name, _encode(cut, operator.reserved))
    if variable.prefix:
        raise ValueError(f"{variable.name}:{variable.prefix} is a prefix, and the value is not text: {value!r}")
    if isinstance(value, Mapping):
        members = {_encode(key, operator.reserved): item for key, item in value.items() if item is not None}
        pairs = [(key, _encode(item, operator.reserved)) for key, item in members.items()]
        if variable.explode:
            pieces = [named(*pair) if operator.named else "=".join(pair) for pair in pairs]
        else:
            pieces = [word for pair in pairs for word in pair]
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        pieces = [_encode(item, operator.reserved) for item in value if item is not None]
        if variable.explode:
            pieces = [named(variable.name, piece) for piece in pieces]
    else:
        raise TypeError(f"{variable.name} is text, a list or a mapping in a URI, not {type(value).__name__}")
    if not pieces:
        return None
    return operator.separator.join(pieces) if variable.explode else named(variable.name, ",".join(pieces))


_TRIPLET = re.compile(r"(%[0-9A-Fa-f]{2})")
_CHARACTER = re.compile(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)


def _prefix(text: str, length: int, reserved: bool) -> str:
    """The first characters. One that is encoded already, and may stay so, is not torn apart (RFC 6570, section
    2.4.1)."""
    return "".join(_CHARACTER.findall(text)[:length]) if reserved and "%" in text else text[:length]


def _encode(text: str, reserved: bool) -> str:
    """Percent-encode; where reserved characters stay, so do triplets that are encoded already."""
    if not reserved:
        return quote(text, safe="")
    if "%" not in text:
        return quote(text, safe=_RESERVED)
    pieces = _TRIPLET.split(text)
    return "".join(piece if index % 2 else quote(piece, safe=_RESERVED) for index, piece in enumerate(pieces))
