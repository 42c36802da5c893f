"""What a server has and says that it has: registries, lists, capabilities, extensions, raw methods, other servers."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import ConfigurationError, Context, Limits, LocalProtocolError, Principal, Server
from backchannel.types import Annotations, Icon, ToolAnnotations
from tests.server.replay import LEGACY, MODERN, Driver, both_eras, driver, text

pytestmark = pytest.mark.anyio
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
OLD = ["2024-11-05", "2025-03-26", "2025-06-18"]


async def ask(wire: Driver, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """The response to any request."""
    exchange = wire.exchange(method, params or {})
    await wire.serve(exchange)
    return await wire.until(lambda message: message.get("id") == exchange.request.id)


def full(server: Server, count: int = 5) -> Server:
    for n in range(count):
        server.add_tool(lambda: "", name=f"t{n}")
        server.add_prompt(lambda: "", name=f"p{n}")
        server.add_resource(lambda: "", f"r://{n}", name=f"r{n}")
        server.add_resource(lambda a: a, f"r://{n}/{{a}}", name=f"r{n}")
    return server


# Lists.


@pytest.mark.parametrize(("method", "member"), LISTS.items())
@pytest.mark.parametrize(("size", "sizes"), [(2, [2, 2, 1]), (5, [5]), (1, [1] * 5), (None, [5])])
@both_eras
async def test_pages(method: str, member: str, size: int | None, sizes: list[int], version: str) -> None:
    async with driver(full(Server("test", limits=Limits(page=size), ttl=1.5, public=True)), version) as wire:
        found, seen, cursor = [], [], None
        while True:
            result = (await ask(wire, method, {"cursor": cursor} if cursor else {}))["result"]
            found.append(len(result[member]))
            seen += [entry.get("uriTemplate") or entry.get("uri") or entry["name"] for entry in result[member]]
            hints = {"ttlMs": 1500, "cacheScope": "public"} if version == MODERN else {}
            assert {name: result[name] for name in ("ttlMs", "cacheScope") if name in result} == hints
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        assert (found, len(set(seen))) == (sizes, 5)
        error = (await ask(wire, method, {"cursor": "bad"}))["error"]
        assert error["code"] == -32602 and "cursor" in error["message"]


@both_eras
@pytest.mark.rule("R164")
async def test_lists_that_depend_on_who_asks_are_private(version: str) -> None:
    server = full(Server("test", ttl=1, public=True, limits=Limits(page=2)), 2)
    who = Principal("me")
    server.add_tool(lambda: "mine", name="mine", visible=lambda principal: principal == who)
    for principal, there in ((who, True), (None, False)):
        async with driver(server, version, principal=principal) as wire:
            result = (await ask(wire, "tools/list"))["result"]
            assert ("nextCursor" in result) is there
            assert (result.get("cacheScope"), result.get("ttlMs")) == (
                ("private", 1000) if version == MODERN else (None, None)
            )
            response = await wire.call("mine")
            assert ("result" in response) is there
            if not there:
                assert response["error"] == {"code": -32602, "message": "Unknown tool: mine"}
            assert (await ask(wire, "prompts/list"))["result"].get("cacheScope") == (
                "public" if version == MODERN else None
            )


@pytest.mark.parametrize("version", [*OLD, LEGACY, MODERN])
async def test_each_version_shows_what_it_has(version: str) -> None:
    server = Server("test")
    icons, annotations = [Icon("data:,")], Annotations(priority=1.0)
    server.add_tool(lambda: "", name="t", title="T", icons=icons, annotations=ToolAnnotations(read_only_hint=True))
    server.add_prompt(lambda a: "", name="p", title="P", icons=icons)
    server.add_resource(lambda: "", "r://", name="r", title="R", icons=icons, annotations=annotations)
    async with driver(server, version) as wire:
        [tool] = (await ask(wire, "tools/list"))["result"]["tools"]
        assert ("annotations" in tool) is (version != "2024-11-05")
        assert ("title" in tool) is (version not in OLD[:2])
        assert ("icons" in tool) is (version not in OLD)
        # The older versions leave prompts and resources open for members that came later.
        [prompt] = (await ask(wire, "prompts/list"))["result"]["prompts"]
        [resource] = (await ask(wire, "resources/list"))["result"]["resources"]
        assert (prompt["name"], resource["name"], resource["annotations"]) == ("p", "r", {"priority": 1.0})


# Capabilities.


@both_eras
@pytest.mark.rule("R136")
async def test_what_is_not_declared_does_not_exist(version: str) -> None:
    server = Server("test")
    async with driver(server, version) as wire:
        assert server.capabilities() == {"tools": {"listChanged": True}, "logging": {}}
        assert (await ask(wire, "tools/list"))["result"]["tools"] == []
        for method in [*LISTS][1:]:
            assert (await ask(wire, method))["error"]["code"] == -32601
        full(server)
        for method, member in LISTS.items():
            assert len((await ask(wire, method))["result"][member]) == 5
    assert server.capabilities()["prompts"] == {"listChanged": True}
    assert server.capabilities()["resources"] == {"subscribe": True, "listChanged": True}


@both_eras
async def test_what_the_server_says_of_itself(version: str) -> None:
    server = Server("shop", version="1.2", title="Shop", instructions="Buy.", icons=[Icon("data:,")], ttl=2)
    async with driver(server, version) as wire:
        if version == MODERN:
            result = (await ask(wire, "server/discover"))["result"]
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["title"] == "Shop"
            assert (result["instructions"], result["ttlMs"], result["cacheScope"]) == ("Buy.", 2000, "private")
            assert result["supportedVersions"][0] == MODERN
        else:
            result = wire.sent[0]["result"]
            assert result["serverInfo"]["name"] == "shop" and result["instructions"] == "Buy."
        assert result["capabilities"] == server.capabilities()


@both_eras
@pytest.mark.rule("R148", "R149", "R150")
async def test_extensions(version: str) -> None:
    server = Server("test", extensions={"acme/plain": {}, "acme/set": {"a": 1}, "acme/none": None})  # type: ignore[dict-item]

    @server.method("acme/thing", extension="acme/things")
    async def thing(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {"got": params.get("q"), "version": ctx.version}

    declared = {"acme/plain": {}, "acme/set": {"a": 1}, "acme/none": {}, "acme/things": {}}
    assert server.capabilities()["extensions"] == declared
    async with driver(server, version, {"extensions": {"who/knows": {"x": 1}}}) as wire:
        result = (await ask(wire, "acme/thing", {"q": [1]}))["result"]
        assert (result["got"], result["version"]) == ([1], version)
        with pytest.raises(LocalProtocolError, match="Method not found: acme/other"):
            wire.exchange("acme/other", {})
        if version == MODERN:
            assert (await ask(wire, "server/discover"))["result"]["capabilities"]["extensions"] == declared


def test_a_method_of_the_protocol_cannot_be_replaced() -> None:
    server = Server("test")
    with pytest.raises(ConfigurationError, match="there is a method 'tools/list' already"):
        server.method("tools/list")

    @server.method("acme/thing")
    async def thing(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    with pytest.raises(ConfigurationError, match="already"):
        server.method("acme/thing")
    assert "extensions" not in server.capabilities()


@both_eras
@pytest.mark.rule("R133")
async def test_a_raw_method_that_fails(version: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.method("acme/fails")
    async def fails(ctx: Context, params: dict[str, Any]) -> Any:
        return 5 if params.get("wrong") else 1 / 0

    async with driver(server, version) as wire:
        for params in ({}, {"wrong": True}):
            assert (await ask(wire, "acme/fails", params))["error"]["code"] == -32603
        assert "result" in await ask(wire, "tools/list")
    assert len(caplog.records) == 2


# Other servers.


@both_eras
async def test_including_another_server(version: str) -> None:
    other = Server("other", extensions={"acme/x": {"a": 1}})
    other.add_tool(lambda: "tool", name="t")
    other.add_prompt(lambda a: a, name="p")
    other.add_resource(lambda id: id, "o://{id}", name="o")
    other.add_resource(lambda: "fixed", "o://fixed", name="fixed")
    other.completion("p", "a")(lambda value: ["x"])
    other.completion("o://{id}", "id")(lambda value: ["y"])

    @other.method("acme/thing")
    async def thing(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {"thing": True}

    server = Server("test")
    server.add_tool(lambda: "mine", name="t")
    server.include(other, prefix="x_")
    assert other.tools.handlers["t"].tool.name == "t"
    async with driver(server, version) as wire:
        assert [tool["name"] for tool in (await ask(wire, "tools/list"))["result"]["tools"]] == ["t", "x_t"]
        assert (text(await wire.call("t")), text(await wire.call("x_t"))) == ("mine", "tool")
        assert "result" in await ask(wire, "prompts/get", {"name": "x_p", "arguments": {"a": "1"}})
        assert "error" in await ask(wire, "prompts/get", {"name": "p", "arguments": {"a": "1"}})
        assert "result" in await ask(wire, "resources/read", {"uri": "o://1"})
        assert (await ask(wire, "acme/thing"))["result"]["thing"] is True
        for ref, name, found in (
            ({"type": "ref/prompt", "name": "x_p"}, "a", ["x"]),
            ({"type": "ref/resource", "uri": "o://{id}"}, "id", ["y"]),
        ):
            params = {"ref": ref, "argument": {"name": name, "value": ""}}
            assert (await ask(wire, "completion/complete", params))["result"]["completion"]["values"] == found
    assert server.capabilities()["extensions"] == {"acme/x": {"a": 1}}
    with pytest.raises(ConfigurationError, match="'x_t' already"):
        server.include(other, prefix="x_")


@both_eras
async def test_tools_come_and_go(version: str) -> None:
    server = Server("test")
    async with driver(server, version) as wire:
        server.add_tool(lambda: "new", name="new")
        assert text(await wire.call("new")) == "new"
        server.remove_tool("new")
        assert (await wire.call("new"))["error"]["code"] == -32602
    with pytest.raises(KeyError):
        server.remove_tool("new")


@both_eras
@pytest.mark.rule("R126")
async def test_unknown_requests(version: str) -> None:
    async with driver(Server("test"), version) as wire:
        unknown = ["acme/thing", "tasks/list", "elicitation/create", "notifications/cancelled"]
        removed = ["initialize", "ping", "logging/setLevel", "resources/subscribe"] if version == MODERN else []
        for method in [*unknown, *removed, *(["server/discover", "subscriptions/listen"] if not removed else [])]:
            with pytest.raises(LocalProtocolError, match="Method not found"):
                wire.exchange(method, {})


def test_descriptions_come_from_docstrings() -> None:
    server = Server("test")

    @server.tool
    def f(a: int) -> str:
        """Does it.

        - one
          - two

        Args:
            a: a number
        """
        return ""

    tool = server.tools.handlers["f"].tool
    assert tool.description == "Does it.\n\n- one\n  - two"
    assert tool.input_schema["properties"]["a"]["description"] == "a number"


@both_eras
@pytest.mark.rule("R130")
async def test_meta_survives_the_strict_check_of_arguments(version: str) -> None:
    server = Server("test")

    @server.tool
    async def f(a: int, ctx: Context) -> str:
        await ctx.progress(1)
        return str(a)

    async with driver(server, version) as wire:
        response = await wire.call("f", {"a": 1}, _meta={"progressToken": "t", "acme/x": {"a": [1]}})
        assert (text(response), wire.progress) == ("1", [1])


@both_eras
@pytest.mark.rule("R134")
async def test_a_handler_notices_that_it_is_cancelled(version: str) -> None:
    server, seen = Server("test"), []

    @server.tool
    async def f() -> str:
        seen.append("begun")
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")
        return ""

    async with driver(server, version) as wire, anyio.create_task_group() as group:
        exchange = wire.tool("f")
        group.start_soon(wire.serve, exchange)
        while not seen:
            await anyio.lowlevel.checkpoint()
        wire.tell("notifications/cancelled", {"requestId": exchange.request.id})
    assert seen == ["begun", "cancelled"]


@both_eras
@pytest.mark.rule("R127", "R143")
async def test_bad_notifications_are_never_answered(version: str) -> None:
    async with driver(Server("test"), version) as wire:
        count = len(wire.sent)
        for method in ("no/such", "notifications/cancelled", "notifications/initialized", "notifications/progress"):
            for params in (None, {"requestId": [1]}, {"progressToken": {}}, {"_meta": 5}):
                wire.tell(method, params)
        assert len(wire.session.stream) == 0
        assert "result" in await ask(wire, "tools/list")
        assert len(wire.sent) == count + 1
