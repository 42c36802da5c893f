"""What can be asked for, as a type checker sees it. Nothing runs this file: pyright checks it."""

import datetime
import enum
from typing import Annotated, Any, TypedDict, assert_type

from pydantic import BaseModel, Field

from backchannel import Accepted, Cancelled, Context, Declined, ElicitUrl, Sample, Server, UrlRequired
from backchannel.types import CreateMessageParams, CreateMessageResult, Image, ModelPreferences, Tool, ToolUseContent


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Person(BaseModel):
    name: str
    age: int | None = None
    email: Annotated[str, Field(json_schema_extra={"format": "email"})] = ""


class Stay(TypedDict):
    nights: int


async def own_model(params: CreateMessageParams) -> str | CreateMessageResult:
    return params.system_prompt or "hello"


async def own_text(params: CreateMessageParams) -> str:
    return "hello"


server = Server("shop", sampler=own_model)
another = Server("shop", sampler=own_text)
WEATHER = Tool("weather", {"type": "object"})


@server.tool
async def ask(ctx: Context) -> None:
    assert_type((await ctx.elicit("Who?", Person)).unwrap(), Person)
    assert_type((await ctx.elicit("How long?", Stay)).unwrap(), Stay)
    assert_type((await ctx.elicit("Which?", Colour)).unwrap(), Colour)
    assert_type((await ctx.elicit("When?", datetime.date, timeout=60)).unwrap(), datetime.date)
    assert_type((await ctx.elicit("How many?", int, retries=2)).unwrap(), int)
    assert_type(await ctx.elicit("Which?", ["a", "b"]), Accepted[str] | Declined | Cancelled)
    assert_type((await ctx.elicit("Which?", [("a", "An A"), ("b", "A B")])).unwrap(), str)
    assert_type((await ctx.elicit("Which?", {"a": "An A"})).unwrap(), str)
    assert_type((await ctx.elicit("Go on?")).unwrap(), Any)
    assert_type(
        await ctx.elicit_url("Sign in", "https://a/", until=lambda: True), Accepted[None] | Declined | Cancelled
    )


@server.tool
async def agent(ctx: Context) -> str:
    turns: list[Any] = ["What is it?", Image("cat.png")]
    message = await ctx.sample(
        turns,
        max_tokens=400,
        system="Be brief",
        tools=[WEATHER],
        tool_choice="auto",
        model_preferences=["sonnet", "claude"],
        temperature=0.5,
        timeout=60,
        key="agent",
    )
    assert_type(message, CreateMessageResult)
    assert_type(message.tool_uses, list[ToolUseContent])
    turns += [message, *(use.result("18 °C") for use in message.tool_uses)]
    last = await ctx.ask(Sample(turns, model_preferences=ModelPreferences(speed_priority=1), stop_sequences=["."]))
    assert_type(last, CreateMessageResult)
    await ctx.sample("Hi", top_p=1)  # pyright: ignore[reportCallIssue]
    await ctx.sample("Hi", tool_choice="maybe")  # pyright: ignore[reportArgumentType]
    return last.text if last.source == "client" else ""


@server.tool
async def files() -> str:
    raise UrlRequired(ElicitUrl("Sign in", "https://a/", until=lambda: True), ElicitUrl("Pay", "https://b/"))


def wrong() -> None:
    UrlRequired("https://a/")  # pyright: ignore[reportArgumentType]
