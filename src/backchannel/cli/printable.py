"""Text from the other side, made safe to show."""

from __future__ import annotations

import unicodedata

_SHOWN = frozenset("\n\t")
_HIDDEN = frozenset(("Cc", "Cf", "Co", "Cs"))


def printable(text: str) -> str:
    """A text without what could steer a terminal: control characters show as escapes."""
    for character in {one for one in text if one not in _SHOWN and unicodedata.category(one) in _HIDDEN}:
        text = text.replace(character, ascii(character)[1:-1])
    return text
