"""What stands for a message that was dropped because it is over a limit."""

from __future__ import annotations

import re

from ..errors import INVALID_REQUEST
from .jsonrpc import Malformed, scan
from .lines import Oversized

_LAST_ID = re.compile(rb'"id"\s*:\s*(?:-?\d{1,18}|"(?:[^"\\]|\\.)*")\s*}\s*\Z')


def stand_in(part: Oversized, text: str) -> Malformed:
    """A Malformed with this text. The message's id is looked for at both ends, since some peers write it first and
    others last; it is None where it was not found."""
    id, members = scan(part.head)
    if id is None and (last := _LAST_ID.search(part.tail)):
        id, _ = scan(b"{" + last[0])
    return Malformed(INVALID_REQUEST, text, id, not members & {"method", "params"})
