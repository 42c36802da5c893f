"""The server that foreign clients are run against. Nothing in it knows of eras or transports."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from backchannel import Accepted, Context, Server, ToolError

LIMIT = 10  # seconds to wait for another call
RETRY = 0.02  # seconds until a client shall come back
server = Server("kitchen", version="1.2.3", instructions="Order something.")


@dataclass
class Weather:
    city: str
    celsius: float
    sunny: bool


@dataclass
class Order:
    size: Literal["small", "large"]
    cups: int = 1


class Call:
    """A call that other calls know by its id: how far it is, what it saw, and how it ended."""

    def __init__(self) -> None:
        self.begun, self.over, self.end = anyio.Event(), anyio.Event(), ""
        self.sips = anyio.Semaphore(0)
        self.runs, self.paid = 0, False
        self.saw: dict[str, Any] = {}


calls: defaultdict[str, Call] = defaultdict(Call)


@server.tool
async def add(ctx: Context, a: int, b: int) -> str:
    """Add two numbers, and tell the protocol version that they came in."""
    return f"{a + b} in {ctx.version}"


@server.tool
async def weather(city: str) -> Weather:
    """Tell the weather in a city."""
    return Weather(city, 21.5, True)


@server.tool
async def fail() -> str:
    """Fail, and say why."""
    raise ToolError("no beans left")


@server.tool
async def brew(ctx: Context, id: str) -> str:
    """Tell the progress of a coffee, and go on with each `sip`: no report is still on its way when the result comes."""
    for number, message in enumerate(("grind", "heat", "pour"), 1):
        await ctx.progress(number, total=3, message=message)
        await calls[id].sips.acquire()
    return "brewed"


@server.tool
async def sip(id: str) -> str:
    """Let `brew` go on."""
    calls[id].sips.release()
    return "good"


@server.tool
async def order(ctx: Context, item: str) -> str:
    """Ask for the details of an order."""
    match await ctx.elicit(f"Which {item}?", Order):
        case Accepted(order):
            return f"{order.cups} {order.size} {item}"
        case refusal:
            return f"{type(refusal).__name__}: no {item}"


@server.tool
async def haiku(ctx: Context, topic: str) -> str:
    """Have the client's model write."""
    message = await ctx.sample(f"A haiku about {topic}", max_tokens=50)
    return f"{message.model}: {message.text}"


@server.tool
async def where(ctx: Context) -> str:
    """Tell the client's roots."""
    return " ".join(root.uri for root in await ctx.roots())


@server.tool
async def hang(ctx: Context, id: str) -> str:
    """Never end by itself. There is progress once the call can be cancelled."""
    call = calls[id]
    try:
        call.begun.set()
        await ctx.progress(1)
        await anyio.sleep_forever()
        raise AssertionError
    except anyio.get_cancelled_exc_class():
        call.end = "cancelled"
        raise
    finally:
        call.over.set()


@server.tool
async def begun(id: str) -> str:
    """Wait until `hang` has begun."""
    with anyio.fail_after(LIMIT):
        await calls[id].begun.wait()
    return "begun"


@server.tool
async def outcome(id: str) -> str:
    """Wait for the end of `hang`, and tell what it was."""
    with anyio.fail_after(LIMIT):
        await calls[id].over.wait()
    return calls[id].end


@server.tool
async def banquet(ctx: Context, id: str) -> str:
    """Ask in every way there is, and twice let go of the client's connection."""
    call = calls[id]
    call.runs += 1
    call.saw["version"] = str(ctx.version)
    await ctx.progress(1, total=4, message="ask")
    soup = await ctx.sample("A name for a soup", max_tokens=20)
    call.saw["sample"] = f"{soup.model}: {soup.text}"
    call.saw["form"] = (await ctx.elicit("Which coffee?", Order)).unwrap()
    call.saw["roots"] = [root.uri for root in await ctx.roots()]
    page = await ctx.elicit_url("Pay for it", f"https://kitchen.example/{id}", until=lambda: call.paid)
    call.saw["page"] = f"{type(page).__name__}, {'paid' if call.paid else 'not paid'}"
    call.saw["roots, changed"] = [root.uri for root in await ctx.roots()]
    call.saw["known roots"] = [root.uri for root in ctx.allowed_roots]
    await ctx.progress(2, total=4, message="cook")
    await ctx.disconnect(retry=RETRY)
    await ctx.log("info", "it cooks")
    await ctx.progress(3, total=4, message="serve")
    call.saw["form, away"] = (await ctx.elicit("Still hungry?", bool)).unwrap()
    await ctx.disconnect(retry=RETRY)
    await ctx.progress(4, total=4, message="eat")
    await ctx.log("info", "it is eaten")
    return f"{soup.text} {call.saw['form'].cups} {call.saw['form'].size} coffee"


@server.tool
async def pay(id: str) -> str:
    """What the person does on the page of a `banquet`."""
    calls[id].paid = True
    return "paid"
