"""Lost sessions over HTTP: a server of ours that is started again, and a scripted one."""

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Client, Context, OutcomeUnknown, Server, http_app
from backchannel.client import cursor
from backchannel.client.http import HttpTransport
from backchannel.client.subscriptions import Change
from backchannel.client.transport import SessionGone
from tests.client.http_server import BOUND, Got, message, serving
from tests.server.http import wire

pytestmark = [pytest.mark.anyio, pytest.mark.case("F04")]
LEGACY = "2025-11-25"


@pytest.fixture
def anyio_backend(monkeypatch: pytest.MonkeyPatch) -> str:
    """HTTP is asyncio only. Time is fake where a stream waits to be taken up again."""
    monkeypatch.setattr(cursor, "_PAUSE", 0.01)
    monkeypatch.setattr(cursor, "_LONGEST", 0.01)
    return "asyncio"


def restartable() -> tuple[Server, list[int]]:
    server, ran = Server("s"), list[int]()

    @server.resource("note://1")
    async def note() -> str:
        return "text"

    @server.tool
    async def count(ctx: Context, number: int) -> str:
        ran.append(number)
        await ctx.log("info", f"call {number}")
        return str(number)

    return server, ran


async def test_a_server_that_was_started_again_is_gone_on_with() -> None:
    server, ran = restartable()
    logged: list[Any] = []
    app = http_app(server)
    async with wire.serving(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        client = Client(url, version=LEGACY, log_level="info", log=lambda one: logged.append(one.data))
        with anyio.fail_after(BOUND):
            async with client, client.listen(resources=["note://1"], tools=True) as changes:
                await client.call_tool("count", {"number": 0})
                await app.close()  # the next request starts it again, with an empty table of sessions

                results: list[Any] = []

                async def call(number: int) -> None:
                    results.append(await client.call_tool("count", {"number": number}))

                async with anyio.create_task_group() as group:
                    for number in range(1, 11):
                        group.start_soon(call, number)
                assert sorted(int(result.text) for result in results) == list(range(1, 11))
                assert sorted(ran) == list(range(11)), "each once"
                assert client.gauges().reconnects >= 1
                assert app.sessions is not None and len(app.sessions) == 1
                assert {await anext(changes), await anext(changes)} == {Change("tools"), Change("resource", "note://1")}
                while not await server.notify.resource_updated("note://1"):
                    await anyio.lowlevel.checkpoint()
                assert await anext(changes) == Change("resource", "note://1")
    assert sorted(logged) == sorted(f"call {number}" for number in range(11)), "the level was set again"


@pytest.mark.rule("R87")
async def test_the_stream_of_the_session_finds_out() -> None:
    """Nobody calls, and yet what the server tells arrives."""
    forget = asyncio.Event()
    begun = 0

    async def script(got: Got) -> None:
        nonlocal begun
        session = got.headers.get("mcp-session-id")
        if got.method == "POST" and got.json.get("method") == "initialize":
            begun += 1
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}
            await got.result(result, mcp_session_id=f"session-{begun}")
        elif session != f"session-{begun}" or (begun == 1 and forget.is_set()):
            await got.reply(404)
        elif got.method == "GET":
            await got.stream()
            await got.event(message("notifications/tools/list_changed"))
            if begun == 1:
                await forget.wait()
                return got.drop()
            await got.wait()
        else:
            await got.reply(202)

    async with serving(script) as server, Client(server.url, version=LEGACY) as client:
        async with client.listen(tools=True) as changes:
            assert await anext(changes) == Change("tools")
            forget.set()
            assert await anext(changes) == Change("tools")
            assert begun == 2
            gets = [got for got in server.got if got.method == "GET"]
            await gets[0].wait()


async def test_a_server_that_never_knows_a_session_gets_one_more_try_for_each_call() -> None:
    begun = 0

    async def script(got: Got) -> None:
        nonlocal begun
        if got.method == "POST" and got.json.get("method") == "initialize":
            begun += 1
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": info}
            await got.result(result, mcp_session_id=f"session-{begun}")
        elif got.method == "POST" and "id" not in got.json:
            await got.reply(202)
        else:
            await got.reply(404)

    async with serving(script) as server, Client(server.url, version=LEGACY) as client:
        with pytest.raises(SessionGone, match="HTTP 404"):
            await client.call_tool("t")
        assert begun == 2
        calls = [got for got in server.got if b"tools/call" in got.body]
        assert [got.headers["mcp-session-id"] for got in calls] == ["session-1", "session-2"]


async def test_a_stream_that_cannot_be_resumed_because_the_session_is_gone_is_a_loss() -> None:
    """Whether the call ran is not known, so it is not sent again."""
    lost = False

    async def script(got: Got) -> None:
        nonlocal lost
        if got.method == "POST" and got.json.get("method") == "initialize":
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": info}
            await got.result(result, mcp_session_id="session")
        elif got.method == "POST" and got.json.get("method") == "tools/call":
            await got.stream()
            await got.event(id="1", retry=0)
            await got.end()
            lost = True
        elif got.method == "POST":
            await got.reply(202)
        elif got.method == "GET" and not lost:
            await got.reply(405)
        else:
            await got.reply(404)

    async with serving(script) as server, Client(HttpTransport(server.url), version=LEGACY) as client:
        with pytest.raises(OutcomeUnknown, match="could not be resumed") as caught:
            await client.call_tool("t")
        assert caught.value.pending is not None
        assert len([got for got in server.got if b"tools/call" in got.body]) == 1


@pytest.mark.rule("R85", "R90")
async def test_nothing_of_the_old_session_is_taken_for_something_of_the_new_one() -> None:
    """A stream is not resumed in another session, and a question of the old one is not answered in the new one."""
    shown, closed, answers, begun = asyncio.Event(), asyncio.Event(), list[Any](), 0

    async def ask(question: Any) -> Any:
        shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def script(got: Got) -> None:
        nonlocal begun
        body = got.json
        if got.method == "POST" and body.get("method") == "initialize":
            begun += 1
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": info}
            await got.result(result, mcp_session_id=f"session-{begun}")
        elif got.method == "GET":
            await got.reply(405)
        elif got.method == "DELETE" or "id" not in body:
            await got.reply(202)
        elif "method" not in body:
            answers.append(body)
            await got.reply(202)
        elif body["params"]["name"] == "asks":
            await got.stream()
            params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            await got.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}, id="1-1")
            await closed.wait()
            await got.end()
        elif got.headers["mcp-session-id"] == "session-1":
            await got.reply(404)
        else:
            await got.result({"content": []})

    async with serving(script) as server, Client(server.url, version=LEGACY, elicit=ask) as client:

        async def call() -> None:
            with pytest.raises(OutcomeUnknown, match="could not be resumed"):
                await client.call_tool("asks")

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await shown.wait()
            await client.call_tool("other")
            await closed.wait()
        assert answers == []
        resumed = [got for got in server.got if "last-event-id" in got.headers]
        assert resumed == []
