"""Progress and log messages of a call over real sockets: on its own stream, before its response, or nowhere."""

from typing import Any

import anyio
import pytest

from backchannel import CallFinished, Context, Server
from tests.server.http.wire import call, request, text, wire

pytestmark = pytest.mark.anyio
LEVEL = "io.modelcontextprotocol/logLevel"
OLD = ["2025-03-26", "2025-06-18", "2025-11-25"]


def talkative() -> tuple[Server, anyio.Event]:
    """A server with a tool that begins to tell, and goes on once the event is set."""
    server, go = Server("test"), anyio.Event()

    @server.tool
    async def tell(ctx: Context, name: str, times: int = 3) -> str:
        for number in range(times):
            await ctx.progress(number + 1, message=name)
            await go.wait()
        await ctx.log("info", name)
        return name

    return server, go


def check(messages: list[Any], id: int, name: str, times: int = 3) -> None:
    """All that a call tells is there, in order, is its own, and comes before its response."""
    *told, last = messages
    assert [one["method"] for one in told] == ["notifications/progress"] * times + ["notifications/message"]
    assert [one["params"]["progress"] for one in told[:-1]] == list(range(1, times + 1))
    assert {one["params"]["progressToken"] for one in told[:-1]} == {name}
    assert {one["params"]["message"] for one in told[:-1]} == {name}
    assert told[-1]["params"]["data"] == name
    assert (last["id"], text(last)) == (id, name)


@pytest.mark.rule("R139", "R140", "R142")
@pytest.mark.case("D01")
@pytest.mark.parametrize("listening", [False, True])
@pytest.mark.parametrize("version", OLD)
async def test_calls_in_one_session_tell_on_their_own_streams(version: str, listening: bool) -> None:
    server, go = talkative()
    async with wire(server) as there:
        session = await there.session(version=version)
        standing = await session.http("GET") if listening else None
        await session.post(request("logging/setLevel", {"level": "info"}))
        calls = {id: (name, await session.post(call("tell", id, name, name=name))) for id, name in ((1, "a"), (2, "b"))}
        go.set()
        for id, (name, response) in calls.items():
            check(await response.messages(), id, name)
        if standing is not None:  # nothing of the calls came there: the next message is this
            await server.notify.tools_changed()
            assert (await standing.message())["method"] == "notifications/tools/list_changed"


@pytest.mark.rule("R139", "R140", "R142")
@pytest.mark.case("D01")
async def test_modern_calls_tell_on_their_own_streams_and_a_listener_hears_nothing_of_them() -> None:
    server, go = talkative()
    async with wire(server) as there:
        wanted = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 9)
        wanted["params"]["_meta"] = {LEVEL: "debug"}
        listener = await there.modern(wanted)
        await listener.message()
        calls = {}
        for id, name in ((1, "a"), (2, "b")):
            asking = call("tell", id, name, name=name)
            asking["params"]["_meta"][LEVEL] = "debug"
            calls[id] = (name, await there.modern(asking))
        go.set()
        for id, (name, response) in calls.items():
            check(await response.messages(), id, name)
        response = await there.modern(call("tell", 3, name="quiet"))
        assert [text(message) for message in await response.messages()] == ["quiet"]
        await server.notify.tools_changed()
        assert (await listener.message())["method"] == "notifications/tools/list_changed"


@pytest.mark.rule("R140")
@pytest.mark.case("D02")
@pytest.mark.parametrize("version", OLD)
async def test_the_response_comes_after_all_progress(version: str) -> None:
    server, go = talkative()
    go.set()
    async with wire(server) as there:
        session = await there.session(version=version)
        await session.post(request("logging/setLevel", {"level": "info"}))
        response = await session.post(call("tell", 1, "a", name="a", times=100))
        check(await response.messages(), 1, "a", 100)


@pytest.mark.rule("R43")
@pytest.mark.case("D02")
@pytest.mark.parametrize("version", [*OLD, "2026-07-28"])
async def test_what_is_told_after_the_response_is_refused(version: str) -> None:
    server, kept = Server("test"), []

    @server.tool
    async def tell(ctx: Context) -> str:
        kept.append(ctx)
        await ctx.progress(1)
        return "told"

    async with wire(server) as there:
        post = there.modern if version == "2026-07-28" else (await there.session(version=version)).post
        for _ in range(2):
            messages = await (await post(call("tell", 1, "token"))).messages()
            assert [message.get("method", "response") for message in messages] == ["notifications/progress", "response"]
            for ctx in kept:
                with pytest.raises(CallFinished):
                    await ctx.progress(2)
                with pytest.raises(CallFinished):
                    await ctx.log("emergency", "late")
