"""Lists in pages (server/utilities/pagination)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable, Mapping
from typing import TypeVar

import msgspec

from ..errors import INVALID_PARAMS, LocalProtocolError

T = TypeVar("T")


class Page:
    """A page as it goes on the wire, with all that its version wants."""

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes):
        self.encoded = msgspec.Raw(encoded)


class Pages:
    """The pages of a list as they went out. When it changes, others take their place, so that what was made of the list
    before, even in another thread, is found by nobody.

    Only those are kept that follow from its first: for each form they are the list once, whatever cursors clients
    make up.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, str | None], Page] = {}
        self._follow: set[tuple[Hashable, str | None]] = set()

    def find(self, form: Hashable, cursor: str | None) -> Page | None:
        """The page that begins after `cursor`. form: all that it depends on beside the list."""
        return self._kept.get((form, cursor))

    def keep(self, form: Hashable, cursor: str | None, next: str | None, page: Page) -> Page:
        """Keep it, and give it back. next: where the page that follows begins."""
        if cursor is None or (form, cursor) in self._follow:
            self._kept[form, cursor] = page
            self._follow.add((form, next))
        return page


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
