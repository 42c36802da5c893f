"""Pages of lists."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel import Context, Principal, Server
from backchannel.errors import INVALID_PARAMS, LocalProtocolError
from backchannel.protocol.types.base import Wire
from backchannel.server.pages import Page, Pages, page
from tests.server.replay import LEGACY, MODERN, Driver, both_eras, driver

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


# Kept as they went out.

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def add(server: Server, name: str, visible: Any = None) -> None:
    """One entry in each list."""
    server.add_tool(lambda: "", name=name, visible=visible)
    server.add_prompt(lambda: "", name=name, visible=visible)
    server.add_resource(lambda: "", f"r://{name}", name=name, visible=visible)
    server.add_resource(lambda a: a, f"r://{name}/{{a}}", name=name, visible=visible)


def remove(server: Server, name: str) -> None:
    server.remove_tool(name)
    server.remove_prompt(name)
    server.remove_resource(f"r://{name}")
    server.remove_resource(f"r://{name}/{{a}}")


async def listed(wire: Driver, method: str, cursor: str | None = None) -> tuple[list[str], dict[str, Any]]:
    """The names in a list, and the whole result."""
    exchange = wire.exchange(method, {"cursor": cursor} if cursor else {})
    await wire.serve(exchange)
    result = (await wire.until(lambda message: message.get("id") == exchange.request.id))["result"]
    return [entry["name"] for entry in result[LISTS[method]]], result


@pytest.mark.anyio
@pytest.mark.parametrize("method", LISTS)
@both_eras
async def test_a_list_is_the_same_until_it_changes(method: str, version: str) -> None:
    server = Server("test")
    add(server, "a")
    async with driver(server, version) as wire:
        names, first = await listed(wire, method)
        assert (names, (await listed(wire, method))[1]) == (["a"], first)
        add(server, "b")
        assert (await listed(wire, method))[0] == ["a", "b"]
        remove(server, "a")
        assert (await listed(wire, method))[0] == ["b"]
        server.ttl, server.public = 2.0, True
        _, result = await listed(wire, method)
        assert (result.get("ttlMs"), result.get("cacheScope")) == ((2000, "public") if wire.modern else (None, None))


@pytest.mark.anyio
@pytest.mark.parametrize("method", LISTS)
async def test_each_version_has_its_own(method: str) -> None:
    server = Server("test")
    add(server, "a")
    results = []
    for version in (MODERN, LEGACY, MODERN, LEGACY):
        async with driver(server, version) as wire:
            results.append((await listed(wire, method))[1])
    assert results[0] == results[2] != results[1] == results[3]
    assert "resultType" in results[0] and "resultType" not in results[1]


@pytest.mark.anyio
@pytest.mark.parametrize("method", LISTS)
async def test_what_depends_on_who_asks_is_made_for_each(method: str) -> None:
    server = Server("test")
    add(server, "a")
    open_to: set[str] = set()
    add(server, "b", visible=lambda principal: principal is not None and principal.subject in open_to)
    for subject in ("ann", "bob"):
        async with driver(server, MODERN, principal=Principal(subject)) as wire:
            assert (await listed(wire, method))[0] == ["a"]
            open_to.add(subject)
            assert (await listed(wire, method))[0] == ["a", "b"]
    remove(server, "b")
    async with driver(server, MODERN) as wire:
        names, result = await listed(wire, method)
        assert names == ["a"] and result["cacheScope"] == "private"


@pytest.mark.anyio
@pytest.mark.parametrize("method", LISTS)
async def test_a_middleware_looks_at_each(method: str) -> None:
    server = Server("test")
    add(server, "a")
    async with driver(server, MODERN) as wire:
        assert (await listed(wire, method))[0] == ["a"]

        @server.middleware
        async def nothing(ctx: Context, call_next: Any) -> Any:
            result = await call_next(ctx)
            seen.append(type(result).__name__)
            return {LISTS[method]: []}

        seen: list[str] = []
        assert (await listed(wire, method))[0] == (await listed(wire, method))[0] == []
        assert len(seen) == 2 and set(seen) < {type.__name__ for type in Wire.__subclasses__()}


def test_only_the_pages_that_follow_each_other_are_kept() -> None:
    pages, one = Pages(), Page(b"{}")
    assert pages.keep("form", "made up", "z", one) is one and pages.find("form", "made up") is None
    pages.keep("form", None, "b", one)
    pages.keep("form", "b", None, one)
    pages.keep("other", "b", None, one)
    assert pages.find("form", None) is pages.find("form", "b") is one
    assert pages.find("other", "b") is pages.find("other", None) is None


@pytest.mark.parametrize("area", ["tools", "prompts", "resources"])
def test_a_list_depends_on_who_asks_before_the_first_such_entry_is_in_it(area: str) -> None:
    server, seen = Server("test"), list[bool]()
    registry = getattr(server, area)

    class Table(dict[str, Any]):
        def __setitem__(self, name: str, handler: Any) -> None:
            seen.append(registry.personal)
            super().__setitem__(name, handler)

    setattr(registry, "fixed" if area == "resources" else "handlers", Table())
    add(server, "a", lambda principal: True)
    assert True in seen and False not in seen


@pytest.mark.anyio
async def test_a_list_that_changes_while_it_is_read_is_not_kept() -> None:
    server = Server("test")
    server.add_tool(lambda: "", name="a")
    tools = server.tools

    class Slow(dict[str, Any]):
        def items(self) -> Any:
            found = list(super().items())
            if len(found) == 1:  # another thread comes in between
                server.add_tool(lambda: "", name="b")
            return found

    tools.handlers = Slow(tools.handlers)
    async with driver(server, MODERN) as wire:
        assert (await listed(wire, "tools/list"))[0] == ["a"]
        assert (await listed(wire, "tools/list"))[0] == ["a", "b"]
