"""A cancellation that only one task knows of concerns that task alone, whoever made it."""

import asyncio
from typing import Any

import anyio
import pytest

from backchannel import Client, Context, RemoteProtocolError, Server

server = Server("shop")
running: dict[str, asyncio.Task[Any]] = {}


async def cancelled_by_hand() -> None:
    sleeper = asyncio.ensure_future(asyncio.sleep(60))
    sleeper.cancel()
    await sleeper


@server.tool
async def steps(ctx: Context, good: bool) -> str:
    async def work() -> str:
        return "done"

    return str(await ctx.step("work", work if good else cancelled_by_hand))


@server.tool
async def waits(ctx: Context) -> str:
    running["it"] = asyncio.current_task()  # type: ignore[assignment]
    await anyio.sleep_forever()
    return ""


@server.tool
async def stops(ctx: Context) -> str:
    running["it"].cancel()
    return "stopped"


@server.tool
async def asks(ctx: Context) -> str:
    return (await ctx.elicit("Which day?", str)).unwrap()


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_of_a_step(version: str) -> None:
    async def main() -> None:
        async with Client(server, version=version) as client:
            assert (await client.call_tool("steps", {"good": False})).is_error
            assert (await client.call_tool("steps", {"good": True})).text == "done"

    asyncio.run(main())


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_of_a_handler(version: str) -> None:
    async def main() -> None:
        running.clear()
        async with Client(server, version=version) as client:
            waiting = asyncio.ensure_future(client.call_tool("waits"))
            while "it" not in running:  # noqa: ASYNC110  the handler runs in this loop, and soon
                await asyncio.sleep(0)
            assert (await client.call_tool("stops")).text == "stopped"
            with pytest.raises(RemoteProtocolError, match="cancelled"):
                await waiting
            assert (await client.call_tool("steps", {"good": True})).text == "done"

    asyncio.run(main())


def test_of_a_clients_handler() -> None:
    async def elicit(question: object) -> None:
        await cancelled_by_hand()

    async def main() -> None:
        async with Client(server, version="2025-11-25", elicit=elicit) as client:
            for _ in range(2):
                assert (await client.call_tool("asks")).is_error

    asyncio.run(main())
