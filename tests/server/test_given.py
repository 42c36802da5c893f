"""Tools whose schemas are written by hand."""

import json
import logging
from typing import Any

import pytest

from backchannel import Client, ConfigurationError, Context, Server, ToolError
from backchannel.types import CallToolResult, TextContent
from tests.server.replay import both_eras, driver, failed, text

pytestmark = pytest.mark.anyio
# What the conformance suite wants to find in the list (json-schema-2020-12).
WRITTEN = """{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",\
"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},\
"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},\
"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},\
"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":\
{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},\
"additionalProperties":false}"""
INPUT = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "when": {"type": "string"},
        "pin": {"type": "string", "writeOnly": True},
    },
    "required": ["count", "when"],
    "additionalProperties": False,
}
MIRRORED = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}, "required": ["a"]}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def server() -> Server:
    server = Server("test")

    @server.tool(input_schema=json.loads(WRITTEN))
    async def whole(ctx: Context, arguments: dict[str, Any]) -> str:
        return json.dumps(arguments)

    @server.tool(input_schema=INPUT)
    def named(count: int, when: str, pin: str = "none") -> str:
        return f"{count} {when} {pin}"

    @server.tool(input_schema={"type": "object", "required": ["a"]})
    async def anything(a: int, ctx: Context, **others: Any) -> str:
        return json.dumps({"a": a, **others})

    @server.tool(input_schema={"type": "object"})
    async def nothing() -> str:
        return "done"

    @server.tool(input_schema={"type": "object"}, output_schema=OUTPUT)
    async def echo(arguments: dict[str, Any]) -> Any:
        match arguments.get("raise"):
            case None:
                return arguments["value"]
            case "error":
                raise ToolError("db down")
            case "result":
                return CallToolResult([TextContent("x")], **arguments["value"])

    return server


@both_eras
async def test_the_schema_is_listed_byte_for_byte(server: Server, version: str) -> None:
    async with Client(server, version=version) as client:
        assert WRITTEN.encode() in bytes(await client.request("tools/list"))


@both_eras
@pytest.mark.rule("R128")
async def test_arguments_are_checked_and_come_as_one_dict(server: Server, version: str) -> None:
    async with driver(server, version) as wire:
        given = {"name": "Ada", "contactMethod": "phone", "phone": "1", "address": {"street": "x"}}
        assert json.loads(text(await wire.call("whole", {**given, "email": "e"}))) == {**given, "email": "e"}
        assert failed(await wire.call("whole", {"name": "Ada", "contactMethod": "phone"})) == (
            "arguments: is not valid under any of the schemas listed in the 'anyOf' keyword, got object; phone: missing"
        )
        assert "address.street: expected string, got 5" in failed(
            await wire.call("whole", {**given, "address": {"street": 5}})
        )
        assert failed(await wire.call("whole", {"email": "e", "x": 1})) == "x: unexpected"


@both_eras
@pytest.mark.case("J06")
async def test_arguments_by_name(server: Server, version: str) -> None:
    async with driver(server, version) as wire:
        assert text(await wire.call("named", {"count": 2, "when": "now"})) == "2 now none"
        assert text(await wire.call("named", {"count": 2, "when": "now", "pin": "1234"})) == "2 now 1234"
        wrong = failed(await wire.call("named", {"count": "x", "pin": 1234}))
        assert sorted(wrong.split("; ")) == [
            'count: expected integer, got "x"',
            "pin: expected string, got ***",
            "when: missing",
        ]
        assert failed(await wire.call("named", [1])) == "arguments: expected object, got array"  # type: ignore[arg-type]
        assert text(await wire.call("anything", {"a": 1, "b": [2]})) == '{"a": 1, "b": [2]}'
        assert failed(await wire.call("anything", {"a": 1, "ctx": 2})) == "ctx: unexpected"
        assert text(await wire.call("nothing")) == "done"
        assert failed(await wire.call("nothing", {"x": 1})) == "x: unexpected"


@both_eras
async def test_results_are_checked(server: Server, version: str, caplog: pytest.LogCaptureFixture) -> None:
    async with driver(server, version) as wire:
        response = await wire.call("echo", {"value": {"n": 1, "more": None}})
        assert response["result"]["structuredContent"] == {"n": 1, "more": None}
        assert json.loads(text(response)) == {"n": 1, "more": None}
        response = await wire.call("echo", {"raise": "result", "value": {"structured_content": {"n": 2}}})
        assert (text(response), response["result"]["structuredContent"]) == ("x", {"n": 2})
        assert not caplog.records
        for wrong in ({"value": {"n": "x"}}, {"value": 5}, {"raise": "result", "value": {}}):
            failed(await wire.call("echo", wrong))
            assert "echo returned what its output_schema does not allow: " in str(caplog.records[-1].exc_info)


@both_eras
@pytest.mark.case("J03")
async def test_a_failure_need_not_conform(server: Server, version: str, caplog: pytest.LogCaptureFixture) -> None:
    async with driver(server, version) as wire:
        assert failed(await wire.call("echo", {"raise": "error"})) == "db down"
        assert failed(await wire.call("echo", {"raise": "result", "value": {"is_error": True}})) == "x"
    assert not caplog.records


async def test_the_other_schema_comes_from_the_annotations() -> None:
    server = Server("test")

    @server.tool(input_schema={"type": "object", "properties": {"a": {}}, "required": ["a"]})
    def one(a: Any) -> dict[str, int]:
        return {"a": int(a)}

    @server.tool(output_schema=OUTPUT)
    def other(a: int) -> dict[str, int]:
        return {"n": a}

    tools = {name: handler.tool for name, handler in server.tools.handlers.items()}
    assert tools["one"].output_schema == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert tools["other"].output_schema == OUTPUT
    assert tools["other"].input_schema["properties"] == {"a": {"type": "integer"}}
    async with driver(server) as wire:
        assert (await wire.call("one", {"a": "5"}))["result"]["structuredContent"] == {"a": 5}
        assert (await wire.call("other", {"a": 5}))["result"]["structuredContent"] == {"n": 5}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"input_schema": {}}, 'lacks "type": "object"'),
        ({"input_schema": {"type": "array"}}, 'lacks "type": "object"'),
        ({"input_schema": {"type": "object", "properties": {"a": {"$ref": "https://x.y/z"}}}}, "never fetched"),
        ({"input_schema": {"type": "object", "$schema": "https://x.y/z"}}, "is not supported"),
        ({"input_schema": {"type": "object", "properties": {"a": {}, "c": {}}, "required": ["a"]}}, "has c, for which"),
        ({"input_schema": {"type": "object", "properties": {"a": {}}}}, "does not require 'a', which"),
        ({"output_schema": {"type": "objekt"}}, "the output_schema of f: the schema is not valid: type: "),
        ({"input_schema": MIRRORED}, "x-mcp-header"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], why: str) -> None:
    def f(a: int, ctx: Context, b: int = 0) -> int:
        return a

    with pytest.raises(ConfigurationError) as refused:
        Server("test").add_tool(f, **options)
    assert why in str(refused.value)


def test_positional_parameters_are_refused() -> None:
    def f(*a: int) -> None: ...

    with pytest.raises(ConfigurationError, match="cannot be given by name"):
        Server("test").add_tool(f, input_schema={"type": "object", "required": ["a"]})


async def test_too_deep_arguments(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.tool(input_schema={"type": "object"})
    def f(arguments: dict[str, Any]) -> str:
        return "fine"

    caplog.set_level(logging.ERROR)
    assert server.tools.handlers["f"].signature.bind(b"null") == {"arguments": {}}
    for data, why in ((b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deeply"), (b'{"a":NaN}', "not valid JSON")):
        with pytest.raises(Exception, match=why):
            server.tools.handlers["f"].signature.bind(data)
