"""A sequence diagram of recorded messages: the client on the left, the server on the right, time downwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..protocol.jsonrpc import ErrorResponse, Malformed, Notification
from ..testing.transcript import Recorded
from .captions import Captions
from .printable import printable

Style = Literal["message", "notification", "detail", "error", "head"]
_MARGIN = 2
_SHAFT = 3
"""The shortest visible part of an arrow's shaft."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a diagram, and what kind it is."""

    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters to draw with."""

    line: str
    shaft: str
    right: str
    left: str
    more: str


LINES = Glyphs("│", "─", "▶", "◀", "…")
ASCII = Glyphs("|", "-", ">", "<", "...")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Lines where the output can show them, else ASCII."""
    try:
        "│─▶◀…".encode(encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII
    return LINES


def draw(log: Sequence[Recorded], width: int = 100, glyphs: Glyphs = LINES) -> Iterator[Row]:
    """The rows of a diagram. width: in characters, of which the names of instances are the last two."""
    inner = width - 2 * _MARGIN - 4
    captions = Captions()
    yield Row(" client" + " " * (inner - 8) + "server", "head")
    for recorded in log:
        caption = captions.caption(recorded)
        from_client = recorded.sender == "client"
        label = _cut(printable(caption.text), inner - _SHAFT - 6, glyphs)
        yield Row(_row(_arrow(label, inner, from_client, glyphs), recorded.instance, glyphs), _style(recorded))
        for detail in caption.details:
            text = _cut(printable(detail), inner - 8, glyphs)
            text = f"     {text}".ljust(inner) if from_client else f"{text}     ".rjust(inner)
            yield Row(_row(text, "", glyphs), "detail")


def _row(inner: str, instance: str, glyphs: Glyphs) -> str:
    return f"{' ' * _MARGIN}{glyphs.line}{inner}{glyphs.line} {instance}".rstrip()


def _arrow(label: str, inner: int, from_client: bool, glyphs: Glyphs) -> str:
    shaft = glyphs.shaft * (inner - len(label) - 5)
    start = glyphs.shaft * 2
    return f"{start} {label} {shaft}{glyphs.right}" if from_client else f"{glyphs.left}{shaft} {label} {start}"


def _cut(text: str, most: int, glyphs: Glyphs) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - len(glyphs.more)] + glyphs.more


def _style(recorded: Recorded) -> Style:
    if isinstance(recorded.message, ErrorResponse | Malformed):
        return "error"
    return "notification" if isinstance(recorded.message, Notification) else "message"
