"""P8: what is sealed, for whom, for how long, and how much. How it fails is in test_tamper.py."""

import logging
from typing import Any

import pytest

from backchannel import Context, MemoryStateStore, Principal, RequestState, Server
from tests.replay.wires import KEY, LIVE, REPLAYED, ROUNDS, STORED, obliging, play
from tests.server.replay import YES, accept, asked, driver, retry, text

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P8")]


async def twice(ctx: Context) -> str:
    first = (await ctx.elicit("a", str)).unwrap()
    return f"{first} {await ctx.confirm('b?')}"


def server_of(tool: Any = twice, name: str = "shop", **options: Any) -> Server:
    server = Server(name, state=RequestState(**{"keys": [KEY], **options}))
    server.add_tool(tool, name="tool")
    return server


@pytest.mark.rule("R110")
@pytest.mark.case("A06")
async def test_instances_with_one_key_and_one_audience_serve_one_call() -> None:
    """Under different names, with another key in front, and after a restart."""
    one = server_of(name="app-a", audience="app")
    two = server_of(name="app-b", audience="app", keys=["z" * 40, KEY])
    async with driver(one) as a:
        first = await a.call("tool")
    async with driver(two) as b:
        second = await b.call("tool", **retry(first, **{"elicit-1": accept("x")}))
    async with driver(server_of(name="app-a", audience="app", keys=[KEY, "z" * 40])) as restarted:
        assert text(await restarted.call("tool", **retry(second, **{"elicit-2": YES}))) == "x True"


@pytest.mark.case("A06")
@pytest.mark.parametrize("shared", ["nothing", "key"])
async def test_what_is_not_shared_is_told_once_in_the_log(shared: str, caplog: pytest.LogCaptureFixture) -> None:
    options = {"keys": [KEY]} if shared == "key" else {"keys": None}
    async with driver(server_of(name="a", **options)) as a, driver(server_of(name="b", **options)) as b:
        first = await a.call("tool")
        for _ in range(3):
            error = (await b.call("tool", **retry(first, **{"elicit-1": YES})))["error"]
            assert error == {"code": -32602, "message": "Invalid or expired requestState"}
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    (one,) = warnings
    assert ("audience" if shared == "key" else "not shared") in one


@pytest.mark.rule("R111")
async def test_a_round_expires_and_so_does_the_call() -> None:
    now = [1000.0]
    server = server_of(ttl=60, max_age=100, clock=lambda: now[0])
    async with driver(server) as wire:
        first = await wire.call("tool")
        now[0] += 59
        second = await wire.call("tool", **retry(first, **{"elicit-1": accept("x")}))
        asked(second)
        now[0] += 40
        assert text(await wire.call("tool", **retry(second, **{"elicit-2": YES}))) == "x True"
        now[0] += 1  # the call is 100 seconds old, though the round is not 60
        assert (await wire.call("tool", **retry(second, **{"elicit-2": YES})))["error"]["code"] == -32602


@pytest.mark.rule("R110")
@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_states_of_prompts_and_resources_are_bound_too(method: str) -> None:
    server = Server("shop", state=RequestState([KEY]))

    @server.prompt
    async def one(ctx: Context, subject: str) -> str:
        return f"{subject} {await ctx.confirm('sure?')}"

    server.prompt(name="two")(one)

    @server.resource("note://{id}")
    async def note(ctx: Context, id: str) -> str:
        return f"{id} {await ctx.confirm('sure?')}"

    right, *wrong = {
        "prompts/get": [
            {"name": "one", "arguments": {"subject": "x"}},
            {"name": "one", "arguments": {"subject": "y"}},
            {"name": "two", "arguments": {"subject": "x"}},
        ],
        "resources/read": [{"uri": "note://1"}, {"uri": "note://2"}, {"uri": "note://10"}],
    }[method]
    async with driver(server, principal=Principal("ann")) as wire:

        async def send(params: dict[str, Any], **more: Any) -> Any:
            exchange = wire.exchange(method, {**params, **more})
            await wire.serve(exchange)
            return await wire.until(lambda message: message.get("id") == exchange.request.id)

        again = retry(await send(right), **{"elicit-1": YES})
        for params in wrong:
            assert (await send(params, **again))["error"]["message"] == "Invalid or expired requestState"
        assert "True" in str(await send(right, **again))


async def loop(ctx: Context) -> str:
    turns = 0
    while await ctx.confirm(f"{turns}: more?"):
        turns += 1
    return str(turns)


def until(last: int) -> Any:
    return lambda question: accept(int(question.partition(":")[0]) < last)


@pytest.mark.parametrize("how", [ROUNDS, STORED])
async def test_a_call_has_32_rounds_of_questions(how: str) -> None:
    seen = await play(how, loop, until(31))
    assert (seen.end, seen.rounds, len(seen.questions)) == ("31", 33, 32)
    seen = await play(how, loop, until(32))
    assert seen.end["code"] == -32603
    assert seen.end["message"].startswith("round 33, limit 32: ") and "ctx.gather" in seen.end["message"]
    assert len(seen.questions) == 32


async def test_the_legacy_wire_has_no_such_limit() -> None:
    assert (await play(LIVE, loop, until(100))).end == "100"
    assert "limit 32" in str((await play(REPLAYED, loop, until(100))).end)


@pytest.mark.parametrize("store", [False, True])
async def test_a_state_at_the_cap(store: bool) -> None:
    """The largest that fits, and one byte more. With a store it stays on the server."""
    size = [0]

    async def tool(ctx: Context) -> str:
        filling = await ctx.step("fill", lambda: "x" * size[0])
        return f"{len(filling)} {await ctx.confirm('sure?')}"

    async with driver(server_of(tool, store=MemoryStateStore() if store else None)) as wire:

        async def fits(length: int) -> bool:
            size[0] = length
            return "result" in await wire.call("tool")

        low, high = 1000, 100_000
        while not store and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if await fits(middle) else (low, middle)
        size[0] = high if store else low
        first = await wire.call("tool")
        token = first["result"]["requestState"]
        assert len(token) < 1000 if store else 65530 < len(token) <= 65536
        assert text(await wire.call("tool", **retry(first, **{"elicit-2": YES}))) == f"{size[0]} True"
        if not store:
            size[0] = high
            error = (await wire.call("tool"))["error"]
            assert error["code"] == -32603 and "limit is 65536" in error["message"] and "store" in error["message"]


@pytest.mark.case("A13")
@pytest.mark.parametrize("store", [False, True])
async def test_a_last_round_that_is_repeated(store: bool) -> None:
    """Without a store its steps run again; with one it has the result that it had."""
    paid: list[int] = []

    async def pay(ctx: Context) -> str:
        if not await ctx.confirm("sure?"):
            return "no"
        return f"receipt {await ctx.step('pay', lambda: paid.append(1) or len(paid))}"

    async with driver(server_of(pay, store=MemoryStateStore() if store else None)) as wire:
        again = retry(await wire.call("tool"), **{"elicit-1": YES})
        results = [text(await wire.call("tool", **again)) for _ in range(3)]
        assert results == (["receipt 1"] * 3 if store else ["receipt 1", "receipt 2", "receipt 3"])
        if store:  # nor do other answers count
            other = await wire.call("tool", **{**again, "inputResponses": {"elicit-1": accept(False)}})
            assert other["error"]["message"] == "Invalid or expired requestState"
    assert len(paid) == (1 if store else 3)


async def test_each_round_has_a_state_of_its_own() -> None:
    states: list[str] = []
    async with driver(server_of(loop)) as wire:
        response = await wire.call("tool")
        for _ in range(4):
            states.append(response["result"]["requestState"])
            (key,) = asked(response)
            response = await wire.call("tool", **retry(response, **{key: YES}))
    assert len(set(states)) == 4


async def test_whoever_has_the_state_still_has_to_ask_for_the_same() -> None:
    """Answers that come without one are nobody's."""
    async with driver(server_of()) as wire:
        response = await wire.call("tool", inputResponses={"elicit-1": accept("x"), "elicit-2": YES})
        assert list(asked(response)) == ["elicit-1"]
    assert (await play(ROUNDS, twice, obliging)).end == "<a> True"
