"""`client.listen`: changes as they happen, on both eras and over HTTP."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Client, Limits, Server
from backchannel.client.http import HttpTransport
from backchannel.client.subscriptions import _MOST, Change, Changes, Wanted
from backchannel.errors import ConfigurationError, ConnectionLost, RemoteProtocolError, RequestTimeout
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, RpcError, Script
from tests.server.http.wire import serving

pytestmark = [pytest.mark.anyio, pytest.mark.rule("R163")]
anyio_backend = fake_time.anyio_backend
both = pytest.mark.parametrize("version", BOTH)
over_http = pytest.mark.parametrize("anyio_backend", ["asyncio"])
LISTEN, CANCELLED = "subscriptions/listen", "notifications/cancelled"
EVERYTHING = {"tools": True, "prompts": True, "resource_list": True, "resources": ["a://1", "a://2"]}
CAN: Json = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
CAN["resources"] = {"subscribe": True, "listChanged": True}


def server(**options: Any) -> Server:
    made = Server("s", **options)

    @made.tool
    async def hello() -> str:
        return "hello"

    @made.prompt
    async def greet() -> str:
        return "hi"

    @made.resource("a://{id}")
    async def one(id: str) -> str:
        return id

    return made


@asynccontextmanager
async def connected(server: Server, version: str) -> AsyncIterator[Client]:
    """A client whose session the server takes for ready."""
    with anyio.fail_after(20):
        async with Client(server, version=version) as client:
            await client.ping()
            yield client


def tell(script: Script, id: Any, what: str, **params: Any) -> None:
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": id}} if id is not None else {}
    script.give({"method": f"notifications/{what}", "params": {**meta, **params}})


def acknowledge(script: Script, request: Json, **honoured: Any) -> None:
    honoured = honoured or request["params"]["notifications"]
    tell(script, request["id"], "subscriptions/acknowledged", notifications=honoured)


@asynccontextmanager
async def listening(script: Script, client: Client, **wanted: Any) -> AsyncIterator[tuple[Changes, Json]]:
    """A subscription that the script has acknowledged, and its request."""
    changes = client.listen(**(wanted or {"tools": True}))
    request: Json = {}

    async def answer() -> None:
        request.update(await script.next(LISTEN))
        acknowledge(script, request)

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        await changes.__aenter__()
    try:
        yield changes, request
    finally:
        await changes.__aexit__(None, None, None)


def cancelled(script: Script) -> list[Any]:
    return [params["requestId"] for params in script.requests(CANCELLED)]


# With a Server of ours.


@pytest.mark.rule("R136", "R138")
@both
async def test_changes_as_they_happen(version: str) -> None:
    notify = (made := server()).notify
    async with connected(made, version) as client:
        async with client.listen(**EVERYTHING) as changes:
            assert changes.honoured == Wanted(("a://1", "a://2"), True, True, True)
            await notify.resource_updated("a://1")
            assert await anext(changes) == Change("resource", "a://1")
            await notify.resource_updated("a://3")
            await notify.tools_changed()
            assert await anext(changes) == Change("tools")
            await notify.prompts_changed()
            await notify.resources_changed()
            await notify.resource_updated("a://2")
            assert [await anext(changes) for _ in range(3)] == [
                Change("prompts"),
                Change("resource_list"),
                Change("resource", "a://2"),
            ]
            assert (await client.call_tool("hello")).text == "hello"
        assert [change async for change in changes] == []
        assert (await client.call_tool("hello")).text == "hello"


@both
async def test_what_was_not_wanted_does_not_come(version: str) -> None:
    notify = (made := server()).notify
    async with connected(made, version) as client, client.listen(prompts=True) as changes:
        assert changes.honoured == Wanted(prompts=True)
        await notify.tools_changed()
        await notify.resources_changed()
        await notify.resource_updated("a://1")
        await notify.prompts_changed()
        assert await anext(changes) == Change("prompts")


@both
async def test_equal_changes_are_one_until_they_are_read(version: str) -> None:
    notify = (made := server()).notify
    async with connected(made, version) as client, client.listen(**EVERYTHING) as changes:
        for _ in range(100):
            await notify.tools_changed()
            await notify.resource_updated("a://1")
        await anyio.wait_all_tasks_blocked()
        assert [await anext(changes) for _ in range(2)] == [Change("tools"), Change("resource", "a://1")]
        await notify.tools_changed()
        assert await anext(changes) == Change("tools")


@both
async def test_several_at_once(version: str) -> None:
    notify = (made := server()).notify
    async with connected(made, version) as client, client.listen(resources=["a://1"]) as first:
        async with client.listen(resources=["a://1", "a://2"], tools=True) as second:
            await notify.resource_updated("a://2")
            await notify.resource_updated("a://1")
            assert await anext(first) == Change("resource", "a://1")
            assert [await anext(second) for _ in range(2)] == [Change("resource", f"a://{n}") for n in (2, 1)]
        await notify.resource_updated("a://1")
        assert await anext(first) == Change("resource", "a://1")


@both
async def test_leaving_is_heard_by_the_server(version: str) -> None:
    made = server()
    async with connected(made, version) as client:
        async with client.listen(**EVERYTHING):
            assert await made.notify.resource_updated("a://1") == 1
        await anyio.wait_all_tasks_blocked()
        assert await made.notify.resource_updated("a://1") == 0
        assert client._connection is not None
        assert client._connection.nursery.running == 0
        assert client._connection._peer.pending == 0


@both
async def test_the_client_is_closed_while_somebody_waits(version: str) -> None:
    async with anyio.create_task_group() as group:
        client = await Client(server(), version=version).open()

        async def wait() -> None:
            async with client.listen(tools=True) as changes:
                for _ in range(2):
                    with pytest.raises(ConnectionLost, match="closed"):
                        await anext(changes)

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await client.close()
    with pytest.raises(ConnectionLost):
        async with client.listen(tools=True):
            pass


@both
async def test_a_reader_that_is_cancelled_leaves(version: str) -> None:
    made = server()
    async with connected(made, version) as client:
        with anyio.move_on_after(0.1) as scope:
            async with client.listen(**EVERYTHING) as changes:
                async for _ in changes:
                    pass
        assert scope.cancelled_caught
        await anyio.wait_all_tasks_blocked()
        assert await made.notify.resource_updated("a://1") == 0


@both
async def test_one_task_opens_another_reads_and_a_third_leaves(version: str) -> None:
    made, read = server(), []
    async with connected(made, version) as client:
        changes = client.listen(tools=True)

        async def reading() -> None:
            read.extend([change async for change in changes])

        async with anyio.create_task_group() as group:
            group.start_soon(changes.__aenter__)
        async with anyio.create_task_group() as group:
            group.start_soon(reading)
            await made.notify.tools_changed()
            await anyio.wait_all_tasks_blocked()
            group.start_soon(changes.__aexit__, None, None, None)
    assert read == [Change("tools")]


async def test_too_many_listeners() -> None:
    async with Client(server(limits=Limits(listeners=1)), version=MODERN) as client, client.listen(tools=True):
        with pytest.raises(RemoteProtocolError, match="limit of 1 listeners"):
            async with client.listen(tools=True):
                pass


@both
async def test_what_makes_no_sense(version: str) -> None:
    async with Client(server(), version=version) as client:
        with pytest.raises(ConfigurationError, match="say what to listen for"):
            client.listen()
        with pytest.raises(ConfigurationError, match=r"write \['a://1'\]"):
            client.listen(resources="a://1")
        async with client.listen(tools=True) as changes:
            with pytest.raises(ConfigurationError, match="used before"):
                await changes.__aenter__()


# The stateless protocol, message by message.


async def test_what_is_asked_for_and_what_is_honoured() -> None:
    script = Script(MODERN)
    async with Client(script) as client:
        changes = client.listen(resources=["a://1", "a://2", "a://1"], tools=True)
        async with anyio.create_task_group() as group:
            group.start_soon(changes.__aenter__)
            request = await script.next(LISTEN)
            await anyio.wait_all_tasks_blocked()
            acknowledge(script, {"id": "another"}, toolsListChanged=True)
            acknowledge(script, request, resourceSubscriptions=["a://2"])
        assert request["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["a://1", "a://2"],
        }
        assert request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert changes.honoured == Wanted(("a://2",))
        await changes.__aexit__(None, None, None)
    assert cancelled(script) == [request["id"]]


async def test_the_subscription_id_tells_them_apart() -> None:
    script = Script(MODERN)
    async with Client(script) as client, listening(script, client) as (first, one):
        async with listening(script, client) as (second, other):
            tell(script, other["id"], "tools/list_changed")
            tell(script, other["id"], "prompts/list_changed")
            tell(script, one["id"], "resources/updated", uri="a://5")
            tell(script, None, "resources/list_changed")
            tell(script, str(one["id"]), "resources/list_changed")
            tell(script, one["id"], "resources/updated")
            tell(script, one["id"], "resources/updated", uri=5)
            tell(script, one["id"], "whatever")
            assert [await anext(second) for _ in range(2)] == [Change("tools"), Change("prompts")]
            assert await anext(first) == Change("resource", "a://5")
            with anyio.move_on_after(1) as scope:
                await anext(first)
            assert scope.cancelled_caught


@pytest.mark.parametrize("request_streams", [False, True])
async def test_a_result_is_a_graceful_end(request_streams: bool) -> None:
    script = Script(MODERN, request_streams=request_streams)
    async with Client(script) as client, listening(script, client) as (changes, request):
        tell(script, request["id"], "tools/list_changed")
        script.result(request, {"resultType": "complete"})
        await anyio.wait_all_tasks_blocked()
        assert [change async for change in changes] == [Change("tools")]
        assert [change async for change in changes] == []
    assert cancelled(script) == []


@pytest.mark.parametrize("request_streams", [False, True])
async def test_so_is_a_cancellation_by_the_server(request_streams: bool) -> None:
    script = Script(MODERN, request_streams=request_streams)
    async with Client(script) as client, listening(script, client) as (changes, request):
        for id in (request["id"] + 1, str(request["id"]), None):
            script.give({"method": CANCELLED, "params": {"requestId": id}})
        tell(script, request["id"], "tools/list_changed")
        script.give({"method": CANCELLED, "params": {"requestId": request["id"]}})
        assert [change async for change in changes] == [Change("tools")]
        await anyio.wait_all_tasks_blocked()
        assert client._connection is not None
        assert client._connection._peer.pending == client._connection.nursery.running == 0
    assert cancelled(script) == []


async def test_a_cancellation_by_the_server_is_of_no_other_call() -> None:
    script = Script(MODERN)
    async with Client(script) as client, listening(script, client), anyio.create_task_group() as group:
        group.start_soon(client.request, "x/y")
        call = await script.next("x/y")
        script.give({"method": CANCELLED, "params": {"requestId": call["id"]}})
        await anyio.wait_all_tasks_blocked()
        script.result(call, {"resultType": "complete"})


@pytest.mark.parametrize(
    ("request_streams", "expected"), [(False, "told"), (True, "not told")], ids=["stdio", "streams"]
)
async def test_leaving_says_so_where_no_stream_does(request_streams: bool, expected: str) -> None:
    script = Script(MODERN, request_streams=request_streams)
    async with Client(script) as client, listening(script, client) as (_, request):
        pass
    assert cancelled(script) == ([request["id"]] if expected == "told" else [])


async def test_an_error_before_the_acknowledgment_is_the_opener_s() -> None:
    def refuse(params: Json) -> Json:
        raise RpcError(-32603, "no room")

    async with Client(Script(MODERN, {LISTEN: refuse})) as client:
        with pytest.raises(RemoteProtocolError, match="no room"):
            async with client.listen(tools=True):
                pass


async def test_an_error_after_it_is_the_reader_s() -> None:
    script = Script(MODERN)
    async with Client(script) as client, listening(script, client) as (changes, request):
        tell(script, request["id"], "tools/list_changed")
        script.give({"id": request["id"], "error": {"code": -32603, "message": "broke"}})
        await anyio.wait_all_tasks_blocked()
        assert await anext(changes) == Change("tools")
        with pytest.raises(RemoteProtocolError, match="broke"):
            await anext(changes)


async def test_a_result_without_an_acknowledgment_honours_nothing() -> None:
    async with Client(Script(MODERN, {LISTEN: lambda params: {"resultType": "complete"}})) as client:
        async with client.listen(tools=True) as changes:
            assert changes.honoured == Wanted()
            assert [change async for change in changes] == []


@both
async def test_a_server_that_does_not_answer(version: str) -> None:
    script = Script(version, capabilities=CAN)
    async with Client(script, timeout=5, version=version) as client:
        began = anyio.current_time()
        with pytest.raises(RequestTimeout, match="limit of 5 s"):
            async with client.listen(resources=["a://1"]):
                pass
        assert anyio.current_time() - began == pytest.approx(5, abs=1.1)
        assert client._connection is not None
        assert client._connection._peer.pending == client._connection.nursery.running == 0
        assert client._connection.ended == []
    assert len(cancelled(script)) == 1


@both
async def test_the_connection_is_lost(version: str) -> None:
    script = Script(version, capabilities=CAN)
    client = await Client(script, version=version).open()
    changes = client.listen(tools=True)
    async with anyio.create_task_group() as group:
        group.start_soon(changes.__aenter__)
        if version == MODERN:
            acknowledge(script, await script.next(LISTEN))
    script.lose(ConnectionLost("the server is gone"))
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="the server is gone"):
            await anext(changes)
    await changes.__aexit__(None, None, None)
    await client.close()


async def test_readers_that_do_not_read_do_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(MODERN)
    async with Client(script) as client, listening(script, client, resources=["a://"]) as (changes, request):
        for number in range(_MOST + 5):
            tell(script, request["id"], "resources/updated", uri=f"a://{number}")
        assert len(changes._waiting) == _MOST
        assert await anext(changes) == Change("resource", "a://5")
    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "the oldest are dropped" in warning.getMessage()


# Legacy sessions, message by message.


def session(*refused: str, **on: Any) -> Script:
    def subscribe(params: Json) -> Json:
        if params["uri"] in refused:
            raise RpcError(-32002, "Resource not found")
        return {}

    both = {"resources/subscribe": subscribe, "resources/unsubscribe": lambda params: {}}
    return Script(LEGACY, {**both, **on}, capabilities=CAN)


def uris(script: Script, method: str) -> list[str]:
    return [params["uri"] for params in script.requests(f"resources/{method}")]


@pytest.mark.rule("R138")
async def test_a_session_subscribes_once_and_unsubscribes_with_the_last() -> None:
    script = session()
    async with Client(script, version="legacy") as client:
        async with client.listen(resources=["a://1"]):
            async with client.listen(resources=["a://1", "a://2"]):
                assert uris(script, "subscribe") == ["a://1", "a://2"]
            assert uris(script, "unsubscribe") == ["a://2"]
        assert uris(script, "unsubscribe") == ["a://2", "a://1"]
        async with client.listen(resources=["a://1"]):
            assert uris(script, "subscribe") == ["a://1", "a://2", "a://1"]


async def test_each_reader_takes_what_it_wanted() -> None:
    script = session()
    async with Client(script, version="legacy") as client:
        async with client.listen(resources=["a://1"]) as first, client.listen(resources=["b://"], tools=True) as second:
            for uri in ("a://12", "a://1/part", "a://1", "a://1?q", "b://x", "c://"):
                tell(script, None, "resources/updated", uri=uri)
            tell(script, None, "tools/list_changed")
            expected = [Change("resource", uri) for uri in ("a://1/part", "a://1", "a://1?q")]
            assert [await anext(first) for _ in expected] == expected
            assert [await anext(second) for _ in range(2)] == [Change("resource", "b://x"), Change("tools")]
            assert not first._waiting and not second._waiting


@pytest.mark.rule("R94")
@pytest.mark.parametrize("capabilities", [{}, {"tools": {}, "resources": {"subscribe": False}, "prompts": 5}])
async def test_what_the_session_s_server_does_not_declare_is_not_honoured(capabilities: Json) -> None:
    script = Script(LEGACY, capabilities=capabilities)
    async with Client(script, version="legacy") as client, client.listen(**EVERYTHING) as changes:
        assert changes.honoured == Wanted()
        assert uris(script, "subscribe") == []


async def test_a_resource_that_the_server_refuses_is_not_honoured(caplog: pytest.LogCaptureFixture) -> None:
    script = session("a://1")
    async with Client(script, version="legacy") as client:
        async with client.listen(resources=["a://1", "a://2"]) as changes:
            assert changes.honoured == Wanted(("a://2",))
    assert uris(script, "unsubscribe") == ["a://2"]
    assert "the server tells nothing of a://1: Resource not found" in caplog.text


async def test_leaving_does_not_wait_long_nor_fail() -> None:
    script = session()
    async with Client(script, version="legacy") as client:
        del script.on["resources/unsubscribe"]
        began = anyio.current_time()
        async with client.listen(resources=["a://1", "a://2"]):
            pass
        assert anyio.current_time() - began == pytest.approx(1, abs=1.1)
    script = session(**{"resources/unsubscribe": RemoteProtocolError(-32603, "no")})
    async with Client(script, version="legacy") as client:
        async with client.listen(resources=["a://1", "a://2"]):
            pass
        assert sorted(uris(script, "unsubscribe")) == ["a://1", "a://2"]


async def test_listening_does_not_open_a_strict_client_to_questions() -> None:
    script = session()
    async with Client(script, version="legacy", strict=True, sample=lambda q: "x") as client, client.listen(tools=True):
        script.ask(1, "sampling/createMessage", {"messages": [], "maxTokens": 1})
        assert (await script.next_answer())["error"]["code"] == -32600


# HTTP.


@asynccontextmanager
async def served(version: str) -> AsyncIterator[tuple[Server, Client, Any]]:
    from backchannel import http_app

    made = server()
    app = http_app(made)
    with anyio.fail_after(30):
        async with serving(app) as port:
            async with Client(HttpTransport(f"http://127.0.0.1:{port}/mcp"), version=version) as client:
                await client.ping()
                yield made, client, app


@over_http
@both
async def test_over_http(version: str) -> None:
    async with served(version) as (made, client, _):
        async with client.listen(**EVERYTHING) as changes:
            assert await made.notify.tools_changed() == 1
            assert await anext(changes) == Change("tools")
            await made.notify.resource_updated("a://2")
            assert await anext(changes) == Change("resource", "a://2")
            assert (await client.call_tool("hello")).text == "hello"
        reached = 1
        while reached:
            await anyio.lowlevel.checkpoint()
            reached = await made.notify.resource_updated("a://2")


@over_http
async def test_the_app_ends_gracefully_over_http() -> None:
    async with served(MODERN) as (_, client, app), client.listen(tools=True) as changes:
        async with anyio.create_task_group() as group:
            group.start_soon(app.close)
            assert [change async for change in changes] == []


@over_http
async def test_a_stream_that_breaks_off_over_http() -> None:
    from tests.client.test_http_transport import Got
    from tests.client.test_http_transport import serving as scripted

    async def script(got: Got) -> None:
        if got.json["method"] == "server/discover":
            return await got.result({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": CAN})
        await got.stream()
        meta = {"io.modelcontextprotocol/subscriptionId": got.json["id"]}
        params = {"_meta": meta, "notifications": got.json["params"]["notifications"]}
        method = "notifications/subscriptions/acknowledged"
        await got.event({"jsonrpc": "2.0", "method": method, "params": params})
        await got.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}})
        got.drop()
        return None

    async with scripted(script) as other, Client(HttpTransport(other.url), version=MODERN) as client:
        async with client.listen(tools=True) as changes:
            assert await anext(changes) == Change("tools")
            with pytest.raises(ConnectionLost):
                await anext(changes)
