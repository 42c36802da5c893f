"""A server written with the official SDK (mcp 2.3.0)."""

import warnings
from typing import Annotated, Any, Literal

import anyio
from mcp import MCPDeprecationWarning
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CreateMessageResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field
from serving import record, serve

# What 2026-07-28 removed is deprecated, and the only way on the legacy wire.
warnings.simplefilter("ignore", MCPDeprecationWarning)
server = MCPServer("sdk", version="2.3.0", instructions="Made with the SDK.", log_level="ERROR")
ended: dict[str, anyio.Event] = {}


class Stay(BaseModel):
    arrival: str = Field(description="YYYY-MM-DD")
    nights: int = 1
    board: Literal["none", "half", "full"] = "none"


class Confirm(BaseModel):
    ok: bool


class Booking(BaseModel):
    city: str
    outcome: str
    arrival: str | None = None
    board: str | None = None
    slogan: str | None = None
    roots: list[str] = []


def prompt(text: str) -> list[SamplingMessage]:
    return [SamplingMessage(role="user", content=TextContent(type="text", text=text))]


def text_of(result: CreateMessageResult) -> str:
    assert isinstance(result.content, TextContent)
    return result.content.text


@server.tool()
async def book_inline(city: str, ctx: Context) -> Booking:
    """The SDK's own inline questions: the legacy wire only."""
    when = await ctx.elicit(f"When in {city}?", Stay)
    if when.action != "accept":
        return Booking(city=city, outcome=when.action)
    record(f"charge {city}")
    slogan = await ctx.session.create_message(
        prompt(f"A slogan for {city}"), max_tokens=10, related_request_id=ctx.request_id
    )
    await ctx.report_progress(1, 2, "charged")
    roots = await ctx.session.list_roots()
    sure = await ctx.elicit(f"Book {city}?", Confirm)
    if sure.action != "accept" or not sure.data.ok:
        return Booking(city=city, outcome="unconfirmed")
    await ctx.report_progress(2, 2, "booked")
    return Booking(
        city=city,
        outcome="booked",
        arrival=when.data.arrival,
        board=when.data.board,
        slogan=text_of(slogan),
        roots=[str(root.uri) for root in roots.roots],
    )


async def ask_when(city: str) -> Elicit[Stay]:
    return Elicit(f"When in {city}?", Stay)


def ask_slogan(city: str) -> Sample:
    return Sample(prompt(f"A slogan for {city}"), max_tokens=10)


def ask_roots() -> ListRoots:
    return ListRoots()


async def ask_confirm(city: str, when: Annotated[ElicitationResult[Stay], Resolve(ask_when)]) -> Any:
    return Elicit(f"Book {city}?", Confirm) if when.action == "accept" else Confirm(ok=False)


@server.tool()
async def book_resolved(
    city: str,
    when: Annotated[ElicitationResult[Stay], Resolve(ask_when)],
    slogan: Annotated[CreateMessageResult, Resolve(ask_slogan)],
    roots: Annotated[ListRootsResult, Resolve(ask_roots)],
    sure: Annotated[Confirm, Resolve(ask_confirm)],
    ctx: Context,
) -> Booking:
    """The SDK's questions in parameters: both wires, several in one round."""
    if when.action != "accept":
        return Booking(city=city, outcome=when.action)
    if not sure.ok:
        return Booking(city=city, outcome="unconfirmed")
    record(f"charge {city}")
    await ctx.report_progress(1, 2, "charged")
    await ctx.report_progress(2, 2, "booked")
    return Booking(
        city=city,
        outcome="booked",
        arrival=when.data.arrival,
        board=when.data.board,
        slogan=text_of(slogan),
        roots=[str(root.uri) for root in roots.roots],
    )


@server.tool()
async def divide(a: int, b: int) -> float:
    """Divide a by b."""
    if b == 0:
        raise ToolError("cannot divide by zero")
    return a / b


@server.tool()
async def sign_in(ctx: Context) -> str:
    """Have a page opened: the legacy wire only."""
    return (await ctx.elicit_url("Sign in", "https://example.com/login", "login-1")).action


@server.tool()
async def chatter(ctx: Context) -> str:
    """Log at three levels."""
    for level in ("debug", "info", "error"):
        await ctx.log(level, {"level": level}, logger_name="chatter")  # type: ignore[arg-type]
    return "said"


@server.tool()
async def hang(name: str, ctx: Context) -> str:
    """Never end by itself; `outcome` tells when it has ended."""
    ended[name] = anyio.Event()
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        ended[name].set()


@server.tool()
async def outcome(name: str) -> str:
    """Wait for the end of `hang`."""
    await ended[name].wait()
    return "ended"


if __name__ == "__main__":
    serve(server.run, server.streamable_http_app)
