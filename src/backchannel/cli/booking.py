"""The example that `backchannel demo` runs: a tool that asks a person and a model from the middle of ordinary code.

Serve it with `backchannel run backchannel.cli.booking:server`. Sampling and roots are deprecated since 2026-07-28: new
tools call a provider's API, and take paths as arguments. They are here because every kind of question works alike.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from backchannel import Accepted, Context, Server

LEDGER = "BACKCHANNEL_BOOKING_LEDGER"
"""The environment variable that names a file, to which every charge adds a line: the call's id and the amount."""
PRICES = {"single": 80, "double": 120}

server = Server("booking", version="1.0.0", instructions="Books hotel rooms.")


class Day(BaseModel):
    """What the person is asked for."""

    date: Annotated[datetime.date, Field(title="First day")]
    nights: Annotated[int, Field(ge=1, le=14, title="Nights")] = 1
    room: Annotated[Literal["single", "double"], Field(title="Room")] = "double"


@dataclass
class Receipt:
    """What the charge gives."""

    total: int
    currency: str


class Booking(BaseModel):
    """What the tool returns."""

    city: str
    booked: bool
    day: Day | None = None
    slogan: str | None = None
    receipt: Receipt | None = None
    folder: str | None = None


@server.tool
async def book(ctx: Context, city: str) -> Booking:
    """Book a room in a city. Asks for the day, has the client's model write a slogan, and charges after a last yes."""
    day, slogan = await ctx.gather(
        ctx.elicit(f"Which day in {city}?", Day, retries=2),
        ctx.sample(f"A slogan for {city}, in at most six words", max_tokens=40),
    )
    if not isinstance(day, Accepted):
        return Booking(city=city, booked=False)
    stay = day.value
    price = PRICES[stay.room] * stay.nights
    await ctx.progress(1, total=3, message="The day is set")

    if not await ctx.confirm(f"Book {stay.nights} night(s) in {city} from {stay.date} for {price} EUR?"):
        return Booking(city=city, booked=False)
    receipt = await ctx.step("charge", charge, price, ctx.call_id)
    await ctx.progress(2, total=3, message="Charged")

    roots = await ctx.roots() if ctx.can_ask("roots") else None
    folder = roots[0].uri if roots else None
    await ctx.progress(3, total=3, message="Booked")
    return Booking(city=city, booked=True, day=stay, slogan=slogan.text, receipt=receipt, folder=folder)


def charge(amount: int, call_id: str) -> Receipt:
    """Take the money: what must happen once however often the code above runs."""
    receipt = Receipt(amount, "EUR")
    if path := os.environ.get(LEDGER):
        with open(path, "a", encoding="utf-8") as ledger:
            ledger.write(f"{call_id} {receipt.total}\n")
    return receipt
