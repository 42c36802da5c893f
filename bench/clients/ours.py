"""The client of this toolkit."""

from typing import Any

from calling import main, measure

from backchannel import Client


async def run(url: str, version: str, calls: int) -> None:
    async with Client(url, version=version) as client:

        async def call() -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        await measure(call, calls)


main(run)
