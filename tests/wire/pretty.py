"""JSON laid out for people: what fits goes on one line, and what does not gets a line for each member, where neighbours
that are short share one."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 112


def pretty(value: Any, indent: int = 0, column: int | None = None) -> str:
    """The JSON of a value. The order of members is kept.

    indent: of the lines after the first.  column: where the first begins, if not there.
    """
    short = json.dumps(value, ensure_ascii=False)
    if not _nests(value) or (indent if column is None else column) + len(short) <= WIDTH:
        return short
    if isinstance(value, dict):
        parts = [(f"{json.dumps(name, ensure_ascii=False)}: ", member) for name, member in value.items()]
    else:
        parts = [("", item) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = [f"{' ' * (indent + 2)}{line}" for line in _lines(parts, indent + 2)]
    return "\n".join([opening, *lines, " " * indent + closing])


def _lines(parts: list[tuple[str, Any]], indent: int) -> list[str]:
    """The members, with commas: scalars beside each other share a line as long as there is room."""
    lines: list[str] = []
    shares = False
    for number, (name, member) in enumerate(parts):
        comma = "," if number < len(parts) - 1 else ""
        text = name + pretty(member, indent, indent + len(name) + len(comma)) + comma
        if shares and not _nests(member) and indent + len(lines[-1]) + 1 + len(text) <= WIDTH:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
        shares = not _nests(member)
    return lines


def _nests(value: Any) -> bool:
    return bool(value) and isinstance(value, dict | list)
