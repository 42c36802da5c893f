"""Writing responses to a server whose every `receive` and `send` the test decides."""

import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Context, Server, http_app
from backchannel.protocol.jsonrpc import ErrorResponse, Notification, Request
from backchannel.protocol.sse import COMMENT
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


async def test_what_is_there_goes_out_with_the_beginning_and_with_the_end() -> None:
    """So a call that asks once writes to its client twice."""
    session = ready()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    reading = await session.find(None)
    assert reading is not None
    session.stream.append(Notification("n", {"number": 1}))
    async with anyio.create_task_group() as group:
        group.start_soon(send_events, send, reading, 15.0)
        await anyio.wait_all_tasks_blocked()
        session.stream.append(Notification("n", {"number": 2}))
        session.stream.close()
    bodies = [message["body"].count(b"number") for message in sent[1:]]
    assert bodies == [1, 1]
    assert [message.get("more_body", False) for message in sent[1:]] == [True, False]


async def test_a_server_that_fails_in_the_middle_of_a_stream_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.tool
    async def tells(ctx: Context) -> str:
        await ctx.progress(1)
        return "told"

    async def fail(message: Any) -> None:
        raise RuntimeError("no more")

    app = http_app(server)
    async with app.running():
        one = Asgi(app, *modern(call("tells", token="t")))
        one.on_send = fail
        await one.done
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "an event stream broke off"
    ]


async def test_a_silent_stream_is_kept_alive_and_a_wake_is_no_silence() -> None:
    session = ready()
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))

    reading = await session.find(None)
    assert reading is not None
    async with anyio.create_task_group() as group:
        group.start_soon(send_events, send, reading, 0.02)
        while bodies.count(COMMENT) < 2:
            session.stream.wake()
            await anyio.lowlevel.checkpoint()
        session.stream.append(Notification("n"))
        session.stream.close()
    assert set(bodies[:-1]) <= {b"", COMMENT} and b'"n"' in bodies[-1]
    assert bodies.count(b"") <= 2


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
            await one.leave()
            await Asgi(app, notification("notifications/cancelled", {"requestId": 7}), session).done
            await one.done
            assert world["cleaned"].is_set()
            assert one.sent == []
