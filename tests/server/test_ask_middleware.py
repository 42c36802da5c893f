"""Context managers around every question."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest

from backchannel import AskTimeout, Context, Elicit, InputRequired, Server, ToolError
from backchannel.server.asks import Ask
from tests.server.replay import LEGACY, YES, accept, both_eras, driver, text

pytestmark = pytest.mark.anyio


def watched(server: Server, seen: list[str], name: str = "") -> None:
    @server.ask_middleware
    @contextmanager
    def note(ctx: Context, ask: Ask[Any]) -> Iterator[None]:
        if "forbidden" in ask.text:
            raise ToolError(f"{ctx.target} may not ask that")
        seen.append(f"{name}> {ask.text}")
        try:
            yield
        except BaseException as error:
            seen.append(f"{name}! {type(error).__name__}")
            raise
        seen.append(f"{name}< {ask.text}")


@both_eras
@pytest.mark.rule("R29", "R132")
async def test_every_question_passes_whatever_its_style(version: str) -> None:
    server, seen = Server("s"), list[str]()
    watched(server, seen)
    explicit = Elicit("Explicit?", bool)

    @server.tool
    async def tool(ctx: Context, size: Annotated[bool, Elicit("Parameter?")]) -> str | InputRequired:
        await ctx.confirm("Inline?")
        return "done" if ctx.answers.read("e", explicit) else InputRequired({"e": explicit})

    async with driver(server, version) as client:
        assert text(await client.rounds("tool", lambda key, question: YES)) == "done"
        await client.idle()
    left = [one for one in seen if one.startswith(">")]
    assert left == ["> Parameter?", "> Inline?", "> Explicit?"]  # none of them twice
    if version == LEGACY:
        assert seen[:4] == ["> Parameter?", "< Parameter?", "> Inline?", "< Inline?"]
    else:
        assert seen[:2] == ["> Parameter?", "! Suspend"]


@both_eras
@pytest.mark.rule("R29", "R131")
async def test_the_first_is_outermost_and_what_one_raises_sends_nothing(version: str) -> None:
    server, seen = Server("s"), list[str]()
    watched(server, seen, "outer")
    watched(server, seen, "inner")

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.elicit("fine?", bool)
        await ctx.elicit("forbidden?", bool)
        return "asked"

    async with driver(server, version) as client:
        response = await client.rounds("tool", lambda key, question: accept(True))
        assert response["result"]["content"][0]["text"] == "tool may not ask that"
        assert seen[:2] == ["outer> fine?", "inner> fine?"]
        asked = [m for m in client.sent if m.get("method") == "elicitation/create"]
        assert len(asked) == (version == LEGACY)
        await client.idle()


async def test_it_sees_what_is_raised_in_place_of_an_answer_and_what_nobody_waits_for() -> None:
    server, seen = Server("s"), list[str]()
    watched(server, seen)

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await ctx.elicit("slow?", bool, timeout=0)
        except AskTimeout:
            ctx.elicit("given up?", bool).close()
        return "done"

    async with driver(server, LEGACY) as client:
        assert text(await client.call("tool")) == "done"
        assert seen == ["> slow?", "! AskTimeout", "> given up?", "< given up?"]


@pytest.mark.rule("R29")
async def test_a_detached_context_is_watched_too() -> None:
    server, seen = Server("s"), list[str]()
    watched(server, seen)

    @server.tool
    async def tool(ctx: Context) -> str:
        return str(await ctx.detach().confirm("Detached?"))

    async with driver(server, LEGACY) as client:
        assert text(await client.rounds("tool", lambda key, question: YES)) == "True"
        assert seen == ["> Detached?", "< Detached?"]
