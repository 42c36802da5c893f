"""What the other side says, or an exception that may repeat it, as part of one line of a log."""

from __future__ import annotations

_MOST = 500


def one_line(said: object) -> str:
    """Its text, of a long one the first 500 characters; what is not printable, line ends too, shows as escapes."""
    text = str(said)
    short = text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
    return short if short.isprintable() else "".join(map(_printable, short))


def _printable(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]
