"""What the client knows of tools from their lists: mirrored arguments, and schemas of structured output."""

import logging
from typing import Annotated, Any

import anyio
import pytest
from pydantic import Field

from backchannel import Client, Server, ToolError, http_app
from backchannel.client.http import HttpTransport
from backchannel.errors import LocalProtocolError, RemoteProtocolError
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, RpcError, Script, form, questions
from tests.server.http.wire import serving

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
MISMATCH = -32020


def tool(name: str, output: Any = None, **mirrored: Any) -> Json:
    """A tool. mirrored: property -> its header, or its header and type."""
    properties = {}
    for argument, header in mirrored.items():
        header, kind = header if isinstance(header, tuple) else (header, "string")
        properties[argument] = {"type": kind, "x-mcp-header": header}
    shown = {"name": name, "inputSchema": {"type": "object", "properties": properties}}
    return shown | ({"outputSchema": output} if output is not None else {})


def server(*tools: Json, version: str = MODERN, streams: bool = True, **on: Any) -> Script:
    lists = {"tools/list": lambda params: {"resultType": "complete", "ttlMs": 60_000, "tools": list(tools)}}
    done = {"resultType": "complete", "content": []}
    return Script(version, {"tools/call": lambda params: done, **lists, **on}, request_streams=streams)


def headers(script: Script) -> list[dict[str, str]]:
    return [headers for method, headers in script.headers if method == "tools/call"]


async def listed(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


# Arguments in headers.


async def test_a_listed_tool_is_mirrored_at_once() -> None:
    script = server(tool("t", region="Region", n=("N", "integer"), on=("On", "boolean"), off=("Off", "boolean")))
    async with Client(script) as client:
        await listed(client)
        await client.call_tool("t", {"region": "Oslo", "n": 42, "on": True, "off": False, "other": 1})
        await client.call_tool("t", {"region": " Tromsø", "n": None})
        await client.call_tool("t", {"region": ""})
        await client.call_tool("t")
        await client.request("tools/call", {"name": "t", "arguments": {"region": "raw"}})
        await client.call_tool("another", {"region": "x"})
    assert headers(script) == [
        {"Mcp-Param-Region": "Oslo", "Mcp-Param-N": "42", "Mcp-Param-On": "true", "Mcp-Param-Off": "false"},
        {"Mcp-Param-Region": "=?base64?IFRyb21zw7g=?="},
        {"Mcp-Param-Region": ""},
        {},
        {"Mcp-Param-Region": "raw"},
        {},
    ]
    assert len(script.requests("tools/list")) == 1


@pytest.mark.parametrize(("version", "streams"), [(MODERN, False), (LEGACY, True), (LEGACY, False)])
async def test_elsewhere_annotations_mean_nothing(version: str, streams: bool, caplog: Any) -> None:
    script = server(tool("t", x="X"), tool("bad", x="not a token"), version=version, streams=streams)
    async with Client(script, version=version) as client:
        assert await listed(client) == ["t", "bad"]
        await client.call_tool("t", {"x": "1"})
        await client.call_tool("bad", {"x": "1"})
    assert headers(script) == [{}, {}]
    assert caplog.records == []


async def test_the_mirrored_value_is_the_one_in_the_body() -> None:
    script = server(tool("t", n=("N", "integer")))
    async with Client(script) as client:
        await listed(client)
        await client.call_tool("t", {"n": 2**53 - 1})
        with pytest.raises(LocalProtocolError, match="cannot be mirrored"):
            await client.call_tool("t", {"n": 2**53})
        await client.call_tool("t", {"n": "text"})
    assert headers(script) == [{"Mcp-Param-N": str(2**53 - 1)}, {}]


async def test_invalid_tools_are_left_out_with_one_warning_each(caplog: pytest.LogCaptureFixture) -> None:
    bad = [
        tool("empty", x=""),
        tool("number", x=("X", "number")),
        tool("space", x="a b"),
        tool("twice", x="Same", y="same"),
        {"name": "array", "inputSchema": {"type": "array", "items": {"type": "string", "x-mcp-header": "X"}}},
    ]
    script = server(bad[0], tool("good", x="X"), *bad[1:])
    async with Client(script, cache=False) as client:
        for _ in range(3):
            assert await listed(client) == ["good"]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == len(bad)
    for one, warning in zip(bad, warnings, strict=True):
        assert warning.startswith(f"the tool {one['name']!r} is left out, for its definition is invalid: x-mcp-header")


def wanting(header: str, value: str) -> Any:
    """What answers a call: only with this header it is in order."""

    def answer(params: Json) -> Json:
        script: Script = answer.script  # type: ignore[attr-defined]
        if script.headers[-1][1].get(header) != value:
            raise RpcError(MISMATCH, "Header mismatch")
        return {"resultType": "complete", "content": [{"type": "text", "text": "in order"}]}

    return answer


def strict(*tools: Json) -> Script:
    answer = wanting("Mcp-Param-New", "v")
    script = server(*tools, **{"tools/call": answer})
    answer.script = script
    return script


async def test_a_mismatch_makes_the_client_look_at_the_tools_and_send_again() -> None:
    script = strict(tool("t", x="New"))
    async with Client(script) as client:
        assert (await client.call_tool("t", {"x": "v"})).text == "in order"
        assert (await client.call_tool("t", {"x": "v"})).text == "in order"
    assert [method for method, _ in script.headers[1:]] == ["tools/call", "tools/list", "tools/call", "tools/call"]
    ids = [message["id"] for message in script.sent]
    assert len(set(ids)) == len(ids)


@pytest.mark.case("B14")
async def test_each_response_on_the_way_is_a_sign_of_life() -> None:
    script, done = Script(MODERN, request_streams=True), []

    async def call() -> None:
        done.append(await client.call_tool("t", {"x": "v"}))

    async with Client(script, timeout=10) as client, anyio.create_task_group() as group:
        group.start_soon(call)
        first = await script.next("tools/call")
        await anyio.sleep(8)
        script.give({"id": first["id"], "error": {"code": MISMATCH, "message": "Header mismatch"}})
        for number in (1, 2):
            page = await script.next("tools/list")
            await anyio.sleep(8)
            more = {"nextCursor": "2"} if number == 1 else {}
            script.result(page, {"resultType": "complete", "tools": [tool("t", x="New")], **more})
        again = await script.next("tools/call")
        await anyio.sleep(8)
        script.result(again, {"resultType": "complete", "content": []})
    assert len(done) == 1


async def test_a_mismatch_does_not_believe_the_list_it_has() -> None:
    script = strict(tool("t", x="Old"))
    async with Client(script) as client:
        await listed(client)
        script.on["tools/list"] = lambda params: {"resultType": "complete", "tools": [tool("t", x="New")]}
        assert (await client.call_tool("t", {"x": "v"})).text == "in order"
    assert headers(script) == [{"Mcp-Param-Old": "v"}, {"Mcp-Param-New": "v"}]


async def test_a_mismatch_that_listing_does_not_explain_is_the_caller_s() -> None:
    for tools in ([tool("t", x="Other")], [tool("t")], []):
        script = strict(*tools)
        async with Client(script) as client:
            with pytest.raises(RemoteProtocolError, match="Header mismatch") as caught:
                await client.call_tool("t", {"x": "v"})
            assert caught.value.code == MISMATCH
        assert len(script.requests("tools/list")) == 1
        assert len(script.requests("tools/call")) == 1 + bool(tools and "x" in tools[0]["inputSchema"]["properties"])
    script = strict()
    script.on["tools/list"] = RemoteProtocolError(-32603, "the list is broken")
    async with Client(script) as client:
        with pytest.raises(RemoteProtocolError, match="Header mismatch"):
            await client.call_tool("t", {"x": "v"})


async def test_a_mismatch_in_a_later_round_asks_nobody_again() -> None:
    answers, asked = [], []

    def call(params: Json) -> Json:
        answers.append(script.headers[-1][1])
        if "inputResponses" not in params:
            return questions("s", q=("elicitation/create", form()))
        if not script.headers[-1][1]:
            raise RpcError(MISMATCH)
        return {"resultType": "complete", "content": []}

    script = server(tool("t", x="X"), **{"tools/call": call})

    def elicit(question: Any) -> Json:
        asked.append(question.message)
        return {"n": 1}

    async with Client(script, elicit=elicit) as client:
        await client.call_tool("t", {"x": "v"})
    assert answers == [{}, {}, {"Mcp-Param-X": "v"}]
    assert len(asked) == 1
    assert [params.get("requestState") for params in script.requests("tools/call")] == [None, "s", "s"]


# Structured output.

OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def giving(result: Json, output: Any = OBJECT, version: str = MODERN) -> Script:
    call = {"tools/call": lambda params: {"resultType": "complete", "content": [], **result}}
    return server(tool("t", output), version=version, streams=False, **call)


@pytest.mark.parametrize("version", BOTH)
async def test_structured_output_is_checked_if_the_tool_was_listed(version: str) -> None:
    async with Client(giving({"structuredContent": {"n": "x"}}, version=version), version=version) as client:
        assert (await client.call_tool("t")).structured_content == {"n": "x"}
        await listed(client)
        with pytest.raises(RemoteProtocolError, match="of the tool 't' breaks its output schema: n: expected integer"):
            await client.call_tool("t")
    async with Client(giving({"structuredContent": {"n": 1}}, version=version), version=version) as client:
        await listed(client)
        for _ in range(2):
            assert (await client.call_tool("t")).structured_content == {"n": 1}
    async with Client(giving({}, version=version), version=version) as client:
        await listed(client)
        with pytest.raises(RemoteProtocolError, match="'t' breaks its output schema: there is none"):
            await client.call_tool("t")


@pytest.mark.parametrize("value", [None, False, 0, "", []])
async def test_any_value_may_be_structured(value: Any) -> None:
    allowed = {"enum": [None, False, 0, "", []]}
    async with Client(giving({"structuredContent": value}, allowed)) as client:
        await listed(client)
        assert (await client.call_tool("t")).structured_content == value
    async with Client(giving({"structuredContent": value}, {"type": "object"})) as client:
        await listed(client)
        with pytest.raises(RemoteProtocolError, match="expected object"):
            await client.call_tool("t")


@pytest.mark.case("J03")
@pytest.mark.parametrize("version", BOTH)
async def test_a_failed_tool_is_not_checked(version: str) -> None:
    server = Server("s")

    @server.tool
    async def count() -> dict[str, int]:
        raise ToolError("db down")

    async with Client(server, version=version) as client:
        [tool] = [tool async for tool in client.tools()]
        assert tool.output_schema is not None
        result = await client.call_tool("count")
    assert (result.is_error, result.text) == (True, "db down")


@pytest.mark.case("J03")
async def test_a_round_of_questions_is_not_checked() -> None:
    def call(params: Json) -> Json:
        if "inputResponses" not in params:
            return questions(q=("elicitation/create", form()))
        return {"resultType": "complete", "content": [], "structuredContent": {"n": 1}}

    script = server(tool("t", OBJECT), **{"tools/call": call})
    async with Client(script, elicit=lambda question: {"n": 1}) as client:
        await listed(client)
        assert (await client.call_tool("t")).structured_content == {"n": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/canary"},
        {"$schema": "urn:of-my-own", "type": "object"},
        {"type": "nonsense"},
    ],
)
async def test_a_schema_that_cannot_be_used_is_not_used(schema: Json, caplog: pytest.LogCaptureFixture) -> None:
    async with Client(giving({"structuredContent": {"n": "x"}}, schema), cache=False) as client:
        for _ in range(2):
            await listed(client)
            for _ in range(2):
                assert (await client.call_tool("t")).structured_content == {"n": "x"}
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith("the tool 't' has an output schema that cannot be used, so its results are not checked")


@pytest.mark.rule("R135")
async def test_what_may_have_changed_is_not_checked_until_it_is_listed_again() -> None:
    script = giving({"structuredContent": {"n": "x"}})
    async with Client(script) as client:
        await listed(client)
        script.give({"method": "notifications/tools/list_changed"})
        await client.call_tool("t")
        script.on["tools/list"] = lambda params: {"resultType": "complete", "tools": [tool("t")]}
        await listed(client)
        await client.call_tool("t")
        script.on["tools/list"] = lambda params: {"resultType": "complete", "tools": [tool("t", OBJECT)]}
        await listed(client)
        with pytest.raises(RemoteProtocolError, match="breaks its output schema"):
            await client.call_tool("t")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_over_http_with_a_server_that_insists() -> None:
    made = Server("s")

    @made.tool
    async def where(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        return region

    with anyio.fail_after(30):
        async with serving(http_app(made)) as port:
            async with Client(HttpTransport(f"http://127.0.0.1:{port}/mcp"), version=MODERN) as client:
                for region in ("Oslo", " Tromsø\n", ""):
                    assert (await client.call_tool("where", {"region": region})).text == region
                assert (await client.call_tool("where")).is_error
