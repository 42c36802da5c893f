"""Pages of lists."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import INVALID_PARAMS, LocalProtocolError
from backchannel.server.pages import page

ITEMS = {name: name.upper() for name in "abcde"}


def pages(items: dict[str, Any], size: int | None) -> list[list[Any]]:
    found, cursor = [], None
    while True:
        items_of_page, cursor = page(items, cursor, size)
        found.append(items_of_page)
        if cursor is None:
            return found


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (None, ["ABCDE"]),
        (5, ["ABCDE"]),
        (99, ["ABCDE"]),
        (4, ["ABCD", "E"]),
        (2, ["AB", "CD", "E"]),
        (1, ["A", "B", "C", "D", "E"]),
        (0, ["A", "B", "C", "D", "E"]),
    ],
)
def test_pages(size: int | None, expected: list[str]) -> None:
    assert pages(ITEMS, size) == [list(names) for names in expected]


@pytest.mark.parametrize("size", [None, 1, 3])
def test_nothing_is_one_empty_page(size: int | None) -> None:
    assert page({}, None, size) == ([], None)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers()), st.integers(1, 9))
def test_every_item_once_in_order(items: dict[str, int], size: int) -> None:
    found = pages(items, size)
    assert [item for items_of_page in found for item in items_of_page] == list(items.values())
    assert {len(items_of_page) for items_of_page in found[:-1]} <= {size}


def test_a_cursor_is_not_for_reading() -> None:
    _, cursor = page({"file:///home/{+path}": 1, "b": 2}, None, 1)
    assert cursor is not None and "file" not in cursor and cursor.isascii()


def test_a_cursor_stays_good_while_others_come_and_go() -> None:
    _, cursor = page(ITEMS, None, 2)
    assert page({"b": 1, "new": 2, "e": 3}, cursor, 9) == ([2, 3], None)
    assert page({"c": 1, "d": 2, "b": 3}, cursor, 9) == ([], None)


def test_a_cursor_is_good_for_another_size() -> None:
    _, cursor = page(ITEMS, None, 2)
    assert page(ITEMS, cursor, None) == (["C", "D", "E"], None)


@pytest.mark.parametrize(
    "cursor",
    ["", "a", "!", "YQ", "YQ=", "YQ==\n", " YQ==", "YQ==YQ==", "_w==", "Wg==", "é", "\ud800", "\0", "1", "YWI=" * 9999],
    ids=ascii,
)
def test_other_cursors_are_refused(cursor: str) -> None:
    """An empty one too: it is a cursor like any other ("Clients MUST treat cursors as opaque tokens")."""
    with pytest.raises(LocalProtocolError, match="the cursor is not valid any more; list again") as caught:
        page(ITEMS, cursor, 2)
    assert caught.value.code == INVALID_PARAMS


def test_the_cursor_of_an_item_that_is_gone_is_refused() -> None:
    _, cursor = page(ITEMS, None, 2)
    with pytest.raises(LocalProtocolError, match="not valid"):
        page({"a": 1, "c": 2}, cursor, 2)


def test_names_of_any_kind() -> None:
    items = {"": 1, "ü/?": 2, "a+b": 3}
    assert pages(items, 1) == [[1], [2], [3]]
    assert page(items, base64.urlsafe_b64encode("ü/?".encode()).decode(), 1) == ([3], None)
