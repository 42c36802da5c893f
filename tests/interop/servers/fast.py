"""A server written with FastMCP 4.2.3, which asks in each way that it has."""

import warnings
from dataclasses import dataclass
from typing import Literal

import anyio
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp import MCPDeprecationWarning
from mcp.types import CreateMessageResult, ElicitResult, InputRequiredResult, ListRootsResult
from questions import haiku_about, haiku_request, listed, order_request, ordered, roots_request, which_coffee, written
from serving import serve

# What 2026-07-28 removed is deprecated, and the only way on the legacy wire.
warnings.simplefilter("ignore", MCPDeprecationWarning)
server = FastMCP("fast", version="4.2.3", instructions="Made with FastMCP.")
ended: dict[str, anyio.Event] = {}


@dataclass
class Sum:
    sum: int


@dataclass
class Order:
    size: Literal["small", "large"]
    cups: int = 1


@server.tool
async def echo(message: str) -> str:
    """Say it again."""
    return message


@server.tool
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(a + b)


@server.tool
async def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Report progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"step {number}")
    return f"counted to {to}"


@server.tool
async def hang(name: str, ctx: Context) -> str:
    """Never end by itself."""
    ended[name] = anyio.Event()
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        ended[name].set()


@server.tool
async def heard(name: str) -> str:
    """Wait until `hang` was cancelled."""
    await ended[name].wait()
    return f"{name} was cancelled"


@server.tool
async def order_inline(name: str, ctx: Context) -> str:
    """Ask in the middle: the legacy wire only."""
    result = await ctx.elicit(which_coffee(name), response_type=Order)
    return f"accept {result.data.cups} {result.data.size}" if result.action == "accept" else result.action


@server.tool
async def haiku_inline(topic: str, ctx: Context) -> str:
    """Sample in the middle: the legacy wire only."""
    asked = ctx.session.create_message(haiku_about(topic), max_tokens=50, related_request_id=ctx.request_id)
    return written(await asked)


@server.tool
async def roots_inline(ctx: Context) -> str:
    """Ask for the roots in the middle: the legacy wire only."""
    return listed(await ctx.session.list_roots())


@server.tool
async def order_returned(name: str, ctx: Context) -> str | InputRequiredResult:
    """Ask with a result: the modern wire only."""
    answer = (ctx.input_responses or {}).get("order")
    if not isinstance(answer, ElicitResult):
        return InputRequiredResult(input_requests={"order": order_request(name)}, request_state=f"for {name}")
    assert ctx.request_state == f"for {name}"
    return ordered(answer)


@server.tool
async def haiku_returned(topic: str, ctx: Context) -> str | InputRequiredResult:
    """Sample with a result: the modern wire only."""
    answer = (ctx.input_responses or {}).get("haiku")
    if not isinstance(answer, CreateMessageResult):
        return InputRequiredResult(input_requests={"haiku": haiku_request(topic)})
    return written(answer)


@server.tool
async def roots_returned(ctx: Context) -> str | InputRequiredResult:
    """Ask for the roots with a result: the modern wire only."""
    answer = (ctx.input_responses or {}).get("roots")
    if not isinstance(answer, ListRootsResult):
        return InputRequiredResult(input_requests={"roots": roots_request()})
    return listed(answer)


if __name__ == "__main__":
    serve(lambda: server.run(show_banner=False), server.http_app)
