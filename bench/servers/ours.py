"""The server of this toolkit."""

import asyncio
from dataclasses import dataclass
from typing import Any

from serving import EXTRA_TOOLS, extra, main, repeat

from backchannel import Accepted, Client, Context, Server, run


@dataclass
class Size:
    size: str


server = Server("bench", version="1.0.0")


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
async def order(ctx: Context, item: str) -> str:
    """Ask for the size, on either wire."""
    match await ctx.elicit(f"Which size for {item}?", Size):
        case Accepted(answer):
            return f"{item} {answer.size}"
    return "nothing"


@server.tool
async def interview(ctx: Context, questions: int) -> str:
    """Ask several times, one after the other."""
    sizes = [(await ctx.elicit(f"Question {number}?", Size)).unwrap().size for number in range(questions)]
    return " ".join(sizes)


@server.tool
async def touch() -> int:
    """Tell whoever listens that a resource has changed."""
    return await server.notify.resource_updated("note://1")


@server.resource("note://1")
async def note() -> str:
    """A note."""
    return "note"


for number in range(EXTRA_TOOLS):
    server.add_tool(extra(number))


async def inprocess(seconds: float) -> None:
    async with Client(server, version="2026-07-28") as client:

        async def call() -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        await repeat(call, seconds)


if __name__ == "__main__":
    main(lambda: run(server), lambda port: run(server, http=f"127.0.0.1:{port}"), inprocess)
