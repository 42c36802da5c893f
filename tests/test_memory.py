"""The in-process transport."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import (
    Client,
    ConnectionFailed,
    ConnectionLost,
    Context,
    Limits,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    Server,
)
from backchannel.memory import MemoryTransport
from backchannel.nursery import current_task, on_asyncio
from backchannel.protocol.jsonrpc import Notification, Request, Response
from backchannel.protocol.versions import Version
from tests.client import fake_time
from tests.client.scripted import BOTH, MODERN

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend


def nothing(*_: Any) -> None:
    return None


class Life:
    """A lifespan that says where it is."""

    def __init__(self, fail: str = "", slow: str = ""):
        self.events: list[str] = []
        self.fail, self.slow = fail, slow

    async def _step(self, name: str) -> None:
        if self.fail == name:
            raise OSError(f"{name}: no database")
        if self.slow == name:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        self.events.append(name)

    @asynccontextmanager
    async def __call__(self, server: Server) -> AsyncIterator[str]:
        await self._step("begin")
        try:
            yield "resource"
        finally:
            await self._step("end")


@pytest.mark.parametrize("version", BOTH)
async def test_the_server_runs_for_as_long_as_the_connection_lasts(version: str) -> None:
    life = Life()
    server = Server("s", lifespan=life)

    @server.tool
    async def look(ctx: Context) -> str:
        return str(ctx.lifespan)

    for times in (1, 2):
        async with Client(server, version=version) as client:
            assert (await client.call_tool("look")).text == "resource"
            assert life.events == ["begin", "end"] * (times - 1) + ["begin"]
        assert life.events == ["begin", "end"] * times


@pytest.mark.case("G03")
async def test_a_server_that_does_not_start_says_why() -> None:
    server = Server("shop", lifespan=Life(fail="begin"))
    with pytest.raises(ConnectionFailed, match="'shop' failed: OSError: begin: no database") as caught:
        await Client(server).open()
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_server_that_ends_badly_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with Client(Server("shop", lifespan=Life(fail="end"))) as client:
        await client.ping()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "end: no database" in caplog.text


async def test_a_lifespan_that_does_not_end_does_not_hold_up_the_client_for_long() -> None:
    transport = MemoryTransport(Server("s", lifespan=Life(slow="end")))
    client = await Client(transport).open()
    with anyio.fail_after(20):
        await client.close()
    assert transport._nursery.running == 0


@pytest.mark.case("G01")
async def test_opening_that_is_cancelled_while_the_server_starts() -> None:
    life = Life(slow="begin")
    transport = MemoryTransport(Server("s", lifespan=life))
    began = anyio.current_time()
    with anyio.move_on_after(1) as scope:
        await Client(transport).open()
    assert scope.cancelled_caught
    assert anyio.current_time() - began == pytest.approx(1)
    assert life.events == []
    assert transport._nursery.running == 0


async def test_closed_while_the_server_starts() -> None:
    transport = MemoryTransport(Server("s", lifespan=Life(slow="begin")))
    client = Client(transport)

    async def open() -> None:
        with pytest.raises(ConnectionFailed, match="has ended"):
            await client.open()

    async with anyio.create_task_group() as group:
        group.start_soon(open)
        await anyio.wait_all_tasks_blocked()
        await client.close()
    assert transport._nursery.running == 0


async def test_closing_does_not_wait_for_handlers_and_lets_the_lifespan_end() -> None:
    life = Life()
    server = Server("s", lifespan=life)

    @server.tool
    async def wait(ctx: Context) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            life.events.append("handler")

    async def call() -> None:
        with pytest.raises(ConnectionLost):
            await client.call_tool("wait")

    client = await Client(server).open()
    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        began = anyio.current_time()
        await client.close()
        assert anyio.current_time() == began
    assert life.events == ["begin", "handler", "end"]


async def test_what_a_handler_gives_passes_through_json() -> None:
    server = Server("s")
    given = {"a": (1, 2)}

    @server.tool
    async def give() -> dict[str, Any]:
        return given

    async with Client(server) as client:
        result = await client.call_tool("give")
    assert result.structured_content == {"a": [1, 2]}
    assert result.structured_content is not given


@pytest.mark.parametrize("version", BOTH)
async def test_what_json_cannot_carry_fails_one_call_and_not_the_connection(version: str) -> None:
    server = Server("s")

    @server.tool
    async def surrogate(ctx: Context) -> str:
        await ctx.log("info", "\ud800")
        return "\ud800"

    @server.tool
    async def hello() -> str:
        return "hello"

    async with Client(server, version=version, log_level="debug", log=nothing) as client:
        try:
            result = await client.call_tool("surrogate")
        except Exception as error:
            assert "cannot be written as JSON" in str(error)
        else:
            assert result.is_error
        assert (await client.call_tool("hello")).text == "hello"
        with pytest.raises(LocalProtocolError):
            await client.call_tool("hello", {"a": "\ud800"})
        assert (await client.call_tool("hello")).text == "hello"


async def test_before_open_after_close_and_used_twice() -> None:
    transport = MemoryTransport(Server("s"))
    with pytest.raises(ConnectionLost):
        await transport.send(Notification("x"))
    await transport.open(nothing, nothing)
    with pytest.raises(ConnectionFailed, match="used before"):
        await transport.open(nothing, nothing)
    await transport.close()
    await transport.close()
    with pytest.raises(ConnectionLost):
        await transport.send(Request(1, "ping"))
    with pytest.raises(ConnectionFailed, match="used before"):
        await transport.open(nothing, nothing)
    await MemoryTransport(Server("s")).close()


@pytest.mark.case("C06")
async def test_the_client_is_told_when_the_server_ends_by_itself() -> None:
    lost: list[Exception] = []
    transport = MemoryTransport(Server("s"))
    await transport.open(nothing, lost.append)
    assert transport._serving is not None
    transport._serving.cancel()
    await anyio.wait_all_tasks_blocked()
    assert [type(error) for error in lost] == [ConnectionLost]
    with pytest.raises(ConnectionLost, match="has ended"):
        await transport.send(Request(1, "ping"))
    await transport.close()
    assert len(lost) == 1


# A stateless call is served in its caller's task.

_ours: ContextVar[str] = ContextVar("ours", default="nothing")


@pytest.mark.case("E08")
@pytest.mark.parametrize("version", BOTH)
async def test_neither_side_sees_the_context_variables_of_the_other(version: str) -> None:
    server, seen = Server("s"), []

    @server.tool
    async def look() -> None:
        seen.append(_ours.get())
        _ours.set("the handler's")
        await anyio.lowlevel.checkpoint()
        seen.append(_ours.get())

    async with Client(server, version=version) as client:
        _ours.set("the caller's")
        for _ in range(2):
            await client.call_tool("look")
            assert _ours.get() == "the caller's"
    assert seen == ["nothing", "the handler's"] * 2


@pytest.mark.parametrize("version", BOTH)
async def test_who_calls_without_end_can_be_cancelled_and_lets_others_have_their_turn(version: str) -> None:
    server = Server("s")

    @server.tool
    async def nothing_to_wait_for() -> None:
        """Nothing."""

    async def call_without_end() -> None:
        while True:
            await client.call_tool("nothing_to_wait_for")

    async with Client(server, version=version) as client, anyio.create_task_group() as group:
        group.start_soon(call_without_end)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


@pytest.mark.parametrize("version", BOTH)
async def test_a_call_whose_caller_is_cancelled_does_not_begin(version: str) -> None:
    server, runs = Server("s"), []

    @server.tool
    async def run() -> None:
        runs.append(1)

    async with Client(server, version=version) as client:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.call_tool("run")
    assert runs == []


@pytest.mark.parametrize("waits", [False, True])
async def test_what_waits_for_nothing_is_answered_where_it_is_asked(waits: bool) -> None:
    server, tasks = Server("s"), list[object]()

    @server.tool
    async def now() -> None:
        tasks.append(current_task())

    @server.tool
    async def later() -> None:
        await anyio.lowlevel.checkpoint()
        tasks.append(current_task())

    async with Client(server, version=MODERN) as client:
        transport = client._connection.transport if client._connection is not None else None
        assert isinstance(transport, MemoryTransport)
        for _ in range(100):
            await client.call_tool("later" if waits else "now", timeout=1, total_timeout=1)
            assert client.gauges().calls == 0
    assert len(tasks) == 100
    assert (current_task() in tasks) is (on_asyncio() and not waits)


@pytest.mark.parametrize("version", BOTH)
async def test_a_bare_transport_serves_what_is_sent(version: str) -> None:
    server, received = Server("s"), list[Any]()

    @server.tool
    async def hello() -> str:
        return "hello"

    transport = MemoryTransport(server)
    await transport.open(received.append, nothing)
    transport.negotiated(Version(version))
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    await transport.send(Request(1, "tools/call", {"name": "hello", "_meta": meta}))
    with anyio.fail_after(10):
        while not received:
            await anyio.lowlevel.checkpoint()
    await transport.close()
    assert isinstance(received[0], Response) and received[0].id == 1


@pytest.mark.parametrize("version", BOTH)
async def test_calls_that_are_made_by_the_handlers_of_one_another_do_not_fill_the_stack(version: str) -> None:
    server = Server("s")

    @server.tool
    async def depth(n: int) -> int:
        if not n:
            return 0
        inner = await client.call_tool("depth", {"n": n - 1})
        return int(inner.text) + 1

    async with Client(server, version=version) as client:
        assert (await client.call_tool("depth", {"n": 200})).text == "200"


@pytest.mark.parametrize("method", ["initialize", "ping", "elicitation/create", "notifications/cancelled", "acme/none"])
async def test_what_the_version_does_not_have_is_not_found(method: str) -> None:
    async with Client(Server("s"), version="modern") as client:
        for params in ({}, {"a": 1}, {"requestId": 1}):
            with pytest.raises(RemoteProtocolError) as caught:
                await client.request(method, params)
            assert caught.value.code == -32601
        with pytest.raises(RemoteProtocolError) as caught:
            await client.request("tools/call", {"name": 1})
        assert caught.value.code == -32602


@pytest.mark.parametrize("version", BOTH)
async def test_who_gives_up_does_not_wait_for_a_handler_that_does_not_end(version: str) -> None:
    server, ended = Server("s"), anyio.Event()

    @server.tool
    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(100)
        ended.set()

    async with Client(server, version=version) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("stubborn", timeout=1)
        assert not ended.is_set()
        await ended.wait()


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("method", ["tools/call", "acme/wait"])
async def test_closing_ends_what_waits_outside_of_a_handler(method: str, version: str) -> None:
    server, begun, ended = Server("s"), anyio.Event(), anyio.Event()

    async def wait() -> dict[str, Any]:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return {}

    @server.middleware
    async def middleware(ctx: Context, call_next: Any) -> Any:
        return await (wait() if ctx.method == "tools/call" else call_next(ctx))

    @server.method("acme/wait")
    async def acme(ctx: Context, params: Any) -> dict[str, Any]:
        return await wait()

    async with Client(server, version=version) as client, anyio.create_task_group() as group:
        group.start_soon(client.request, method, {"name": "none"})
        await begun.wait()
        group.cancel_scope.cancel()
    assert ended.is_set()


async def test_more_calls_at_once_than_there_may_be_are_refused() -> None:
    server, go = Server("s", limits=Limits(in_flight=2)), anyio.Event()

    @server.tool
    async def wait() -> str:
        await go.wait()
        return "went"

    async def call() -> None:
        assert (await client.call_tool("wait")).text == "went"

    async with Client(server, version="modern") as client, anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RemoteProtocolError, match="too many requests in flight"):
            await client.call_tool("wait")
        go.set()


def test_it_is_made_outside_an_event_loop() -> None:
    MemoryTransport(Server("s"))
