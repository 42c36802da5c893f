"""A server to test the kit with: two questions, a step, a lifespan."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from backchannel import Accepted, Context, Server

_starts = itertools.count(1)


@asynccontextmanager
async def life(server: Server) -> AsyncIterator[int]:
    yield next(_starts)


server = Server("shop", lifespan=life)
charged: list[int] = []


@dataclass
class Order:
    size: Literal["S", "M", "L"]


def charge(amount: int) -> int:
    charged.append(amount)
    return amount


@server.tool
async def order(ctx: Context, name: str) -> str:
    """Asks twice, and charges once."""
    total = await ctx.step("charge", charge, 42)
    match await ctx.elicit(f"Which size for {name}?", Order):
        case Accepted(chosen):
            sure = await ctx.confirm(f"{chosen.size} for {total}?")
            return f"{name}: {chosen.size}" if sure else "changed their mind"
        case other:
            return type(other).__name__


@server.tool
def order_in_a_thread(ctx: Context) -> str:
    return ctx.elicit("Which size?", Order).wait().unwrap().size


@server.tool
async def life_of(ctx: Context) -> int:
    """Which instance answers in the end."""
    await ctx.confirm("Go on?")
    return int(ctx.lifespan)


@server.tool
async def describe(ctx: Context) -> str:
    size, text = await ctx.gather(ctx.elicit("Which size?", Order), ctx.sample("Describe it"))
    roots = await ctx.roots() if ctx.can_ask("roots") else ()
    return f"{size.unwrap().size} {text.text} {len(roots)}"
