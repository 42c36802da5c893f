"""The public API as a type checker sees it. Nothing runs this file: pyright checks it."""

from dataclasses import dataclass
from typing import Any, Literal, assert_never, assert_type

from backchannel import (
    Accepted,
    Cancelled,
    Client,
    Context,
    Declined,
    Limits,
    OutcomeUnknown,
    Pending,
    Refused,
    RequestState,
    RequestTimeout,
    Server,
    StdioServer,
    ToolError,
    http_app,
    run,
)
from backchannel.types import CallToolResult


@dataclass
class Size:
    cm: int


@dataclass
class Receipt:
    total: int


server = Server(
    "shop", version="1.2.0", instructions="Sells hats.", state=RequestState(keys=["k" * 32]), limits=Limits()
)


async def charge(amount: int) -> Receipt:
    return Receipt(amount)


@server.tool
async def order(ctx: Context, item: str, colour: Literal["red", "blue"] = "red") -> str:
    outcome = await ctx.elicit(f"Which size of {colour} {item}?", Size, key="size", retries=2, timeout=60)
    assert_type(outcome, Accepted[Size] | Declined | Cancelled)
    match outcome:
        case Accepted(size):
            assert_type(size, Size)
        case Declined():
            raise ToolError("declined")
        case Cancelled():
            return "Nothing ordered."
        case _:
            assert_never(outcome)
    receipt = await ctx.step("charge", charge, 42)
    assert_type(receipt, Receipt)
    sure = await ctx.confirm(f"Order {size.cm} cm for {receipt.total}?")
    assert_type(sure, bool)
    await ctx.progress(1, total=2, message="packing")
    await ctx.log("info", "packed")
    return "Ordered." if sure else "Nothing ordered."


@server.tool(title="Two questions in one round", timeout=30)
async def two(ctx: Context) -> Receipt:
    size, count = await ctx.gather(ctx.elicit("Which size?", Size), ctx.elicit("How many?", int))
    assert_type(size, Accepted[Size] | Declined | Cancelled)
    assert_type(count, Accepted[int] | Declined | Cancelled)
    assert_type(size.unwrap(), Size)
    return Receipt(count.unwrap())


@server.tool
def from_a_thread(ctx: Context) -> str:
    try:
        size = ctx.elicit("Which size?", Size).wait().unwrap()
    except Refused:
        return "no size"
    assert_type(size, Size)
    return f"{size.cm} cm"


@server.resource("note://{id}")
async def note(id: str) -> str:
    return id


@server.prompt
def review(text: str) -> str:
    return text


async def direct(ctx: Context) -> None:
    assert_type(await order(ctx, "hat"), str)
    assert_type(from_a_thread(ctx), str)
    await order(ctx, "hat", "green")  # pyright: ignore[reportArgumentType]
    _ = (await ctx.elicit("Which size?", Size)).cm  # pyright: ignore[reportAttributeAccessIssue]


async def client() -> None:
    for target in (server, "https://example.com/mcp", StdioServer("python", "server.py")):
        async with Client(target, roots=["file:///home/me/project"]) as client:
            await client.call_tool("order", {"item": "hat"}, timeout=5)
            async for tool in client.tools():
                assert_type(tool.name, str)


async def by_hand(client: Client) -> None:
    came = await client.begin("tools/call", {"name": "order", "arguments": {}}, timeout=5)
    while isinstance(came, Pending):
        assert_type(came, Pending[CallToolResult])
        came = await client.resume(came, {key: True for key, question in came.questions.items() if question.schema})
    assert_type(came, CallToolResult)
    try:
        await client.call_tool("order")
    except OutcomeUnknown as error:
        await client.resume(error.pending)
    except RequestTimeout as error:
        assert_type(error.pending, Pending[Any] | None)
    await client.begin("tools/list", {})  # pyright: ignore[reportCallIssue, reportArgumentType]


async def serve() -> None:
    async with http_app(server, path="/mcp").running():
        pass


def main() -> None:
    run(server, http="127.0.0.1:8000", workers=4)
