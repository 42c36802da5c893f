"""A server written with FastMCP 4.2.3."""

import warnings
from dataclasses import dataclass
from typing import Literal

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp import MCPDeprecationWarning
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from serving import serve

# What 2026-07-28 removed is deprecated, and the only way on the legacy wire.
warnings.simplefilter("ignore", MCPDeprecationWarning)
server = FastMCP("fast", version="4.2.3", instructions="Made with FastMCP.")


@dataclass
class Stay:
    arrival: str
    nights: int = 1
    board: Literal["none", "half", "full"] = "none"


@dataclass
class Booking:
    city: str
    outcome: str
    arrival: str | None = None
    board: str | None = None


@server.tool
async def book(city: str, ctx: Context) -> Booking:
    """FastMCP's inline questions: the legacy wire only."""
    when = await ctx.elicit(f"When in {city}?", response_type=Stay)
    if when.action != "accept":
        return Booking(city, when.action)
    await ctx.report_progress(1, 2, "asked")
    sure = await ctx.elicit(f"Book {city}?", response_type=bool)
    if sure.action != "accept" or not sure.data:
        return Booking(city, "unconfirmed")
    await ctx.report_progress(2, 2, "booked")
    return Booking(city, "booked", when.data.arrival, when.data.board)


@server.tool
async def book_by_hand(city: str, ctx: Context) -> str | InputRequiredResult:
    """FastMCP's guard pattern: the modern wire only."""
    answer = (ctx.input_responses or {}).get("when")
    if not isinstance(answer, ElicitResult):
        schema = {"type": "object", "properties": {"arrival": {"type": "string"}}, "required": ["arrival"]}
        question = ElicitRequest(params=ElicitRequestFormParams(message="When?", requested_schema=schema))
        return InputRequiredResult(input_requests={"when": question}, request_state=f"asked for {city}")
    return f"{ctx.request_state}: {answer.action} {answer.content}"


@server.tool
async def divide(a: int, b: int) -> float:
    """Divide a by b."""
    if b == 0:
        raise ToolError("cannot divide by zero")
    return a / b


@server.tool
async def count(ctx: Context) -> str:
    """Report progress and log."""
    for number in (1, 2, 3):
        await ctx.report_progress(number, 3)
    await ctx.info("counted", logger_name="count")
    return "three"


if __name__ == "__main__":
    serve(lambda: server.run(show_banner=False), server.http_app)
