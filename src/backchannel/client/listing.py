"""A list of the server's, page by page (server/utilities/pagination)."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

import msgspec

from ..errors import INTERNAL_ERROR, RemoteProtocolError

T = TypeVar("T")
MAX_PAGES = 1000
"""A server whose cursors never end is cut off there."""


class Listing(Generic[T]):
    """An async iterator over all items; awaited, a list of them. It fetches a page when one is needed, so it may be
    left at any item.

    fetch: sends a request of `method`.  page: the type of its result.  member: the field of `page` with the items.
    keep: takes the items of each page as they come, and gives those that are to be seen.
    """

    def __init__(
        self,
        fetch: Callable[[str, dict[str, Any]], Awaitable[msgspec.Raw]],
        method: str,
        page: Any,
        member: str,
        keep: Callable[[list[T]], list[T]] | None = None,
    ):
        self._fetch = fetch
        self._method = method
        self._page = page
        self._member = member
        self._keep = keep
        self._items: deque[T] = deque()
        self._pages = 0
        self._next: dict[str, Any] | None = {}

    def __aiter__(self) -> Listing[T]:
        return self

    def __await__(self) -> Generator[Any, Any, list[T]]:
        return self._all().__await__()

    async def _all(self) -> list[T]:
        return [item async for item in self]

    async def __anext__(self) -> T:
        while not self._items:
            if self._next is None:
                raise StopAsyncIteration
            await self._turn(self._next)
        return self._items.popleft()

    async def _turn(self, params: dict[str, Any]) -> None:
        """Fetch the next page. Cursors say nothing but that there is one: "an empty string is a valid cursor"."""
        if self._pages >= MAX_PAGES:
            raise RemoteProtocolError(INTERNAL_ERROR, f"{self._method} has not ended after {MAX_PAGES} pages")
        raw = await self._fetch(self._method, params)
        try:
            page = msgspec.json.decode(raw, type=self._page)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RemoteProtocolError(INTERNAL_ERROR, f"the result of {self._method} is malformed: {error}") from error
        self._pages += 1
        items = getattr(page, self._member)
        self._items.extend(items if self._keep is None else self._keep(items))
        self._next = {"cursor": page.next_cursor} if page.next_cursor is not None else None
