"""Pipes in this process: what stdio is to the messages."""

import anyio
import pytest

from backchannel import Client, ConnectionFailed, ConnectionLost, Context, Limits, OutcomeUnknown, Server
from backchannel.protocol.jsonrpc import Notification
from backchannel.testing.pipes import PipeTransport

pytestmark = pytest.mark.anyio
server = Server("pipes")


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def stay(ctx: Context) -> str:
    await anyio.sleep_forever()
    return ""


async def test_large_messages_at_once() -> None:
    """More than a pipe holds, in both directions, while other calls write too."""
    async with Client(PipeTransport(server)) as client:
        text = "ü" * 300_000
        found: list[bool] = []

        async def call(number: int) -> None:
            found.append((await client.call_tool("echo", {"text": f"{number}{text}"})).text == f"{number}{text}")

        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(call, number)
        assert found == [True] * 4


async def test_a_message_over_the_limit_fails_its_call() -> None:
    small = Server("small", limits=Limits(message=20_000))
    small.add_tool(echo)
    async with Client(PipeTransport(small)) as client:
        with pytest.raises(Exception, match="over the limit"):
            await client.call_tool("echo", {"text": "x" * 30_000})
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_line_ends_in_raw_json() -> None:
    async with Client(PipeTransport(server)) as client:
        assert (await client.call_tool("echo", {"text": "a\r\nb"})).text == "a\r\nb"


async def test_a_transport_is_used_once() -> None:
    transport = PipeTransport(server)
    async with Client(transport):
        pass
    with pytest.raises(ConnectionFailed, match="used before"):
        await Client(transport).open()
    with pytest.raises(ConnectionLost):
        await transport.send(Notification("notifications/initialized"))


async def test_close_ends_calls_that_run() -> None:
    quick = Server("quick", limits=Limits(grace=0.0))
    quick.add_tool(stay)
    client = Client(PipeTransport(quick))
    await client.open()
    async with anyio.create_task_group() as group:

        async def call() -> None:
            with pytest.raises((ConnectionLost, OutcomeUnknown)):
                await client.call_tool("stay")

        group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        await client.close()
