"""What is wrong with a request, as its sender sees it: tools, prompts and resources, in both eras."""

import datetime
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from backchannel import Context, Server
from tests.server.replay import Driver, both_eras, driver, failed, text

pytestmark = pytest.mark.anyio
GIVEN = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


async def ask(wire: Driver, method: str, params: dict[str, Any]) -> dict[str, Any]:
    exchange = wire.exchange(method, params)
    await wire.serve(exchange)
    return await wire.until(lambda message: message.get("id") == exchange.request.id)


@pytest.fixture
def ran() -> list[Any]:
    """What the handlers got."""
    return []


@pytest.fixture
def server(ran: list[Any]) -> Server:
    server = Server("test")

    @server.tool
    def typed(n: int) -> str:
        ran.append(n)
        return "ran"

    @server.tool(input_schema=GIVEN)
    def given(arguments: dict[str, Any]) -> str:
        ran.append(arguments)
        return "ran"

    @server.prompt
    def prompt(n: int) -> str:
        ran.append(n)
        return "ran"

    @server.resource("r://{n}")
    def resource(n: int) -> str:
        ran.append(n)
        return "ran"

    return server


@pytest.mark.rule("R128")
@both_eras
@pytest.mark.parametrize("tool", ["typed", "given"])
@pytest.mark.parametrize(
    "arguments", [{}, {"n": "x"}, {"n": None}, {"n": 1.5}, {"n": True}, {"n": [1]}, {"n": 1, "m": 2}, {"N": 1}]
)
async def test_wrong_arguments_are_a_result_that_names_them(
    server: Server, ran: list[Any], version: str, tool: str, arguments: dict[str, Any]
) -> None:
    async with driver(server, version) as wire:
        why = failed(await wire.call(tool, arguments))
        assert "m" in why if "m" in arguments else "n" in why
        assert len(why) <= 300 and "http" not in why and "pydantic" not in why
        assert ran == []
        assert text(await wire.call(tool, {"n": 1})) == "ran"


@pytest.mark.rule("R128")
@both_eras
async def test_what_does_not_exist_or_is_wrong_elsewhere_is_an_error(
    server: Server, ran: list[Any], version: str
) -> None:
    async with driver(server, version) as wire:
        for method, params in (
            ("tools/call", {"name": "nobody", "arguments": {}}),
            ("prompts/get", {"name": "nobody"}),
            ("prompts/get", {"name": "prompt"}),
            ("prompts/get", {"name": "prompt", "arguments": {"n": "x"}}),
            ("prompts/get", {"name": "prompt", "arguments": {"n": "1", "m": "2"}}),
        ):
            assert (await ask(wire, method, params))["error"]["code"] == -32602, params
        missing = -32002 if version != "2026-07-28" else -32602
        assert (await ask(wire, "resources/read", {"uri": "q://1"}))["error"]["code"] == missing
        assert "error" in await ask(wire, "resources/read", {"uri": "r://x"})
        assert ran == []
        assert "result" in await ask(wire, "prompts/get", {"name": "prompt", "arguments": {"n": "1"}})
        assert "result" in await ask(wire, "resources/read", {"uri": "r://2"})
        assert ran == [1, 2]


@pytest.mark.rule("R130")
@both_eras
async def test_meta_is_no_argument(server: Server, ran: list[Any], version: str) -> None:
    meta = {"_meta": {"progressToken": 1, "acme/x": {"a": [1]}, "plain": None}}
    async with driver(server, version) as wire:
        for tool in ("typed", "given"):
            assert text(await wire.call(tool, {"n": 1}, **meta)) == "ran"
        assert "result" in await ask(wire, "prompts/get", {"name": "prompt", "arguments": {"n": "2"}, **meta})
        assert "result" in await ask(wire, "resources/read", {"uri": "r://3", **meta})
        assert "result" in await ask(wire, "tools/list", meta)
        assert ran == [1, {"n": 1}, 2, 3]


@pytest.mark.case("J06")
@both_eras
async def test_the_model_can_correct_what_it_is_told(version: str) -> None:
    server = Server("test")

    @server.tool
    def f(count: int, when: datetime.date) -> str:
        return ""

    async with driver(server, version) as wire:
        assert failed(await wire.call("f", {"count": "x"})) == 'count: expected integer, got "x"; when: missing'


@pytest.mark.case("J01")
@both_eras
@pytest.mark.parametrize("given", ["123", "null", '{"a":1}', "[1]", " 1", "true", ""])
async def test_a_text_arrives_as_it_was_sent(version: str, given: str) -> None:
    server, ran = Server("test"), []

    @server.tool
    def f(ctx: Context, s: str, u: str | int, o: str | None = None) -> str:
        ran.append((s, u, o))
        return s

    async with driver(server, version) as wire:
        assert text(await wire.call("f", {"s": given, "u": given, "o": given})) == given
        assert ran == [(given, given, given)]


class Point(BaseModel):
    x: int
    y: int


class Tree(BaseModel):
    children: "list[Tree]"


@pytest.mark.case("J08")
@both_eras
async def test_a_schema_without_references_in_the_list(version: str) -> None:
    server = Server("test")

    @server.tool(inline_refs=True)
    def line(start: Point, end: Point, colour: Literal["red", "blue"] | None = None) -> str:
        return ""

    async with driver(server, version) as wire:
        [tool] = (await ask(wire, "tools/list", {}))["result"]["tools"]
        again = (await ask(wire, "tools/list", {}))["result"]["tools"]
    written = json.dumps(tool["inputSchema"])
    assert "$ref" not in written and "$defs" not in written
    assert list(tool["inputSchema"]["properties"]) == ["start", "end", "colour"]
    assert list(tool["inputSchema"]["properties"]["end"]["properties"]) == ["x", "y"]
    assert json.dumps(again[0]["inputSchema"]) == written
    with pytest.raises(Exception, match="children"):

        @server.tool(inline_refs=True)
        def grow(tree: Tree) -> str:
            return ""
