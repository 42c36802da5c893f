"""The server of the official SDK (mcp)."""

import asyncio
import logging
import warnings
from typing import Annotated, Any

from mcp import MCPDeprecationWarning
from mcp.client import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel
from serving import EXTRA_TOOLS, extra, main, repeat, serve_app

warnings.simplefilter("ignore", MCPDeprecationWarning)
logging.disable(logging.WARNING)
server = MCPServer("bench", version="1.0.0", log_level="ERROR")


class Size(BaseModel):
    size: str


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def add_later(a: int, b: int) -> int:
    """Add two numbers after a turn of the event loop."""
    await asyncio.sleep(0)
    return a + b


@server.tool()
def add_sync(a: int, b: int) -> int:
    """Add two numbers in a worker thread."""
    return a + b


@server.tool()
async def blob(size: int) -> str:
    """A text of this many characters."""
    return "x" * size


@server.tool()
async def length(text: str) -> int:
    """How long a text is."""
    return len(text)


@server.tool()
async def order_legacy(item: str, ctx: Context) -> str:
    """Ask for the size by a reverse call: the legacy wire only."""
    answer = await ctx.elicit(f"Which size for {item}?", Size)
    return f"{item} {answer.data.size}" if answer.action == "accept" else "nothing"


async def ask_size(item: str) -> Elicit[Size]:
    return Elicit(f"Which size for {item}?", Size)


@server.tool()
async def order(item: str, size: Annotated[Size, Resolve(ask_size)]) -> str:
    """Ask for the size, on either wire."""
    return f"{item} {size.size}"


@server.tool()
async def touch(ctx: Context) -> int:
    """Tell whoever listens that a resource has changed."""
    await ctx.notify_resource_updated("note://1")
    return 1


@server.resource("note://1")
async def note() -> str:
    """A note."""
    return "note"


for number in range(EXTRA_TOOLS):
    server.tool()(extra(number))


async def inprocess(seconds: float) -> None:
    async with Client(server, mode="2026-07-28") as client:

        async def call() -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        await repeat(call, seconds)


if __name__ == "__main__":
    main(lambda: server.run("stdio"), lambda port: serve_app(server.streamable_http_app(), port), inprocess)
