"""Typed calls of the client: what goes out, and what comes back, on both eras."""

import json
import logging
from typing import Any

import anyio
import pytest

from backchannel import Client, Context, Server
from backchannel.errors import ConnectionLost, LocalProtocolError, RemoteProtocolError
from backchannel.protocol.types.content import TextContent, UnknownContent
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, RpcError, Script

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
both = pytest.mark.parametrize("version", BOTH)


def shop() -> Server:
    server = Server("shop", instructions="Buy.")

    @server.tool
    async def hello() -> str:
        return "hello"

    @server.resource("note://1")
    async def note() -> str:
        """A note."""
        return "Hello"

    @server.resource("note://{id}/{part}")
    async def part(id: str, part: str) -> str:
        return f"{id}, {part}"

    @server.prompt
    async def greet(ctx: Context, name: str) -> str:
        day = (await ctx.elicit("Which day?", str)).unwrap()
        return f"Greet {name} on {day}"

    @server.completion("greet", "name")
    async def names(value: str) -> list[str]:
        return [name for name in ("Ann", "Anton", "Bea") if name.startswith(value)]

    return server


@both
async def test_resources(version: str) -> None:
    async with Client(shop(), version=version) as client:
        assert [resource.uri async for resource in client.resources()] == ["note://1"]
        assert [template.uri_template async for template in client.resource_templates()] == ["note://{id}/{part}"]
        [contents] = (await client.read("note://1")).contents
        assert (contents.uri, contents.text) == ("note://1", "Hello")
        [contents] = (await client.read("note://7/end")).contents
        assert contents.text == "7, end"
        with pytest.raises(RemoteProtocolError) as caught:
            await client.read("note://")
        assert caught.value.code == (-32602 if version == MODERN else -32002)


@both
async def test_prompts_may_ask(version: str) -> None:
    async with Client(shop(), version=version, elicit=lambda question: {"value": "Monday"}) as client:
        [prompt] = [prompt async for prompt in client.prompts()]
        assert (prompt.name, [argument.name for argument in prompt.arguments or ()]) == ("greet", ["name"])
        [message] = (await client.get_prompt("greet", {"name": "Ann"})).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Greet Ann on Monday"


@both
async def test_content_of_an_unknown_type_is_kept(version: str) -> None:
    block = {"type": "hologram", "data": [1, 2]}
    result = {"resultType": "complete", "messages": [{"role": "user", "content": block}]}
    script = Script(version, {"prompts/get": lambda params: result})
    async with Client(script, version=version) as client:
        [message] = (await client.get_prompt("p")).messages
    assert isinstance(message.content, UnknownContent)
    assert json.loads(message.content.raw) == block
    assert script.requests("prompts/get")[0]["arguments"] == {}


@both
async def test_completion(version: str) -> None:
    async with Client(shop(), version=version) as client:
        completion = await client.complete(prompt="greet", argument="name", value="An")
        assert completion.values == ["Ann", "Anton"]


@both
async def test_what_completion_sends(version: str) -> None:
    answer = {"resultType": "complete", "completion": {"values": ["a"], "total": 3, "hasMore": True}}
    script = Script(version, {"completion/complete": lambda params: answer})
    async with Client(script, version=version) as client:
        completion = await client.complete(template="a://{x}", argument="x", value="", context={"y": "1"})
        await client.complete(prompt="p", argument="x", value="v")
        assert (completion.values, completion.total, completion.has_more) == (["a"], 3, True)
        for wrong in ({}, {"prompt": "p", "template": "t"}):
            with pytest.raises(LocalProtocolError, match="either prompt= or template="):
                await client.complete(argument="x", value="", **wrong)
    first, second = script.requests("completion/complete")
    first.pop("_meta", None), second.pop("_meta", None)
    assert first == {
        "ref": {"type": "ref/resource", "uri": "a://{x}"},
        "argument": {"name": "x", "value": ""},
        "context": {"arguments": {"y": "1"}},
    }
    assert second == {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": "v"}}


@both
async def test_discover(version: str) -> None:
    async with Client(shop(), version=version) as client:
        found = await client.discover()
        assert version in found.supported_versions
        assert found.instructions == "Buy."
        assert found.capabilities == client.server.capabilities
        assert "prompts" in found.capabilities


@pytest.mark.rule("R139", "R169")
@both
async def test_the_log_level_can_change(version: str) -> None:
    server, heard = Server("s"), []

    @server.tool
    async def chat(ctx: Context) -> None:
        for level in ("debug", "info", "error"):
            await ctx.log(level, level)

    async with Client(server, version=version, log=lambda message: heard.append(message.data)) as client:
        await client.call_tool("chat")
        await client.set_log_level("error")
        await client.call_tool("chat")
        await client.set_log_level("info")
        await client.call_tool("chat")
        with pytest.raises(LocalProtocolError, match="no log level 'loud'"):
            await client.set_log_level("loud")
        await anyio.wait_all_tasks_blocked()
    assert heard == ["error", "info", "error"]


@pytest.mark.rule("R139")
async def test_how_the_log_level_is_said() -> None:
    key = "io.modelcontextprotocol/logLevel"
    script = Script(MODERN, {"x/y": lambda params: {}})
    async with Client(script) as client:
        await client.request("x/y")
        await client.set_log_level("debug")
        await client.request("x/y")
        await client.request("x/y", {"_meta": {key: "error"}})
    assert [params["_meta"].get(key) for params in script.requests("x/y")] == [None, "debug", "error"]
    script = Script(LEGACY, {"logging/setLevel": lambda params: {}})
    async with Client(script, version="legacy") as client:
        await client.set_log_level("debug")
    assert script.requests("logging/setLevel") == [{"level": "debug"}]


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("resources/read", lambda client: client.read("a://")),
        ("prompts/get", lambda client: client.get_prompt("p")),
        ("completion/complete", lambda client: client.complete(prompt="p", argument="a", value="")),
        ("tools/call", lambda client: client.call_tool("t")),
        ("prompts/list", lambda client: anext(client.prompts())),
        ("resources/list", lambda client: anext(client.resources())),
        ("resources/templates/list", lambda client: anext(client.resource_templates())),
    ],
)
@both
async def test_a_malformed_result_is_an_error_that_says_of_what(method: str, call: Any, version: str) -> None:
    members = ("contents", "messages", "completion", "content", "prompts", "resources", "resourceTemplates")
    for result in (dict.fromkeys(members, 5), dict.fromkeys(members, [5])):
        script = Script(version, {method: lambda params, result=result: {"resultType": "complete", **result}})  # type: ignore[misc]
        async with Client(script, version=version) as client:
            with pytest.raises(RemoteProtocolError, match="the result of .* is malformed"):
                await call(client)


async def test_before_it_is_open() -> None:
    client = Client(Script())
    with pytest.raises(ConnectionLost, match="not open"):
        client.listen(tools=True)
    for use in (client.discover, lambda: client.set_log_level("info"), lambda: client.read("a://")):
        with pytest.raises(ConnectionLost, match="not open"):
            await use()


# Results that are used again.


def listing(*tools: str, ttl: Any = 60_000, **members: Any) -> Json:
    shown = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
    return {"resultType": "complete", "tools": shown, "ttlMs": ttl, "cacheScope": "private", **members}


def contents(text: str, ttl: int = 60_000) -> Json:
    return {"resultType": "complete", "contents": [{"uri": "a://1", "text": text}], "ttlMs": ttl}


async def names(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


@pytest.mark.rule("R164")
async def test_a_result_is_used_again_for_as_long_as_it_says() -> None:
    script = Script(MODERN, {"tools/list": lambda params: listing("a"), "resources/read": lambda params: contents("x")})
    async with Client(script) as client:
        for _ in range(3):
            assert await names(client) == ["a"]
            assert (await client.read("a://1")).contents[0].text == "x"
        await client.read("a://2")
        script.on["tools/list"] = lambda params: listing("b", ttl=0)
        client._cache.forget()  # type: ignore[union-attr]
        assert [await names(client) for _ in range(2)] == [["b"], ["b"]]
    assert [params["uri"] for params in script.requests("resources/read")] == ["a://1", "a://2"]
    assert len(script.requests("tools/list")) == 3


@pytest.mark.rule("R164")
@pytest.mark.parametrize(("version", "options"), [(MODERN, {"cache": False}), (LEGACY, {})])
async def test_where_nothing_is_used_again(version: str, options: Json) -> None:
    script = Script(version, {"tools/list": lambda params: listing("a")})
    async with Client(script, version=version, **options) as client:
        assert [await names(client) for _ in range(2)] == [["a"], ["a"]]
    assert len(script.requests("tools/list")) == 2


@pytest.mark.rule("R164")
async def test_another_connection_knows_nothing_of_the_first() -> None:
    script = Script(MODERN, {"tools/list": lambda params: listing("a")})
    client = Client(script)
    for _ in range(2):
        await client.open()
        await names(client)
        await client.close()
        script.closed = 0
    assert len(script.requests("tools/list")) == 2


@pytest.mark.rule("R164", "R135")
async def test_a_change_ends_it_at_once_and_the_next_use_fetches() -> None:
    server, text = Server("s", ttl=60), ["one"]

    @server.tool
    async def first() -> str:
        return ""

    @server.resource("a://1", ttl=60)
    async def one() -> str:
        return text[0]

    async with Client(server, version=MODERN) as client:
        async with client.listen(tools=True, resources=["a://1"]) as changes:
            assert await names(client) == ["first"]
            assert (await client.read("a://1")).contents[0].text == "one"
            server.remove_tool("first")
            text[0] = "two"
            assert await names(client) == ["first"]
            assert (await client.read("a://1")).contents[0].text == "one"
            await server.notify.tools_changed()
            await server.notify.resource_updated("a://1")
            assert [(await anext(changes)).kind for _ in range(2)] == ["tools", "resource"]
            assert await names(client) == []
            assert (await client.read("a://1")).contents[0].text == "two"


@pytest.mark.rule("R164")
async def test_a_result_that_a_change_has_overtaken_is_not_kept() -> None:
    script = Script(MODERN)
    async with Client(script) as client, anyio.create_task_group() as group:
        group.start_soon(names, client)
        request = await script.next("tools/list")
        script.give({"method": "notifications/tools/list_changed"})
        script.result(request, listing("old"))
        await anyio.wait_all_tasks_blocked()
        script.on["tools/list"] = lambda params: listing("new")
        assert await names(client) == ["new"]


@pytest.mark.rule("R164", "R112")
async def test_what_took_answers_is_not_used_again() -> None:
    server, reads = Server("s", ttl=60), []

    @server.resource("a://1", ttl=60)
    async def secret(ctx: Context) -> str:
        answer = (await ctx.elicit("Password?", str)).unwrap()
        reads.append(answer)
        return answer

    answers = iter(["one", "two"])
    async with Client(server, version=MODERN, elicit=lambda question: {"value": next(answers)}) as client:
        for expected in ("one", "two"):
            assert (await client.read("a://1")).contents[0].text == expected
    assert reads == ["one", "two"]


@pytest.mark.rule("R164")
async def test_a_sign_of_life_is_never_an_old_one() -> None:
    script = Script(MODERN)
    discover = script.on["server/discover"]
    script.on["server/discover"] = lambda params: {**discover(params), "ttlMs": 60_000}  # type: ignore[operator]
    async with Client(script) as client:
        await client.discover()
        await client.discover()
        await client.ping()
        await client.ping()
    assert len(script.requests("server/discover")) == 1 + 1 + 2


@pytest.mark.rule("R164")
async def test_a_cursor_that_is_not_valid_any_more_ends_all_pages() -> None:
    def page(params: Json) -> Json:
        if "cursor" in params:
            raise RpcError(-32602, "what cursor?")
        return listing(f"a{len(script.requests('tools/list'))}", nextCursor="x")

    script = Script(MODERN, {"tools/list": page})
    async with Client(script) as client:
        for expected in ("a1", "a3"):
            tools = client.tools()
            assert (await anext(tools)).name == expected
            with pytest.raises(RemoteProtocolError, match="what cursor"):
                await anext(tools)


@pytest.mark.rule("R164")
async def test_params_that_are_changed_under_way_do_not_change_what_was_asked() -> None:
    script = Script(MODERN)
    params: Json = {"uri": "a://1", "x": {"y": 1}}
    async with Client(script) as client, anyio.create_task_group() as group:
        group.start_soon(client.request, "resources/read", params)
        request = await script.next("resources/read")
        params["x"]["y"] = 2
        script.result(request, contents("one"))
        await anyio.wait_all_tasks_blocked()
        script.on["resources/read"] = lambda params: contents("two")
        assert b"two" in bytes(await client.request("resources/read", params))
        assert b"one" in bytes(await client.request("resources/read", {"uri": "a://1", "x": {"y": 1}}))


@pytest.mark.rule("R143")
@both
async def test_notifications_that_are_none_of_ours_are_dropped(version: str, caplog: pytest.LogCaptureFixture) -> None:
    script = Script(version, {"tools/list": lambda params: listing("a")})
    caplog.set_level(logging.WARNING)
    async with Client(script, version=version) as client:
        for method in ("notifications/whatever", "notifications/resources/updated", "notifications/cancelled"):
            for params in ({}, {"uri": 5}, {"requestId": 99}):
                script.give({"method": method, "params": params})
        assert await names(client) == ["a"]
    assert caplog.records == []
    assert [message for message in script.sent if "method" not in message] == []
