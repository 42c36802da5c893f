"""Batches over real sockets (2025-03-26 basic/transports, Sending Messages to the Server)."""

from typing import Any

import anyio
import pytest

from backchannel import Context, Server
from tests.server.http.wire import ASKS, LEGACY, Session, call, modern, notification, request, until, wire

pytestmark = [pytest.mark.anyio, pytest.mark.rule("R89")]
BATCHES = "2025-03-26"
SAID = {"role": "assistant", "content": {"type": "text", "text": "Hm."}, "model": "m"}


@pytest.fixture
def server() -> Server:
    server = Server("test")
    server.cancelled = 0  # type: ignore[attr-defined]

    @server.tool
    async def double(n: int) -> str:
        return str(2 * n)

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("What?", max_tokens=5)).text

    @server.tool
    async def wait(ctx: Context) -> None:
        await ctx.progress(1)
        try:
            await anyio.sleep_forever()
        finally:
            server.cancelled += 1  # type: ignore[attr-defined]

    return server


def texts(answers: Any) -> dict[Any, str]:
    return {answer["id"]: answer["result"]["content"][0]["text"] for answer in answers}


async def test_a_batch_is_answered_as_a_batch(server: Server) -> None:
    async with wire(server) as there:
        session = await there.session(ASKS, BATCHES)
        response = await session.post([call("double", 1, n=1), notification("x"), call("double", 2, n=2)])
        assert response.status == 200 and not response.streams
        assert texts(await response.json()) == {1: "2", 2: "4"}
        response = await session.post([call("double", 1, n=3)], accept="text/event-stream")
        assert response.streams
        assert texts(await response.message()) == {1: "6"}
        assert await response.message() is None


async def test_a_question_comes_before_the_answers(server: Server) -> None:
    async with wire(server) as there:
        session = await there.session(ASKS, BATCHES)
        response = await session.post([call("ask", 1), call("ask", 2), call("double", 3, n=1)])
        questions = [await response.message(), await response.message()]
        answers = [{"jsonrpc": "2.0", "id": question["id"], "result": SAID} for question in questions]
        assert (await session.post(answers)).status == 202
        assert texts(await response.message()) == {1: "Hm.", 2: "Hm.", 3: "2"}


async def test_what_wants_no_answer_is_accepted(server: Server) -> None:
    async with wire(server) as there:
        session = await there.session(ASKS, BATCHES)
        response = await session.post([notification("notifications/roots/list_changed"), notification("x")])
        assert (response.status, await response.body()) == (202, b"")


async def test_what_is_wrong_in_a_batch(server: Server) -> None:
    async with wire(server) as there:
        session = await there.session(ASKS, BATCHES)
        response = await session.post([])
        assert (response.status, (await response.json())["error"]["code"]) == (400, -32600)
        start = request("initialize", {"protocolVersion": BATCHES, "capabilities": {}, "clientInfo": {}}, 7)
        response = await session.post([start, request("ping", id=8), request("no/such", id=9), 5])
        found = {answer.get("id"): answer.get("error", {}).get("code") for answer in await response.json()}
        assert found == {7: -32600, 8: None, 9: -32601, None: -32600}
        response = await there.post([start])
        assert (response.status, (await response.json())["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", LEGACY])
async def test_other_versions_have_none(server: Server, version: str) -> None:
    async with wire(server) as there:
        session = await there.session(ASKS, version)
        response = await session.post([request("ping")])
        assert (response.status, (await response.json())["error"]["code"]) == (400, -32600)
        message, headers = modern(request("tools/list"))
        response = await there.post([message], **headers)
        assert (response.status, (await response.json())["error"]["code"]) == (400, -32600)


async def test_without_sessions(server: Server) -> None:
    async with wire(server, sessions=False) as there:
        response = await there.post([call("double", 1, n=1), request("ping", id=2)])
        answers = await response.json()
        assert texts(answers[1:]) == {1: "2"} or texts(answers[:1]) == {1: "2"}
        response = await there.post([request("ping")], mcp_protocol_version=LEGACY)
        assert (response.status, (await response.json())["error"]["code"]) == (400, -32600)
        response = await there.post([call("wait", 1, "t"), call("wait", 2, "t")])
        await response.message()
        response.drop()
        await until(lambda: server.cancelled == 2)  # type: ignore[attr-defined]


async def test_in_a_session_a_client_that_leaves_cancels_nothing(server: Server) -> None:
    async with wire(server) as there:
        session: Session = await there.session(ASKS, BATCHES)
        response = await session.post([call("wait", 1, "t"), call("wait", 2, "u")])
        await response.message()
        response.drop()
        await session.post([notification("notifications/cancelled", {"requestId": 1})])
        await until(lambda: server.cancelled == 1)  # type: ignore[attr-defined]
        assert (await there.app.sessions.find(session.id, None)).peer.serving == 1
