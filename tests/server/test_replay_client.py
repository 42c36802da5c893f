"""Whole calls through our own client, in process: the same code and the same questions on both eras."""

import copy
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from backchannel import Client, Context, Server
from backchannel.protocol.jsonrpc import Request
from tests.server.replay import both_eras

pytestmark = pytest.mark.anyio


class Day(BaseModel):
    date: str
    nights: int = 1


@pytest.mark.rule("R30", "P9", "P13", "R117", "R121")
@pytest.mark.case("A09")
@both_eras
@pytest.mark.parametrize("sync", [False, True])
async def test_one_body_gives_the_same_on_both_eras(version: str, sync: bool) -> None:
    server, charged, asked, told = Server("shop"), [], [], []

    def charge(amount: int) -> dict[str, int]:
        charged.append(amount)
        return {"total": amount}

    if sync:

        @server.tool(name="book")
        def book(ctx: Context, city: str) -> str:
            day = ctx.elicit(f"Which day in {city}?", Day).wait().unwrap()
            ctx.progress(1).wait()
            slogan = ctx.sample(f"A slogan for {city} on {day.date}").wait()
            receipt = ctx.step("charge", charge, 42).wait()
            roots = ctx.roots().wait()
            sure = ctx.confirm(f"Book for {receipt['total']}?").wait()
            ctx.progress(2).wait()
            return f"{day.date} {day.nights} {slogan.text} {len(roots)} {sure}"
    else:

        @server.tool(name="book")
        async def book_async(ctx: Context, city: str) -> str:
            day = (await ctx.elicit(f"Which day in {city}?", Day)).unwrap()
            await ctx.progress(1)
            slogan = await ctx.sample(f"A slogan for {city} on {day.date}")
            receipt = await ctx.step("charge", charge, 42)
            roots = await ctx.roots()
            sure = await ctx.confirm(f"Book for {receipt['total']}?")
            await ctx.progress(2)
            return f"{day.date} {day.nights} {slogan.text} {len(roots)} {sure}"

    def elicit(question: Any) -> Any:
        asked.append(question.message)
        return {"value": True} if "Book" in question.message else {"date": "2026-12-24"}

    def sample(question: Any) -> str:
        asked.append(question.messages[0].content.text)
        return "Go!"

    def roots() -> list[str]:
        asked.append("roots")
        return ["/srv"]

    async with Client(server, elicit=elicit, sample=sample, roots=roots, version=version) as client:
        result = await client.call_tool("book", {"city": "Oslo"}, progress=lambda p: told.append(p.progress))
        assert result.text == "2026-12-24 1 Go! 1 True" and not result.is_error
    asked.remove("roots")  # once: a session asks for them by itself
    assert asked == ["Which day in Oslo?", "A slogan for Oslo on 2026-12-24", "Book for 42?"]
    assert charged == [42]
    assert told == [1, 2]


@pytest.mark.case("A01")
@both_eras
async def test_the_params_of_the_caller_stay_as_they_are(version: str) -> None:
    server, wiped, asked = Server("shop"), [], []

    @server.tool
    async def wipe(ctx: Context, path: str) -> str:
        if await ctx.confirm(f"Wipe {path}?"):
            wiped.append(path)
        return "done"

    def elicit(question: Any) -> Any:
        asked.append(question.message)
        return {"value": True}

    params = {"name": "wipe", "arguments": {"path": "/a"}}
    before = copy.deepcopy(params)
    async with Client(server, elicit=elicit, version=version) as client:
        for n in (1, 2):
            await client.request("tools/call", params)
            assert params == before
            assert len(asked) == len(wiped) == n


@pytest.mark.rule("R102", "R103", "R106", "R62")
@pytest.mark.case("A03")
@pytest.mark.parametrize("depth", [3, 10])
async def test_a_retry_is_the_same_call_with_answers_under_a_new_id(depth: int) -> None:
    server, requests, states = Server("shop"), list[Request](), [None]

    @server.tool
    async def tool(ctx: Context, start: str) -> str:
        given = start
        for _ in range(depth):
            given += (await ctx.elicit(f"after {given}?", str)).unwrap()
        return given

    @server.middleware
    async def middleware(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/call":
            requests.append(ctx.exchange.request)
            states.append(getattr(result, "request_state", None))
        return result

    asked: list[str] = []

    def elicit(question: Any) -> Any:
        asked.append(question.message)
        return {"value": str(len(asked) % 10)}

    async with Client(server, elicit=elicit, version="2026-07-28") as client:
        result = await client.call_tool("tool", {"start": "x"})
    assert result.text == "x" + "".join(str(n % 10) for n in range(1, depth + 1))
    assert len(asked) == len(set(asked)) == depth
    assert len(requests) == depth + 1
    assert len({request.id for request in requests}) == depth + 1
    sent = [json.loads(bytes(request.params)) for request in requests]
    assert all((params["name"], params["arguments"]) == ("tool", {"start": "x"}) for params in sent)
    assert [params.get("requestState") for params in sent] == states[:-1]
    keys = [list(params.get("inputResponses", {})) for params in sent]
    assert keys == [[]] + [[f"elicit-{n}"] for n in range(1, depth + 1)]
