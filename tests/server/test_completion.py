"""Suggestions for arguments."""

from collections.abc import Iterator
from typing import Any

import pytest

from backchannel import Principal, Server
from backchannel.types import Completion
from tests.server.replay import Driver, both_eras, driver

pytestmark = pytest.mark.anyio
PROMPT = {"type": "ref/prompt", "name": "greet"}
TEMPLATE = {"type": "ref/resource", "uri": "note://{id}"}


async def complete(wire: Driver, ref: Any, argument: str, value: str = "", **context: str) -> dict[str, Any]:
    """The response to `completion/complete`."""
    params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
    if context:
        params["context"] = {"arguments": context}
    await wire.serve(wire.exchange("completion/complete", params))
    return await wire.next()


async def values(wire: Driver, *args: Any, **context: str) -> Any:
    return (await complete(wire, *args, **context))["result"]["completion"]


@pytest.fixture
def server() -> Server:
    server = Server("test")
    server.add_prompt(lambda name, n="": "hello", name="greet")
    server.add_resource(lambda id: id, "note://{id}", name="note")
    server.add_resource(lambda: "x", "note://fixed", name="fixed")

    @server.completion("greet", "name")
    def names(value: str) -> list[str]:
        return [name for name in ("anna", "bob", "ann") if name.startswith(value)]

    @server.completion("note://{id}", "id")
    async def ids(value: str, known: dict[str, str]) -> Iterator[str]:
        return iter([f"{value}-{known.get('shelf')}"])

    return server


@both_eras
async def test_suggestions(server: Server, version: str) -> None:
    async with driver(server, version) as wire:
        assert await values(wire, PROMPT, "name", "an") == {"values": ["anna", "ann"], "total": 2, "hasMore": False}
        assert (await values(wire, TEMPLATE, "id", "a"))["values"] == ["a-None"]
        assert (await values(wire, TEMPLATE, "id", "a", shelf="top"))["values"] == ["a-top"]
        assert await values(wire, PROMPT, "n") == {"values": [], "total": 0, "hasMore": False}
        assert (await values(wire, {"type": "ref/resource", "uri": "note://fixed"}, "x"))["values"] == []


@both_eras
@pytest.mark.parametrize(
    "ref",
    [
        {"type": "ref/prompt", "name": "nothing"},
        {"type": "ref/prompt", "name": "note://{id}"},
        {"type": "ref/resource", "uri": "greet"},
        {"type": "ref/resource", "uri": "note://1"},
        {"type": "ref/prompt"},
        {"type": "ref/prompt", "uri": "greet"},
    ],
)
async def test_what_is_not_there(server: Server, version: str, ref: Any) -> None:
    async with driver(server, version) as wire:
        assert (await complete(wire, ref, "name"))["error"]["code"] == -32602
        assert (await values(wire, PROMPT, "name", "b"))["values"] == ["bob"]


@pytest.mark.parametrize(
    ("found", "count", "total", "more"),
    [
        ([str(n) for n in range(100)], 100, 100, False),
        ([str(n) for n in range(101)], 100, 101, True),
        (range(5), 5, 5, False),
        (dict.fromkeys(map(str, range(250))), 100, 250, True),
        (Completion([str(n) for n in range(150)], 1000, False), 100, 1000, True),
        (Completion(["a"], 1, False), 1, 1, False),
        (Completion(["a"], None, True), 1, 1, True),
        (Completion(["a"], 7), 1, 7, True),
    ],
)
async def test_a_hundred_values_at_the_most(found: Any, count: int, total: int, more: bool) -> None:
    server = Server("test")
    server.add_prompt(lambda a: "", name="p")
    server.completion("p", "a")(lambda value: found)
    async with driver(server) as wire:
        completion = await values(wire, {"type": "ref/prompt", "name": "p"}, "a")
        assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (count, total, more)
        assert all(isinstance(value, str) for value in completion["values"])


async def test_a_failure_is_masked(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    @server.completion("greet", "name")
    def fails(value: str) -> list[str]:
        raise ValueError("secret")

    async with driver(server) as wire:
        error = (await complete(wire, PROMPT, "name"))["error"]
        assert error["code"] == -32603 and "secret" not in error["message"]
    assert "secret" in caplog.text


@both_eras
async def test_what_others_can_see_is_not_there(version: str) -> None:
    server = Server("test")
    server.add_prompt(lambda a: "", name="greet", visible=lambda who: who is not None)
    server.add_resource(lambda id: id, "note://{id}", name="note", visible=lambda who: who is not None)
    server.completion("greet", "a")(lambda value: ["x"])
    for who, there in ((Principal("me"), True), (None, False)):
        async with driver(server, version, principal=who) as wire:
            assert ("result" in await complete(wire, PROMPT, "a")) is there
            assert ("result" in await complete(wire, TEMPLATE, "id")) is there


@both_eras
async def test_without_completers_there_is_no_such_method(version: str) -> None:
    server = Server("test")
    server.add_prompt(lambda a: "", name="greet")
    async with driver(server, version) as wire:
        assert "completions" not in server.capabilities()
        assert (await complete(wire, PROMPT, "a"))["error"]["code"] == -32601
