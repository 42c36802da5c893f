"""The server of FastMCP."""

import asyncio
import logging
import warnings
from typing import Any

from fastmcp import Client, Context, FastMCP
from mcp import MCPDeprecationWarning
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel
from serving import EXTRA_TOOLS, extra, main, repeat, serve_app

warnings.simplefilter("ignore", MCPDeprecationWarning)
logging.disable(logging.WARNING)
server = FastMCP("bench", version="1.0.0")


class Size(BaseModel):
    size: str


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def add_later(a: int, b: int) -> int:
    """Add two numbers after a turn of the event loop."""
    await asyncio.sleep(0)
    return a + b


@server.tool
def add_sync(a: int, b: int) -> int:
    """Add two numbers in a worker thread."""
    return a + b


@server.tool
async def blob(size: int) -> str:
    """A text of this many characters."""
    return "x" * size


@server.tool
async def length(text: str) -> int:
    """How long a text is."""
    return len(text)


@server.tool
async def order_legacy(item: str, ctx: Context) -> str:
    """Ask for the size by a reverse call: the legacy wire only."""
    answer = await ctx.elicit(f"Which size for {item}?", Size)
    return f"{item} {answer.data.size}" if answer.action == "accept" else "nothing"


@server.tool
async def order(item: str, ctx: Context) -> str | InputRequiredResult:
    """Ask for the size: the stateless wire only."""
    answers = ctx.input_responses
    if not answers:
        schema = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
        params = ElicitRequestFormParams(message=f"Which size for {item}?", requested_schema=schema)
        return InputRequiredResult(input_requests={"size": ElicitRequest(params=params)}, request_state=item)
    answer = answers["size"]
    assert isinstance(answer, ElicitResult) and answer.content
    return f"{item} {Size.model_validate(answer.content).size}"


@server.resource("note://1")
async def note() -> str:
    """A note."""
    return "note"


for number in range(EXTRA_TOOLS):
    server.tool(extra(number))


async def inprocess(seconds: float) -> None:
    async with Client(server, mode="2026-07-28") as client:

        async def call() -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        await repeat(call, seconds)


if __name__ == "__main__":
    main(lambda: server.run(show_banner=False), lambda port: serve_app(server.http_app(), port), inprocess)
