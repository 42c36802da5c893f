"""The client of FastMCP."""

import logging
from typing import Any

from calling import main, measure
from fastmcp import Client

logging.disable(logging.WARNING)


async def run(url: str, version: str, calls: int) -> None:
    async with Client(url, mode="legacy" if version < "2026" else version) as client:

        async def call() -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        await measure(call, calls)


main(run)
