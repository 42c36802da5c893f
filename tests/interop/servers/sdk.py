"""A server written with the official Python SDK (mcp 2.3.0), which asks in each way that it has."""

import warnings
from typing import Annotated, Literal

import anyio
from mcp import MCPDeprecationWarning
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CreateMessageResult, ElicitResult, InputRequiredResult, ListRootsResult
from pydantic import BaseModel
from questions import haiku_about, haiku_request, listed, order_request, ordered, roots_request, which_coffee, written
from serving import serve

# What 2026-07-28 removed is deprecated, and the only way on the legacy wire.
warnings.simplefilter("ignore", MCPDeprecationWarning)
server = MCPServer("sdk", version="2.3.0", instructions="Made with the SDK.", log_level="ERROR")
ended: dict[str, anyio.Event] = {}


class Sum(BaseModel):
    sum: int


class Order(BaseModel):
    size: Literal["small", "large"]
    cups: int = 1


def outcome(result: ElicitationResult[Order]) -> str:
    return f"accept {result.data.cups} {result.data.size}" if result.action == "accept" else result.action


@server.tool()
async def echo(message: str) -> str:
    """Say it again."""
    return message


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool()
async def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Report progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"step {number}")
    return f"counted to {to}"


@server.tool()
async def hang(name: str, ctx: Context) -> str:
    """Never end by itself."""
    ended[name] = anyio.Event()
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        ended[name].set()


@server.tool()
async def heard(name: str) -> str:
    """Wait until `hang` was cancelled."""
    await ended[name].wait()
    return f"{name} was cancelled"


@server.tool()
async def order_inline(name: str, ctx: Context) -> str:
    """Ask in the middle: the legacy wire only."""
    return outcome(await ctx.elicit(which_coffee(name), Order))


@server.tool()
async def haiku_inline(topic: str, ctx: Context) -> str:
    """Sample in the middle: the legacy wire only."""
    asked = ctx.session.create_message(haiku_about(topic), max_tokens=50, related_request_id=ctx.request_id)
    return written(await asked)


@server.tool()
async def roots_inline(ctx: Context) -> str:
    """Ask for the roots in the middle: the legacy wire only."""
    return listed(await ctx.session.list_roots())


async def ask_order(name: str) -> Elicit[Order]:
    return Elicit(which_coffee(name), Order)


def ask_haiku(topic: str) -> Sample:
    return Sample(haiku_about(topic), max_tokens=50)


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def order_resolved(name: str, order: Annotated[ElicitationResult[Order], Resolve(ask_order)]) -> str:
    """Ask in a parameter: every wire."""
    return outcome(order)


@server.tool()
async def haiku_resolved(topic: str, haiku: Annotated[CreateMessageResult, Resolve(ask_haiku)]) -> str:
    """Sample in a parameter: every wire."""
    return written(haiku)


@server.tool()
async def roots_resolved(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Have the roots in a parameter: every wire."""
    return listed(roots)


@server.tool()
async def order_returned(name: str, ctx: Context) -> str | InputRequiredResult:
    """Ask with a result: the modern wire only."""
    answer = (ctx.input_responses or {}).get("order")
    if not isinstance(answer, ElicitResult):
        return InputRequiredResult(input_requests={"order": order_request(name)}, request_state=f"for {name}")
    assert ctx.request_state == f"for {name}"
    return ordered(answer)


@server.tool()
async def haiku_returned(topic: str, ctx: Context) -> str | InputRequiredResult:
    """Sample with a result: the modern wire only."""
    answer = (ctx.input_responses or {}).get("haiku")
    if not isinstance(answer, CreateMessageResult):
        return InputRequiredResult(input_requests={"haiku": haiku_request(topic)})
    return written(answer)


@server.tool()
async def roots_returned(ctx: Context) -> str | InputRequiredResult:
    """Ask for the roots with a result: the modern wire only."""
    answer = (ctx.input_responses or {}).get("roots")
    if not isinstance(answer, ListRootsResult):
        return InputRequiredResult(input_requests={"roots": roots_request()})
    return listed(answer)


if __name__ == "__main__":
    serve(server.run, server.streamable_http_app)
