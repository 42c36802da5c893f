"""Writing responses to a server whose every `receive` and `send` the test decides."""

import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Context, Server, http_app
from backchannel.protocol.jsonrpc import ErrorResponse, Notification, Request
from backchannel.server.http.in_memory import MemoryEvents
from backchannel.server.http.responses import send_events
from backchannel.server.http.session import HttpSession
from backchannel.waiter import Waiter
from tests.server.http.wire import LEGACY, Asgi, call, modern, notification, request, until

pytestmark = pytest.mark.anyio


def ready() -> HttpSession:
    session = HttpSession("id", None, MemoryEvents())
    session.receive(Notification("notifications/initialized"))
    return session


async def test_many_small_messages_are_sent_together_and_others_get_their_turn() -> None:
    session = ready()
    for number in range(2000):
        session.stream.append(Notification("n", {"number": number, "filler": "x" * 100}))
    session.stream.close()
    turns, at = 0, []
    bodies: list[bytes] = []

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async def send(message: Any) -> None:
        at.append(turns)
        bodies.append(message.get("body", b""))

    reading = await session.find(None)
    assert reading is not None
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(other)
            size = await send_events(send, reading, 15.0)
            group.cancel_scope.cancel()
    sent = b"".join(bodies)
    assert sent.count(b"data: ") == 2000
    assert size == len(sent)
    assert 10 < len(bodies) < 100
    assert max(map(len, bodies)) < 20_000
    assert at[-1] - at[0] > 10


async def test_a_question_that_json_cannot_carry_is_answered_for_the_client(caplog: pytest.LogCaptureFixture) -> None:
    session = ready()
    id = session.peer.open(waiter := Waiter())
    session.stream.append(Request(id, "elicitation/create", object()))
    session.stream.append(Notification("n", {"a": object()}))
    session.stream.append(Notification("n", {"a": 1}))
    session.stream.close()
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))

    reading = await session.find(None)
    assert reading is not None
    with anyio.fail_after(30):
        await send_events(send, reading, 15.0)
        answer = await waiter.wait()
    assert isinstance(answer, ErrorResponse)
    assert b"".join(bodies).count(b"data: ") == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def talker() -> tuple[Server, dict[str, Any]]:
    server = Server("talker")
    world: dict[str, Any] = {"cleaned": anyio.Event(), "started": anyio.Event()}

    @server.tool
    async def talk(ctx: Context) -> str:
        try:
            if "one" in world:
                for _ in range(10):  # until somebody watches for the client to leave
                    await anyio.lowlevel.checkpoint()
                world["one"].gone.set()
            await ctx.progress(1)
            world["started"].set()
            await anyio.sleep_forever()
        finally:
            world["cleaned"].set()
        return ""

    @server.tool
    async def sleep() -> str:
        try:
            world["started"].set()
            await anyio.sleep_forever()
        finally:
            world["cleaned"].set()
        return ""

    return server, world


@pytest.mark.parametrize("early", [True, False])
async def test_a_server_whose_send_never_returns_once_the_client_has_left(early: bool) -> None:
    server, world = talker()
    app = http_app(server)
    with anyio.fail_after(30):
        async with app.running():
            message, headers = modern(call("talk", token="t"))
            one = Asgi(app, message, headers)

            async def never(message: Any) -> None:
                await anyio.sleep_forever()

            one.on_send = never
            if early:  # in the same turn of the event loop in which the stream begins
                world["one"] = one
            else:
                await until(lambda: len(one.sent) == 1)
                one.gone.set()
            await one.done
            assert world["cleaned"].is_set()
            assert len(one.sent) <= 1


async def test_a_call_that_is_cancelled_after_its_client_has_left_sends_nothing() -> None:
    server, world = talker()
    app = http_app(server)
    with anyio.fail_after(30):
        async with app.running():
            client = {"name": "x", "version": "1"}
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
            opened = Asgi(app, request("initialize", params))
            await opened.done
            session = {"mcp_session_id": dict(opened.sent[0]["headers"])[b"mcp-session-id"].decode()}
            one = Asgi(app, call("sleep", 7), session)
            await world["started"].wait()
            one.gone.set()
            await anyio.wait_all_tasks_blocked()
            await Asgi(app, notification("notifications/cancelled", {"requestId": 7}), session).done
            await one.done
            assert world["cleaned"].is_set()
            assert one.sent == []
