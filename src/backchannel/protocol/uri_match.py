"""Matching a URI with a template of RFC 6570 (section 1.4 leaves it open).

How it works: a URI is a row of units, one for each character; a template is a row of pieces, each a literal, a hole for
values, or a mark that pieces may be absent. From the last piece to the first it is worked out at which places of the
URI a piece can begin so that all pieces from there on fit up to the end: a set of places, kept as the bits of an
integer, so that one operation works on all places at once. Then one walk from the front reads the values. The time is
that of reading the URI once, and a little for each piece, whatever the URI: a regular expression would try again and
again where several reserved expressions meet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .uri_template import Expression, Variable

Units = list[str]
Found = list[tuple["Variable", str | list[str]]]

_RESERVED = {f"%{ord(character):02X}": character for character in ":/?#[]@!$&'()*+,;="}
_TRIPLETS = re.compile("((?:%[0-9A-Fa-f]{2})+)")
_SEGMENT = frozenset({"/", "?", "#", "%2F", "\\"})
"""What ends a segment of a path. An encoded slash would be a plain one in the value."""


class _Literal(msgspec.Struct, frozen=True):
    units: Units


class _Absent(msgspec.Struct, frozen=True):
    """The following pieces, so many, may be absent."""

    pieces: int


class _Hole(msgspec.Struct, frozen=True):
    """A place for values, without the units in `stops`. Lengths in units. `separator`: between the items of an exploded
    variable, or between `name=value` pairs. `strict`: no item is a dot segment."""

    variables: tuple[Variable, ...]
    stops: frozenset[str]
    separator: str = ""
    least: int = 0
    most: int | None = None
    named: bool = False
    strict: bool = False


Piece = _Literal | _Absent | _Hole


class Matcher:
    """The pieces of a template. parts: its literals and its expressions."""

    def __init__(self, parts: Sequence[str | Expression]):
        self._pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, str):
                # What is not UTF-8 is one unit, which no URI has.
                self._pieces.append(_Literal(_units(part) or [part]))
            elif part.operator.named:
                self._add_named(part)
            else:
                self._pieces.extend(_unnamed(part))
        first = self._pieces[0] if self._pieces else None
        self._start = first.units if isinstance(first, _Literal) else []
        if self._start:
            del self._pieces[0]

    def _add_named(self, expression: Expression) -> None:
        """`{?a}{&b}` is read as `{?a,b}`."""
        first, separator = expression.operator.first, expression.operator.separator
        last = self._pieces[-1] if self._pieces else None
        if first == "&" and isinstance(last, _Hole) and last.named and last.separator == separator:
            self._pieces[-1] = msgspec.structs.replace(last, variables=last.variables + expression.variables)
            return
        stops = frozenset("/?#" if separator == ";" else "#")
        hole = _Hole(expression.variables, stops, separator, named=True)
        self._pieces += [_Absent(2), _Literal([first]), hole]

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """The values, or None."""
        units = _units(uri)
        if units is None or units[: len(self._start)] != self._start:
            return None
        del units[: len(self._start)]
        row = _Row(units)
        begins = [1 << len(units)]
        for piece in reversed(self._pieces):
            begins.append(_begin(piece, row, begins))
        begins.reverse()
        found = self._read(units, begins) if begins[0] & 1 else None
        return None if found is None else _agreed(found)

    def _read(self, units: Units, begins: list[int]) -> Found | None:
        """Walk through a URI that matches. begins: where each piece can begin."""
        found: Found = []
        index = place = 0
        while index < len(self._pieces):
            piece = self._pieces[index]
            index += 1
            if isinstance(piece, _Literal):
                place += len(piece.units)
            elif isinstance(piece, _Hole):
                end = _nearest(begins[index], place + piece.least)
                values = _read_named(piece, units[place:end]) if piece.named else _read(piece, units[place:end])
                if values is None:
                    return None
                found += values
                place = end
            elif not begins[index] >> place & 1:
                index += piece.pieces
        return found


def _unnamed(expression: Expression) -> list[Piece]:
    """The pieces of an expression that writes no names. If its operator has a first character, it may be absent, and
    so may its variables from the last one on."""
    operator = expression.operator
    pieces: list[Piece] = []
    for index, variable in reversed(list(enumerate(expression.variables))):
        lead = operator.separator if index else operator.first
        pieces = [*([_Literal([lead])] if lead else []), _hole(expression, variable), *pieces]
        if operator.first:
            pieces.insert(0, _Absent(len(pieces)))
    return pieces


def _hole(expression: Expression, variable: Variable) -> _Hole:
    operator = expression.operator
    if operator.reserved:
        stops = frozenset("" if operator.first == "#" else "?#")
    elif variable.explode:
        stops = _SEGMENT - {operator.separator}
    else:
        # A comma parts variables, and is a part of the value where there is but one.
        parts = operator.separator != "," or len(expression.variables) > 1
        stops = _SEGMENT | {operator.separator} if parts else _SEGMENT
    separator = operator.separator if variable.explode else ""
    strict = not operator.reserved
    return _Hole((variable,), stops, separator, int(strict), variable.prefix, strict=strict)


class _Row:
    """The places of a URI."""

    def __init__(self, units: Units):
        self.size = len(units)
        self._where: dict[str, list[int]] = {}
        for place, unit in enumerate(units):
            self._where.setdefault(unit, []).append(place)
        self._places: dict[str, int] = {}

    def places(self, unit: str) -> int:
        """Where a unit stands."""
        if unit not in self._where:
            return 0
        if unit not in self._places:
            digits = bytearray(b"0" * self.size)
            for place in self._where[unit]:
                digits[-1 - place] = ord("1")
            self._places[unit] = int(digits, 2)
        return self._places[unit]

    def others(self, units: Iterable[str]) -> int:
        """Where none of these units stands."""
        result = (1 << self.size) - 1
        for unit in units:
            result &= ~self.places(unit)
        return result


def _begin(piece: Piece, row: _Row, later: list[int]) -> int:
    """The places where the piece can begin. later: the same of the later pieces, the next one last."""
    after = later[-1]
    if isinstance(piece, _Absent):
        return after | later[-1 - piece.pieces]
    if isinstance(piece, _Literal):
        places = after >> len(piece.units)
        for offset, unit in enumerate(piece.units):
            if not places:
                break
            places &= row.places(unit) >> offset
        return places
    allowed = row.others(piece.stops)
    most = row.size if piece.most is None else piece.most
    places = _before(after, allowed, most - piece.least)
    return places >> 1 & allowed if piece.least else places


def _before(places: int, allowed: int, most: int) -> int:
    """These places, and those from which allowed units lead to one, at most so many of them."""
    run = allowed
    while most > 0 and run:
        step, run = 1, allowed
        while step <= most and run:  # `run`: where so many allowed units begin
            places |= places >> step & run
            most -= step
            run &= run >> step
            step *= 2
    return places


def _nearest(places: int, start: int) -> int:
    rest = places >> start
    return start + (rest & -rest).bit_length() - 1


def _read(hole: _Hole, units: Units) -> Found | None:
    """What a hole without names holds, or None if it may not hold that."""
    [variable] = hole.variables
    items = [_text(item) for item in (_split(units, hole.separator) if hole.separator else [units])]
    if hole.strict and not {".", ".."}.isdisjoint(items):
        return None
    return [(variable, items if variable.explode else items[0])]


def _read_named(hole: _Hole, units: Units) -> Found | None:
    """What a hole with names holds, such as `a=1&b=2`, or None if it has something that the template does not name."""
    known = {"".join(_units(variable.name) or []): variable for variable in hole.variables}
    values: dict[Variable, list[str]] = {}
    for pair in filter(None, _split(units, hole.separator)):
        equals = pair.index("=") if "=" in pair else len(pair)
        variable, value = known.get("".join(pair[:equals])), _text(pair[equals + 1 :])
        if variable is None or (variable.prefix and len(value) > variable.prefix):
            return None
        values.setdefault(variable, []).append(value)
    if any(len(given) > 1 and not variable.explode for variable, given in values.items()):
        return None
    return [(variable, given if variable.explode else given[0]) for variable, given in values.items()]


def _agreed(found: Found) -> dict[str, str | list[str]] | None:
    """The values by name. A variable that stands in several places, say as a prefix and whole, has one value."""
    result: dict[str, str | list[str]] = {}
    for variable, value in sorted(found, key=lambda one: -(one[0].prefix or 10_000)):
        if value != result.setdefault(variable.name, value)[: variable.prefix]:
            return None
    return result


def _units(uri: str) -> Units | None:
    """The units: characters, and for reserved ones that are encoded their triplets, so that equal URIs have equal units
    (RFC 3986, section 2.2). None if it is not UTF-8."""
    try:
        if "%" not in uri:
            uri.encode()
            return list(uri)
        units: Units = []
        for index, piece in enumerate(_TRIPLETS.split(uri)):
            if index % 2 == 0:
                piece.encode()
                units += piece
                continue
            for character in bytes.fromhex(piece.replace("%", "")).decode():
                triplet = f"%{ord(character):02X}"
                units.append(triplet if triplet in _RESERVED else character)
    except UnicodeError:
        return None
    return units


def _text(units: Units) -> str:
    return "".join([_RESERVED.get(unit, unit) for unit in units])


def _split(units: Units, separator: str) -> list[Units]:
    items: list[Units] = [[]]
    for unit in units:
        if unit == separator:
            items.append([])
        else:
            items[-1].append(unit)
    return items
