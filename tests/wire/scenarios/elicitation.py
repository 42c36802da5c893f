"""Questions to the person at the client (client/elicitation)."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from backchannel import Accepted, Context, Server

from ..recorder import Recorder
from ..scenario import having, scenario

FORMS = having(lambda features: features.elicitation)
TITLED = having(lambda features: features.form == "titled")
URLS = having(lambda features: "url" in features.elicitation)


@dataclass
class Order:
    """What to drink."""

    size: Literal["small", "large"]
    cups: Annotated[int, Field(ge=1, le=9)] = 1


def cafe() -> Server:
    """A server whose tool, prompt and resource ask."""
    server = Server("café")

    @server.tool
    async def order(ctx: Context, name: str) -> str:
        match await ctx.elicit(f"Which coffee, {name}?", Order):
            case Accepted(wanted):
                return f"{wanted.cups} {wanted.size} for {name}"
            case other:
                return f"Nothing for {name}: {type(other).__name__}"

    @server.prompt
    async def praise(ctx: Context) -> str:
        what = await ctx.elicit("Praise what?", str)
        return f"Praise the {what.unwrap()}."

    @server.resource("menu://today")
    async def menu(ctx: Context) -> str:
        return "tea" if await ctx.confirm("Without coffee?") else "coffee"

    return server


@scenario(
    "elicit-form",
    "The same question three times: the person fills in the form, declines, and cancels.",
    FORMS,
)
async def elicit_form(wire: Recorder) -> None:
    answers = {"Ada": {"size": "large"}, "Bob": "decline", "Cy": "cancel"}

    def answer(question: Any) -> Any:
        return answers[question.message.partition(", ")[2].rstrip("?")]

    async with wire.client(cafe(), elicit=answer) as client:
        for name in answers:
            await client.call_tool("order", {"name": name})


@scenario("elicit-prompt-resource", "A prompt that asks, and a resource that asks for a yes.", FORMS)
async def elicit_elsewhere(wire: Recorder) -> None:
    def answer(question: Any) -> Any:
        return {"value": "milk" if "Praise" in question.message else True}

    async with wire.client(cafe(), elicit=answer) as client:
        await client.get_prompt("praise")
        await client.read("menu://today")


class Room(enum.Enum):
    """Its names are the titles of the options."""

    GARDEN_VIEW = "g"
    SEA_VIEW = "s"


@dataclass
class Booking:
    """Each kind of field that every version with forms has."""

    name: Annotated[str, Field(min_length=1, max_length=40, title="Guest", description="As in the passport.")]
    mail: Annotated[str, Field(json_schema_extra={"format": "email"})]
    page: Annotated[str, Field(json_schema_extra={"format": "uri"})]
    day: datetime.date
    arrival: datetime.datetime
    nights: Annotated[int, Field(ge=1, le=30)]
    budget: Annotated[float, Field(ge=0)]
    room: Room
    board: Literal["none", "half", "full"]
    pets: bool = False
    wish: str = "quiet"
    age: int | None = None


GUEST = {
    "name": "Ada",
    "mail": "ada@example.org",
    "page": "https://ada.example",
    "day": "2026-08-01",
    "arrival": "2026-08-01T18:00:00Z",
    "nights": 3,
    "budget": 99.5,
    "room": "s",
    "board": "half",
    "pets": True,
    "wish": "a desk",
}


@scenario("elicit-fields", "A form with each kind of field once, as the version writes it.", FORMS)
async def elicit_fields(wire: Recorder) -> None:
    server = Server("hotel")

    @server.tool
    async def book(ctx: Context) -> str:
        booking = (await ctx.elicit("Your booking, please.", Booking)).unwrap()
        return f"{booking.name}, {booking.day}, {booking.room.name}"

    async with wire.client(server, elicit=lambda question: GUEST) as client:
        await client.call_tool("book")


@dataclass
class Extras:
    """Fields with several choices, and defaults."""

    toppings: Annotated[list[Literal["cream", "nuts", "syrup"]], Field(min_length=1, max_length=2)]
    views: list[Room] = Field(default_factory=lambda: [Room.SEA_VIEW])
    size: Literal["small", "large"] = "small"


@scenario(
    "elicit-choices",
    "Fields in which several options can be chosen, a choice that is made at run time, no field. The defaults fill in.",
    TITLED,
)
async def elicit_choices(wire: Recorder) -> None:
    server = Server("hotel")

    @server.tool
    async def dessert(ctx: Context) -> str:
        extras = (await ctx.elicit("Your dessert?", Extras)).unwrap()
        waiter = (await ctx.elicit("Who served you?", {"1": "Ann", "2": "Ben"})).unwrap()
        await ctx.elicit("Agreed?")
        return f"{extras.toppings}, {extras.size}, {waiter}"

    def answer(question: Any) -> Any:
        return {"Your dessert?": {"toppings": ["nuts"]}, "Who served you?": {"value": "2"}}.get(question.message, True)

    async with wire.client(server, elicit=answer) as client:
        await client.call_tool("dessert")


@scenario(
    "elicit-again",
    "An answer that breaks a rule which only the server knows: the question is asked again, with the reason.",
    FORMS,
)
async def elicit_again(wire: Recorder) -> None:
    server = Server("door")

    @server.tool
    async def enter(ctx: Context) -> str:
        code = await ctx.elicit("The code?", Annotated[str, Field(pattern="^[0-9]{4}$")], retries=1)
        return f"Enter, {code.unwrap()}."

    answers = iter(["mellon", "1234"])
    async with wire.client(server, elicit=lambda question: {"value": next(answers)}) as client:
        await client.call_tool("enter")


@scenario("elicit-url", "A page to open: the person agrees, and declines.", URLS)
async def elicit_url(wire: Recorder) -> None:
    server = Server("bank")

    @server.tool
    async def sign_in(ctx: Context) -> str:
        outcome = await ctx.elicit_url("Sign in at your bank.", "https://bank.example/sign-in?for=ada")
        return "The page is open." if isinstance(outcome, Accepted) else "Not signed in."

    answers = iter([True, False])
    async with wire.client(server, elicit_url=lambda question: next(answers)) as client:
        await client.call_tool("sign_in")
        await client.call_tool("sign_in")
