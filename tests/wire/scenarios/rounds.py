"""Calls that ask several times, or cannot ask, and what keeps their rounds together (basic/patterns/mrtr)."""

from __future__ import annotations

import datetime
from typing import Any

from backchannel import Context, Server
from backchannel.errors import ProtocolError
from backchannel.types import Tool

from ..recorder import Recorder
from ..scenario import MODERN, scenario
from .elicitation import FORMS, cafe


@scenario(
    "gather",
    "Several questions at once: in a session so many requests are open, on the stateless protocol one round has all.",
)
async def gather(wire: Recorder) -> None:
    server = Server("travel")

    @server.tool
    async def plan(ctx: Context) -> str:
        asks: list[Any] = [ctx.sample("A slogan for Oslo.", max_tokens=20), ctx.roots()]
        if ctx.can_ask("form"):
            asks.append(ctx.elicit("Which day?", datetime.date))
        slogan, roots, *_ = await ctx.gather(*asks)
        return f"{slogan.text} {len(roots)}"

    options: dict[str, Any] = {"sample": lambda question: "By the sea.", "roots": ["file:///home/ada"]}
    if wire.features.elicitation:
        options["elicit"] = lambda question: {"value": "2026-08-01"}
    async with wire.client(server, **options) as client:
        await client.call_tool("plan")


@scenario(
    "two-rounds",
    """A question, a step that must happen once, and a second question. In a session the call is one request; on the
    stateless protocol it is three, each with the state of the one before.""",
    FORMS,
)
async def two_rounds(wire: Recorder) -> None:
    server = Server("shop")
    charged: list[int] = []

    @server.tool
    async def book(ctx: Context, city: str) -> str:
        day = (await ctx.elicit(f"Which day in {city}?", datetime.date)).unwrap()
        await ctx.progress(1, message="The day is known.")
        await ctx.step("charge", charged.append, 42)
        await ctx.progress(2, message="Charged.")
        if await ctx.confirm("Send a receipt?"):
            return f"Booked {day}, with a receipt."
        return f"Booked {day}."

    def answer(question: Any) -> Any:
        return {"value": "2026-08-01" if "day" in question.message else True}

    async with wire.client(server, elicit=answer) as client:
        await client.call_tool("book", {"city": "Oslo"}, progress=lambda step: None)
    assert charged == [42]


@scenario(
    "missing-capability",
    """Tools ask clients for what they did not declare: nothing is asked. On the stateless protocol the error names what
    is missing, in a session the result says so.""",
)
async def missing_capability(wire: Recorder) -> None:
    server = Server("asker")

    @server.tool
    async def form(ctx: Context) -> str:
        return (await ctx.elicit("Which size?", str)).unwrap()

    @server.tool
    async def page(ctx: Context) -> str:
        return str(await ctx.elicit_url("Sign in.", "https://bank.example"))

    @server.tool
    async def model(ctx: Context) -> str:
        return (await ctx.sample("Hello?", tools=[Tool("clock", {"type": "object"})])).text

    @server.tool
    async def paths(ctx: Context) -> int:
        return len(await ctx.roots())

    @server.prompt
    async def greeting(ctx: Context) -> str:
        return (await ctx.elicit("Your name?", str)).unwrap()

    async def all_of_it(**options: Any) -> None:
        async with wire.client(server, **options) as client:
            for name in ("form", "page", "model", "paths"):
                await _fails(client.call_tool(name))
            await _fails(client.get_prompt("greeting"))

    await all_of_it()
    if "url" in wire.features.elicitation:
        wire.note("A client that opens pages, and has no forms.")
        async with wire.client(server, elicit_url=lambda question: True) as client:
            await _fails(client.call_tool("form"))
    if wire.features.sampling_tools:
        wire.note("A client that has forms and a model without tools.")
        async with wire.client(server, elicit=lambda question: None, sample=lambda question: None) as client:
            for name in ("page", "model"):
                await _fails(client.call_tool(name))


async def _fails(call: Any) -> None:
    try:
        result = await call
    except ProtocolError:
        return
    assert result.is_error


@scenario(
    "state-rejected",
    "A state that comes with other arguments, and one that was changed: one answer for both, the tool does not run.",
    MODERN,
)
async def state_rejected(wire: Recorder) -> None:
    async with wire.raw(cafe()) as raw:

        async def call(id: int, name: str, **more: Any) -> Any:
            params = {"name": "order", "arguments": {"name": name}, **more, "_meta": wire.meta({"elicitation": {}})}
            await raw.write({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            return (await raw.read()).get("result")

        asked = await call(1, "Ada")
        answers = {key: {"action": "decline"} for key in asked["inputRequests"]}
        state = asked["requestState"]
        await call(2, "Bob", inputResponses=answers, requestState=state)
        await call(3, "Ada", inputResponses=answers, requestState=state[:-6] + "AAAAAA")
        wire.note("As it was given, it is good.")
        await call(4, "Ada", inputResponses=answers, requestState=state)
