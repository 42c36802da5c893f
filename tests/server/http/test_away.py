"""A client that is gone and does not come back: its calls do not stay for ever (Limits.away)."""

import json
from typing import Any

import anyio
import pytest

from backchannel import Context, Limits, Server
from tests.server.http.wire import FORMS, call, text, until, wire

pytestmark = pytest.mark.anyio
AWAY = 0.05
LONG = 1e6


class Left:
    """A server whose calls wait, and how they ended."""

    def __init__(self, **limits: Any):
        self.server = Server("left", limits=Limits(**limits))
        self.started, self.ended, self.go = anyio.Event(), anyio.Event(), anyio.Event()
        self.errors: list[str] = []

        @self.server.tool
        async def wait(ctx: Context, tell: bool = True, ask: bool = False, free: float | None = None) -> str:
            self.started.set()
            try:
                if tell:
                    await ctx.progress(1)
                if free is not None:
                    await ctx.disconnect(retry=free)
                if ask:
                    return (await ctx.elicit("Who?", str)).unwrap()
                await self.go.wait()
                return "waited"
            except BaseException as error:
                self.errors.append(type(error).__name__)
                raise
            finally:
                self.ended.set()


@pytest.mark.rule("R52")
@pytest.mark.case("C03", "F01")
@pytest.mark.parametrize(
    "arguments", [{}, {"ask": True}, {"tell": False}, {"free": 0.01}], ids=["told", "asked", "silent", "freed"]
)
async def test_a_call_whose_client_does_not_come_back_is_cancelled(arguments: dict[str, Any]) -> None:
    left = Left(away=AWAY)
    async with wire(left.server) as there:
        session = await there.session(FORMS)
        [object_] = there.app.sessions._sessions.values()
        connection = await there.connect()
        body = json.dumps(call("wait", token="t", **arguments)).encode()
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        named = {"mcp-session-id": session.id, "mcp-protocol-version": session.version}
        await connection.send("POST", "/mcp", {**headers, **named}, body)
        await left.started.wait()
        if arguments.get("tell", True):
            await connection.head()
        connection.drop()
        await left.ended.wait()
        assert left.errors == ["CancelledError"]
        await until(lambda: not object_.busy)


@pytest.mark.rule("R52", "R90")
async def test_one_that_comes_back_keeps_its_call() -> None:
    left = Left(away=LONG)
    async with wire(left.server) as there:
        session = await there.session(FORMS)
        response = await session.post(call("wait", token="t"))
        await response.message()
        for _ in range(3):
            response.drop()
            response = await session.http("GET", last_event_id="1-1")
        left.go.set()
        assert text(await response.message()) == "waited"
        assert left.errors == []


async def test_none_lets_calls_run() -> None:
    left = Left(away=None)
    async with wire(left.server) as there:
        session = await there.session(FORMS)
        response = await session.post(call("wait", token="t"))
        await response.message()
        [object_] = there.app.sessions._sessions.values()
        [exchange] = object_.peer.handles
        response.drop()
        await until(lambda: exchange.stream.stream._deserted)
        await anyio.wait_all_tasks_blocked()
        left.go.set()
        await left.ended.wait()
        assert left.errors == []
