"""Suggestions for arguments."""

from collections.abc import Iterator
from typing import Any

import pytest

from backchannel import CannotAskHere, ConfigurationError, Context, Principal, Server
from backchannel.server.dispatch import start
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


@both_eras
@pytest.mark.parametrize("wait", [False, True])
async def test_a_completer_gets_the_context_and_cannot_ask(version: str, wait: bool) -> None:
    server, said = Server("test"), list[str]()
    server.add_prompt(lambda name: "hello", name="greet")

    def tried(ctx: Context) -> str:
        try:
            ctx.confirm("Sure?")
        except CannotAskHere as error:
            said.append(str(error))
        return f"{ctx.method} {ctx.client.info is None}"

    def in_a_thread(ctx: Context, value: str) -> list[str]:
        return [value, tried(ctx)]

    async def in_the_loop(value: str, known: dict[str, str], *, ctx: Context) -> list[str]:
        return [value, tried(ctx)]

    server.completion("greet", "name")(in_a_thread if wait else in_the_loop)
    async with driver(server, version) as wire:
        found = (await values(wire, PROMPT, "name", "an"))["values"]
        assert found[0] == "an" and found[1].startswith("completion/complete")
    assert len(said) == 1 and "completion/complete cannot ask the client here" in said[0]


def takes_three(value: str, known: dict[str, str], more: str) -> list[str]: ...
def takes_none() -> list[str]: ...
def takes_a_name(value: str, *, more: str) -> list[str]: ...
def takes_a_bare_context(ctx, value): ...  # type: ignore[no-untyped-def]
async def yields(value: str) -> Any:
    yield value


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (takes_three, "its parameter 'more' is none of these"),
        (takes_none, "it takes no value"),
        (takes_a_name, "its parameter 'more' is none of these"),
        (takes_a_bare_context, "write ctx: Context"),
        (yields, "is an async generator"),
        ("anna", "is a function, not str"),
    ],
)
def test_what_is_no_completer(server: Server, function: Any, wanted: str) -> None:
    before = dict(server.completions.completers)
    with pytest.raises(ConfigurationError, match=f"the completion of 'name' of 'greet'.*{wanted}"):
        server.completion("greet", "name")(function)
    assert server.completions.completers == before


@pytest.mark.parametrize(
    "function",
    [
        lambda *args: ["x"],
        lambda value, known=None, more=1: ["x"],
        lambda value, /, known: ["x"],
        lambda value, **more: ["x"],
    ],
)
async def test_completers(server: Server, function: Any) -> None:
    server.completion("greet", "name")(function)
    async with driver(server) as wire:
        assert (await values(wire, PROMPT, "name"))["values"] == ["x"]


@pytest.mark.parametrize("given", [None, "anna"])
async def test_what_is_no_list_of_suggestions(server: Server, given: Any, caplog: pytest.LogCaptureFixture) -> None:
    server.completion("greet", "name")(lambda value: given)
    async with driver(server) as wire:
        assert "error" in await complete(wire, PROMPT, "name")
    assert f"returned {given!r}, and not a list of suggestions" in caplog.text


@pytest.mark.parametrize(
    ("target", "argument", "wanted"),
    [
        ("greet", "nam", r"'greet' has no argument 'nam' to complete; its arguments are: 'name', 'n'"),
        ("note://{id}", "name", r"has no argument 'name' to complete; its arguments are: 'id'"),
    ],
)
def test_an_argument_that_is_not_there(server: Server, target: str, argument: str, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        server.completion(target, argument)(lambda value: [])


async def test_what_is_completed_may_be_registered_later_until_the_start(server: Server) -> None:
    server.completion("later", "a")(lambda value: ["x"])
    with pytest.raises(
        ConfigurationError, match=r"no prompt or URI template 'later' .* there are: 'greet', 'note://{id}'"
    ):
        async with start(server):
            pass
    server.add_prompt(lambda b: "", name="later")
    with pytest.raises(ConfigurationError, match="'later' has no argument 'a'"):
        async with start(server):
            pass
    server.remove_prompt("later")
    server.add_prompt(lambda a: "", name="later")
    async with driver(server) as wire:
        assert (await values(wire, {"type": "ref/prompt", "name": "later"}, "a"))["values"] == ["x"]
    server.remove_prompt("later")  # it may come back
    async with start(server):
        pass
