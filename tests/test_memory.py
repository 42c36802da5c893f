"""The in-process transport."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Client, ConnectionFailed, ConnectionLost, Context, LocalProtocolError, Server
from backchannel.memory import MemoryTransport
from backchannel.protocol.jsonrpc import Notification, Request
from tests.client import fake_time
from tests.client.scripted import BOTH

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


def test_it_is_made_outside_an_event_loop() -> None:
    MemoryTransport(Server("s"))
