"""A transcript: what went over the wire, in order, and the text that it is kept as.

How it works: every frame is kept as the bytes that were sent. The text replaces what differs from run to run by a name
that stays the same for the same value: a state that comes back is the `<state 1>` that was given out.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field
from typing import Any, Literal

from .pretty import WIDTH, pretty

Side = Literal["client", "server"]
ARROWS: dict[Side, str] = {"client": "→", "server": "←"}
STATES, ELICITATIONS = "requestState", "elicitationId"
_RANDOM = {STATES: "state", ELICITATIONS: "elicitation"}


@dataclass(frozen=True)
class Frame:
    """One thing that was sent.

    head: what HTTP says before the message, in lines; empty elsewhere.  data: the bytes of the message, or of a batch;
    None where there is no body.  exchange: the number of the HTTP request that it belongs to.  prefix: what stands
    before the message on its line, such as `data:`.
    connection: which client sent or got it.  valid: False for what is wrong on purpose.
    """

    sender: Side
    data: bytes | None
    head: tuple[str, ...] = ()
    exchange: int | None = None
    prefix: str = ""
    connection: int = 1
    valid: bool = True
    shown: bool = True

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in it: one, those of a batch, or none. What is no JSON has none."""
        try:
            value = json.loads(self.data or b"[]")
        except ValueError:
            return []
        return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class Note:
    """A line that says what happens."""

    text: str


@dataclass
class Transcript:
    """What was recorded of one scenario at one version."""

    feature: str
    version: str
    summary: str
    entries: list[Frame | Note] = field(default_factory=list)

    @property
    def frames(self) -> list[Frame]:
        """What was sent, also what the text does not show."""
        return [entry for entry in self.entries if isinstance(entry, Frame)]

    def text(self) -> str:
        """The whole text."""
        names = Names()
        parts = [f"{self.feature}, {self.version}", textwrap.fill(self.summary, WIDTH)]
        for entry in self.entries:
            if isinstance(entry, Note):
                parts.append(textwrap.fill(entry.text, WIDTH, initial_indent="# ", subsequent_indent="# "))
            elif entry.shown:
                parts.append(_paragraph(entry, names))
        return "\n\n".join(parts) + "\n"


class Names:
    """Names for what differs from run to run, counted in the order in which it is met."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def name(self, kind: str, value: str) -> str:
        """The name of a random value."""
        count = sum(known == kind for known, _ in self._known) + 1
        return self._known.setdefault((kind, value), f"<{kind} {count}>")

    def replace(self, value: Any) -> Any:
        """The same JSON, with names in the places of what is random."""
        if isinstance(value, list):
            return [self.replace(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            member: self.name(_RANDOM[member], item)
            if member in _RANDOM and isinstance(item, str)
            else self.replace(item)
            for member, item in value.items()
        }

    def header(self, line: str) -> str:
        """A line of a head; a session's id is random."""
        name, colon, value = line.partition(": ")
        return f"{name}{colon}{self.name('session', value)}" if name == "Mcp-Session-Id" else line


def _paragraph(frame: Frame, names: Names) -> str:
    beginning = f"{ARROWS[frame.sender]} " + (f"[{frame.exchange}] " if frame.exchange is not None else "")
    indent = " " * len(beginning)
    lines = [names.header(line) for line in frame.head]
    if frame.data is not None:
        lines.append(frame.prefix + _body(frame, names, len(indent), len(indent) + len(frame.prefix)))
    return beginning + f"\n{indent}".join(lines)


def _body(frame: Frame, names: Names, indent: int, column: int) -> str:
    assert frame.data is not None
    try:
        value = json.loads(frame.data)
    except ValueError:
        return frame.data.decode("utf-8", "backslashreplace").rstrip("\n")
    return pretty(names.replace(value), indent, column)
