"""Context managers around every question."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from backchannel import AskTimeout, ConfigurationError, Context, Elicit, InputRequired, Server, ToolError
from backchannel.server.asks import Ask
from tests.server.replay import LEGACY, YES, accept, both_eras, driver, failed, text

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
        return "done" if ctx.answers.read("e", explicit) is not None else InputRequired({"e": explicit})

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


async def test_one_that_fails_at_its_end_keeps_no_question_open() -> None:
    server = Server("s")
    ended: list[str] = []

    @server.ask_middleware
    @contextmanager
    def fails(ctx: Context, ask: Ask[Any]) -> Iterator[None]:
        try:
            yield
        finally:
            ended.append(ask.text)
            raise ValueError("at the end")

    @server.tool
    async def tool(ctx: Context) -> str:
        for message in ("One?", "Two?", "Three?"):
            ctx.elicit(message, bool, key=message)
        raise ToolError("enough")

    async with driver(server, LEGACY) as client:
        exchange = client.tool("tool")
        await client.serve(exchange)
        response = await client.until(lambda message: message.get("id") == exchange.request.id and "result" in message)
        assert response["result"]["isError"]
        assert sorted(ended) == ["One?", "Three?", "Two?"]
        await client.idle()


async def is_async(ctx: Context, ask: Ask[Any]) -> None: ...


@asynccontextmanager
async def is_an_async_manager(ctx: Context, ask: Ask[Any]) -> AsyncIterator[None]:
    yield


def is_bare(ctx: Context, ask: Ask[Any]) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("middleware", "wanted"),
    [
        (is_async, r"the ask_middleware is_async\(\) is async"),
        (is_an_async_manager, "is async, and a question leaves when it is made"),
        (is_bare, "write @contextmanager above it"),
        (lambda ask: None, r"has to take \(ctx, ask\)"),
    ],
)
def test_what_is_no_ask_middleware(middleware: Any, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        Server("s").ask_middleware(middleware)


@both_eras
async def test_a_plain_function_in_its_place_is_named(version: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.ask_middleware  # type: ignore[arg-type]
    def plain(ctx: Context, ask: Ask[Any]) -> None: ...

    @server.tool
    async def tool(ctx: Context) -> str:
        return str(await ctx.confirm("Sure?"))

    async with driver(server, version) as client:
        failed(await client.call("tool"))
        await client.idle()
    assert "the ask_middleware plain() gave NoneType, and no context manager" in caplog.text
