"""Subscriptions over real sockets."""

import anyio
import pytest

from backchannel import Limits, Server
from tests.server.http.wire import LEGACY, notification, request, until, wire

pytestmark = pytest.mark.anyio
ID = "io.modelcontextprotocol/subscriptionId"


def listen(id: int | str = 1, **wanted: object) -> dict[str, object]:
    return request("subscriptions/listen", {"notifications": wanted or {"toolsListChanged": True}}, id)


@pytest.mark.rule("R163")
async def test_a_subscription_is_an_event_stream() -> None:
    server = Server("test")
    server.add_prompt(lambda: "", name="p")
    async with wire(server) as there:
        stream = await there.modern(listen("s"))
        assert (stream.status, stream.streams) == (200, True)
        first = await stream.message()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"] == {"notifications": {"toolsListChanged": True}, "_meta": {ID: "s"}}
        other = await there.modern(listen(2, promptsListChanged=True))
        await other.message()
        assert (await server.notify.tools_changed(), await server.notify.prompts_changed()) == (1, 1)
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        assert (await other.message())["method"] == "notifications/prompts/list_changed"


@pytest.mark.rule("R163")
async def test_a_client_that_leaves_frees_its_place() -> None:
    server = Server("test", limits=Limits(listeners=1))
    async with wire(server) as there:
        stream = await there.modern(listen(1))
        await stream.message()
        refused = await there.modern(listen(2))
        error = (await refused.json())["error"]
        assert error["code"] == -32603 and "limit of 1 listeners" in error["message"]
        stream.drop()
        await until(lambda: len(server.notify) == 0)
        assert (await (await there.modern(listen(3))).message())["params"]["_meta"] == {ID: 3}


@pytest.mark.rule("R163")
async def test_a_graceful_close_sends_the_result_at_once() -> None:
    server = Server("test")
    async with wire(server) as there:
        stream = await there.modern(listen("s"))
        await stream.message()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(there.app.close, 600)
                [result] = await stream.messages()
        assert (result["id"], result["result"]["_meta"][ID]) == ("s", "s")
        assert result["result"]["resultType"] == "complete"
    assert len(server.notify) == 0


async def test_a_client_that_takes_no_stream_is_refused() -> None:
    async with wire(Server("test")) as there:
        response = await there.modern(listen(), accept="application/json")
        assert response.status == 400
        assert "text/event-stream" in (await response.json())["error"]["message"]


@pytest.mark.rule("R163")
async def test_a_slow_listener_delays_nobody() -> None:
    server = Server("test")
    server.add_resource(lambda: "", "file:///" + "a" * 4000, name="a")
    uri = "file:///" + "a" * 4000
    async with wire(server) as there:
        slow = await there.modern(listen(1, resourceSubscriptions=[uri]))
        quick = await there.modern(listen(2, resourceSubscriptions=[uri]))
        await quick.message()
        for _ in range(3000):
            assert await server.notify.resource_updated(uri) == 2
            assert (await quick.message())["params"]["uri"] == uri
        slow.drop()


async def test_without_sessions_nobody_stays_behind() -> None:
    server = Server("test")
    client = {"name": "by hand", "version": "1"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    async with wire(server, sessions=False) as there:
        for _ in range(3):
            response = await there.post(request("initialize", params))
            assert response.status == 200
            await response.json()
            await there.post(notification("notifications/initialized"))
        assert len(server.notify) == 0


@pytest.mark.case("E04")
async def test_legacy_sessions_hear_on_their_standing_stream() -> None:
    server = Server("test")
    server.add_resource(lambda: "", "file:///a", name="a")
    async with wire(server) as there:
        sessions = [await there.session() for _ in range(3)]
        for session in sessions[:2]:
            response = await session.post(request("resources/subscribe", {"uri": "file:///a"}))
            assert (await response.json())["result"] == {}
        streams = [await session.http("GET") for session in sessions]
        assert await server.notify.resource_updated("file:///a") == 2
        assert await server.notify.tools_changed() == 3
        for number, stream in enumerate(streams):
            if number < 2:
                assert (await stream.message())["params"] == {"uri": "file:///a"}
            assert (await stream.message())["method"] == "notifications/tools/list_changed"
        assert (await sessions[0].http("DELETE")).status == 200
        assert await server.notify.tools_changed() == 2
