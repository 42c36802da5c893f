"""Our server. Nothing in it knows of eras or transports."""

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Literal

import anyio
from pydantic import BaseModel, Field
from serving import record, serve

from backchannel import Accepted, Context, RemoteProtocolError, Server, ToolError, http_app, run
from backchannel.protocol.types.tools import Tool

server = Server("ours", version="1.2.3", instructions="Ask away.")
ended: dict[str, anyio.Event] = {}


@dataclass
class Stay:
    """When, and for how long."""

    arrival: str
    nights: int = 1


class Guest(BaseModel):
    name: Annotated[str, Field(min_length=1, description="As in the passport")]
    email: Annotated[str, Field(json_schema_extra={"format": "email"})] = "nobody@example.com"


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Form:
    """One field of each kind."""

    size: Literal["s", "m"]
    color: Color
    toppings: list[Literal["ham", "egg", "kale"]]
    day: date
    weight: float
    count: int = 3
    vegan: bool = False


@dataclass
class Booking:
    city: str
    outcome: str
    arrival: str | None = None
    slogan: str | None = None
    roots: list[str] = field(default_factory=list)


def charge(city: str, nights: int) -> dict[str, int]:
    record(f"charge {city}")
    return {"total": 40 * nights}


@server.tool
async def book(ctx: Context, city: str) -> Booking:
    """Book a room, and ask whatever is needed for that."""
    when, slogan = await ctx.gather(ctx.elicit(f"When in {city}?", Stay), ctx.sample(f"A slogan for {city}"))
    match when:
        case Accepted(stay):
            pass
        case refusal:
            return Booking(city, type(refusal).__name__)
    receipt = await ctx.step("charge", charge, city, stay.nights)
    await ctx.progress(1, total=2, message="charged")
    roots = await ctx.roots()
    if not await ctx.confirm(f"Book {city} for {receipt['total']}?"):
        return Booking(city, "unconfirmed")
    await ctx.progress(2, total=2, message="booked")
    return Booking(city, "booked", stay.arrival, slogan.text, [root.uri for root in roots])


@server.tool
def register(ctx: Context) -> str:
    """A synchronous tool, which asks from its worker thread."""
    guest = ctx.elicit("Who are you?", Guest).wait().unwrap()
    return f"{guest.name} <{guest.email}>"


@server.tool
async def careful(ctx: Context) -> str:
    """Look at the error that the client answers with."""
    try:
        return type(await ctx.elicit("Careful?", bool)).__name__
    except RemoteProtocolError as error:
        return f"{error.code} {error.message}"


@server.tool
async def order(ctx: Context) -> Form:
    """Ask for every kind of field at once."""
    return (await ctx.elicit("Fill this in", Form)).unwrap()


@server.tool
async def consult(ctx: Context) -> str:
    """Let the client's model choose a tool."""
    tool = Tool("weather", {"type": "object", "properties": {"city": {"type": "string"}}})
    message = await ctx.sample("How is the weather in Oslo?", tools=[tool], system="Be brief.")
    (use,) = message.blocks
    return f"{message.stop_reason} {use.name} {use.input['city']}"


@server.tool
async def sign_in(ctx: Context) -> str:
    """Have a page opened."""
    return type(await ctx.elicit_url("Sign in", "https://example.com/login")).__name__


@server.tool
async def divide(a: int, b: int) -> float:
    """Divide a by b."""
    if b == 0:
        raise ToolError("cannot divide by zero")
    return a / b


@server.tool
async def crash() -> str:
    """Has a bug."""
    raise ValueError("the password is hunter2")


@server.tool
async def chatter(ctx: Context) -> str:
    """Log at three levels."""
    for level in ("debug", "info", "error"):
        await ctx.log(level, {"level": level}, logger="chatter")
    return "said"


@server.tool
async def hang(ctx: Context, name: str) -> str:
    """Never end by itself; `outcome` tells when it has ended."""
    ended[name] = anyio.Event()
    try:
        await ctx.progress(1)
        await anyio.sleep_forever()
    finally:
        ended[name].set()


@server.tool
async def hang_asking(ctx: Context, name: str) -> str:
    """Ask, and tell by `outcome` when that has ended."""
    ended[name] = anyio.Event()
    try:
        return type(await ctx.elicit("Still there?", bool)).__name__
    finally:
        ended[name].set()


@server.tool
async def outcome(name: str) -> str:
    """Wait for the end of `hang` or `hang_asking`."""
    await ended[name].wait()
    return "ended"


if __name__ == "__main__":
    serve(lambda: run(server), lambda: http_app(server))
