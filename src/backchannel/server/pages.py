"""Lists in pages (server/utilities/pagination)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TypeVar

from ..errors import INVALID_PARAMS, LocalProtocolError

T = TypeVar("T")


def page(items: Mapping[str, T], cursor: str | None, size: int | None) -> tuple[list[T], str | None]:
    """The items after `cursor`, at most `size` of them, and the cursor of the next page, or None.

    The cursor names the last item of a page, so it stays good while others come and go.  size: at least 1, or None for
    all.

    Raises: LocalProtocolError (-32602) for a cursor that is none of ours, or whose item is gone.
    """
    names = list(items)
    start = 0
    if cursor is not None:
        last = _read(cursor)
        if last is None or last not in items:
            raise LocalProtocolError(INVALID_PARAMS, "Invalid params: the cursor is not valid any more; list again")
        start = names.index(last) + 1
    shown = names[start:] if size is None else names[start : start + max(size, 1)]
    more = start + len(shown) < len(names)
    return [items[name] for name in shown], _write(shown[-1]) if more else None


def _write(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _read(cursor: str) -> str | None:
    try:
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        return None
