"""What is left when clients misbehave: nothing."""

import asyncio
import contextlib
import gc
import json
import logging
import random
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from backchannel import Context, Limits, Server, http_app
from backchannel.server.http.app import HttpApp
from tests.server.http.wire import ASKS, BOTH, LEGACY, Asgi, call, modern, request, text, until, wire

pytestmark = pytest.mark.anyio
TIMES = 300


def shop() -> Server:
    server = Server("shop", limits=Limits(keep_alive=0.05))

    @server.tool
    async def hello(ctx: Context, times: int = 0) -> str:
        for number in range(times):
            await ctx.progress(number + 1)
        return "hello"

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).unwrap()

    @server.tool
    async def sleep(ctx: Context) -> str:
        await ctx.progress(1)
        await anyio.sleep_forever()
        return ""

    return server


async def one(app: HttpApp, message: Any, **headers: str) -> Asgi:
    asked = Asgi(app, message, headers)
    await asked.done
    return asked


async def bad_accept(app: HttpApp) -> None:
    assert (await one(app, call("hello"), accept="text/html")).status == 406


async def bad_version(app: HttpApp) -> None:
    assert (await one(app, call("hello"), mcp_protocol_version="1999-01-01")).status == 400


async def unknown_session(app: HttpApp) -> None:
    assert (await one(app, call("hello"), mcp_session_id="nobody")).status == 404


async def invalid_json(app: HttpApp) -> None:
    assert (await one(app, b"{" * 1000)).status == 400


async def foreign_host(app: HttpApp) -> None:
    assert (await one(app, call("hello"), host="evil.example")).status == 421


async def initialize(app: HttpApp) -> str:
    params = {"protocolVersion": LEGACY, "capabilities": ASKS, "clientInfo": {"name": "x", "version": "1"}}
    opened = await one(app, request("initialize", params))
    return dict(opened.sent[0]["headers"])[b"mcp-session-id"].decode()


async def opened_and_deleted(app: HttpApp) -> None:
    session = await initialize(app)
    asked = Asgi(app, call("hello", token="t", times=3), {"mcp_session_id": session})
    await asked.done
    deleted = Asgi(app, b"", {"mcp_session_id": session}, method="DELETE")
    await deleted.done
    assert deleted.status == 200


async def opened_and_left(app: HttpApp) -> None:
    await initialize(app)


async def opened_and_left_with_an_open_question(app: HttpApp) -> None:
    session = await initialize(app)
    await one(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
    asked = Asgi(app, call("ask"), {"mcp_session_id": session})
    await until(lambda: len(asked.sent) > 1)
    asked.gone.set()
    deleted = Asgi(app, b"", {"mcp_session_id": session}, method="DELETE")
    await deleted.done
    await asked.done


async def modern_call(app: HttpApp) -> None:
    message, headers = modern(call("hello", token="t", times=3))
    assert (await one(app, message, **headers)).status == 200


async def modern_call_that_is_left(app: HttpApp) -> None:
    message, headers = modern(call("sleep", token="t"))
    asked = Asgi(app, message, headers)
    await until(lambda: len(asked.sent) > 1)
    asked.gone.set()
    await asked.done


async def modern_question(app: HttpApp) -> None:
    message, headers = modern(call("ask"), ASKS)
    assert b"input_required" in (await one(app, message, **headers)).body


KINDS = [
    bad_accept,
    bad_version,
    unknown_session,
    invalid_json,
    foreign_host,
    opened_and_deleted,
    opened_and_left,
    opened_and_left_with_an_open_question,
    modern_call,
    modern_call_that_is_left,
    modern_question,
]


@pytest.mark.case("F01")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_nothing_is_left(
    kind: Callable[[HttpApp], Awaitable[None]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with anyio.fail_after(60):
        app = http_app(shop())
        async with app.running():
            for _ in range(10):
                await kind(app)
            tasks = len(asyncio.all_tasks())
            sessions = app.sessions
            assert sessions is not None
            gc.collect()
            tracemalloc.start()
            try:
                for _ in range(TIMES):
                    await kind(app)
                monkeypatch.setattr(sessions, "_clock", lambda: 1e12)
                sessions.expire()
                gc.collect()
                grown, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert len(sessions) == 0
            await until(lambda: len(asyncio.all_tasks()) <= tasks)
            assert grown < 1000 * TIMES, f"{grown / TIMES:.0f} bytes are left of each"


@pytest.mark.case("F01")
async def test_nothing_is_left_without_sessions() -> None:
    with anyio.fail_after(60):
        app = http_app(shop(), sessions=False)
        async with app.running():
            await one(app, call("hello"))
            gc.collect()
            tracemalloc.start()
            try:
                for _ in range(TIMES):
                    assert (await one(app, call("ask"))).status == 200
                gc.collect()
                grown, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert grown < 1000 * TIMES


@pytest.mark.case("C04", "C05")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", ["modern", "sessions", "stateless"])
async def test_clients_that_leave_at_any_point(mode: str, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)
    base = asyncio.all_tasks()
    with caplog.at_level(logging.WARNING):
        async with wire(shop(), sessions=mode == "sessions") as there:
            session = await there.session(ASKS) if mode == "sessions" else None
            await (await there.modern(call("hello", token="t", times=1))).messages()
            tasks = len(asyncio.all_tasks()) + 2

            async def client(number: int) -> None:
                tool = chance.choice(["hello", "ask", "sleep"])
                body, headers = call(tool, number, "t"), {"mcp_protocol_version": LEGACY}
                if session is not None:
                    headers["mcp_session_id"] = session.id
                if mode == "modern":
                    body, headers = modern(body, ASKS)
                data = json.dumps(body).encode()
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                named |= {"content-type": "application/json", "accept": BOTH, "content-length": str(len(data))}
                head = "".join(f"{name}: {value}\r\n" for name, value in {"host": "localhost", **named}.items())
                whole = f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + data
                connection = await there.connect()
                connection.writer.write(whole[: chance.randrange(2 * len(whole))])
                with contextlib.suppress(OSError):
                    await connection.writer.drain()
                for _ in range(chance.randrange(20)):
                    await anyio.lowlevel.checkpoint()
                if chance.random() < 0.5:
                    connection.drop()
                else:
                    connection.writer.close()

            for start in range(0, 500, 25):
                async with anyio.create_task_group() as group:
                    for number in range(start, start + 25):
                        group.start_soon(client, number)
            response = await there.modern(call("hello"))
            assert text(await response.json()) == "hello"
            if session is not None:
                assert (await session.post(call("hello", "last"))).status == 200
                await session.http("DELETE")
            for connection in there.connections:
                connection.drop()
            await until(lambda: len(asyncio.all_tasks()) <= tasks)
        await until(lambda: len(asyncio.all_tasks() - base) == 0)
    assert [record.getMessage() for record in caplog.records if "Invalid HTTP request" not in record.message] == []
