"""The Context: what it knows, tells and can ask, with and without a call."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from backchannel import CannotAskHere, Context, NoBackChannel, Principal, Server
from backchannel.protocol.jsonrpc import Response
from tests.server.replay import (
    DECLINED,
    LEGACY,
    MODERN,
    YES,
    accept,
    both_eras,
    driver,
    failed,
    retry,
    text,
)

pytestmark = pytest.mark.anyio


# Without a call.


async def rm(ctx: Context, path: str, force: bool = False) -> str:
    await ctx.progress(0.5)
    await ctx.log("info", "removing")
    if not force and not await ctx.confirm(f"Remove {path}?", key="sure"):
        return "kept"
    return f"removed {path} in round {ctx.round}"


@pytest.mark.case("A05")
async def test_a_handler_that_asks_nothing_can_be_called_directly() -> None:
    assert await rm(Context(), "/a", force=True) == "removed /a in round 1"
    with pytest.raises(NoBackChannel, match=r"no client is attached, so the question 'sure' cannot be asked"):
        await rm(Context(), "/a")
    with pytest.raises(NoBackChannel, match="the question 'Which\\?'"):
        Context().elicit("Which?", str)


@pytest.mark.case("A05")
def test_a_sync_handler_too() -> None:
    def tool(ctx: Context, force: bool) -> str:
        ctx.progress(1)
        return "yes" if force or ctx.confirm("sure?").wait() else "no"

    assert tool(Context(), True) == "yes"
    with pytest.raises(NoBackChannel, match="'sure\\?'"):
        tool(Context(), False)


def test_a_context_without_a_call_knows_nothing() -> None:
    ctx = Context()
    assert (ctx.round, ctx.principal, ctx.lifespan, ctx.client.name) == (1, None, None, "unknown")
    assert ctx.call_id == ctx.call_id != Context().call_id
    assert not ctx.can_ask("form")
    for what in (lambda: ctx.version, lambda: ctx.method, lambda: ctx.target):
        with pytest.raises(NoBackChannel, match="no client is attached"):
            what()


# Knowing.


@pytest.mark.rule("P11", "R19")
@both_eras
async def test_what_a_handler_knows_of_its_call(version: str) -> None:
    server, seen = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        seen.append(
            (ctx.call_id, ctx.round, ctx.version, ctx.method, ctx.target, ctx.principal, ctx.client.capabilities)
        )
        await ctx.confirm("sure?")
        return "done"

    ann = Principal("ann")
    async with driver(server, version, {"elicitation": {}}, ann) as wire:
        for _ in range(2):
            assert text(await wire.rounds("tool", lambda *_: YES)) == "done"
    rounds = 2 if version == MODERN else 1
    assert [one[1] for one in seen] == list(range(1, rounds + 1)) * 2
    assert len({one[0] for one in seen}) == 2 and len({one[0] for one in seen[:rounds]}) == 1
    assert {one[2:6] for one in seen} == {(version, "tools/call", "tool", ann)}
    assert all(one[6] == {"elicitation": {}} for one in seen)


CAPABILITIES: list[tuple[dict[str, Any], bool, bool]] = [
    ({}, False, False),
    ({"elicitation": {}}, True, False),
    ({"elicitation": {"form": {}}}, True, False),
    ({"elicitation": {"url": {}}}, False, True),
    ({"elicitation": {"form": {}, "url": {}}}, True, True),
]


@pytest.mark.case("B06")
@both_eras
@pytest.mark.parametrize(("capabilities", "form", "url"), CAPABILITIES)
async def test_what_can_be_asked(capabilities: dict[str, Any], form: bool, url: bool, version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> list[bool]:
        return [ctx.can_ask("form"), ctx.can_ask("url"), ctx.can_ask("sampling"), ctx.can_ask("roots")]

    async with driver(server, version, capabilities) as wire:
        assert text(await wire.call("tool")) == f"[{form},{url},False,False]".lower()
    async with driver(server, version, {"sampling": {}, "roots": {}}) as wire:
        assert text(await wire.call("tool")) == "[false,false,true,true]"


# Telling.


@pytest.mark.rule("R140", "R142")
@both_eras
@pytest.mark.parametrize("token", [7, "seven", 0, ""])
async def test_progress_rises_and_carries_its_token(token: Any, version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        for value in (1, 1, 0.5, 2, float("nan"), float("inf"), -1, 3):
            await ctx.progress(value, total=4, message="on")
        return "done"

    async with driver(server, version) as wire:
        assert text(await wire.call("tool", _meta={"progressToken": token})) == "done"
        assert wire.told == [
            ("notifications/progress", {"progressToken": token, "progress": value, "total": 4, "message": "on"})
            for value in (1, 2, 3)
        ]
        wire.sent.clear()
        assert text(await wire.call("tool")) == "done"
        assert wire.told == []


@pytest.mark.rule("R140")
@pytest.mark.case("D02")
@both_eras
async def test_the_response_is_the_last_message_of_a_call(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        for value in range(100):
            ctx.progress(value)  # sent whether awaited or not
        return "done"

    async with driver(server, version) as wire:
        await wire.serve(wire.tool("tool", _meta={"progressToken": 1}))
        messages = [await wire.next() for _ in range(len(wire.session.stream))]
        assert wire.progress == list(range(100))
        assert text(messages[-1]) == "done"


@pytest.mark.rule("R139")
async def test_on_legacy_logs_are_for_the_level_of_the_session() -> None:
    async with driver(logging_server(), LEGACY) as wire:
        wanted = {"_meta": {"io.modelcontextprotocol/logLevel": "debug"}}
        assert text(await wire.call("tool", **wanted)) == "done"
        assert wire.logged == []
        reply = await wire.serve(wire.exchange("logging/setLevel", {"level": "error"}))
        assert isinstance(reply, Response) and reply.result == {}
        assert text(await wire.call("tool", **wanted)) == "done"
        assert wire.logged == ["error", "emergency"]
        assert wire.told[0][1] == {"level": "error", "data": "error", "logger": "log"}
        error = await wire.dispatcher(wire.exchange("logging/setLevel", {"level": "loud"}))
        assert "unknown log level 'loud'" in str(error)


@pytest.mark.rule("R139")
async def test_on_modern_logs_are_for_the_level_of_the_request() -> None:
    async with driver(logging_server(), MODERN) as wire:
        wire.session.log_level = "debug"
        assert text(await wire.call("tool")) == "done"
        assert wire.logged == []
        await wire.call("tool", _meta={"io.modelcontextprotocol/logLevel": "warning"})
        assert wire.logged == ["warning", "error", "emergency"]
        response = await wire.call("tool", _meta={"io.modelcontextprotocol/logLevel": "loud"})
        assert response["error"]["code"] == -32602


def logging_server() -> Server:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        for level in ("debug", "warning", "error", "emergency"):
            await ctx.log(level, level, logger="log")
        return "done"

    return server


async def test_a_log_level_that_is_none() -> None:
    with pytest.raises(ValueError, match="the log level 'loud' is none of debug, info"):
        Context().log("loud", "x")


@both_eras
async def test_a_fast_teller_waits_for_its_reader(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        for value in range(1000):
            await ctx.progress(value)
        return "done"

    async with driver(server, version) as wire:
        exchange = wire.tool("tool", _meta={"progressToken": 1})
        most = 0
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            while not exchange.finished or len(wire.session.stream):
                most = max(most, len(wire.session.stream))
                await wire.next()
        assert wire.progress == list(range(1000))
        assert most <= 300


# Asking.


@pytest.mark.rule("R14", "R122")
@both_eras
async def test_what_is_no_handler_of_a_tool_cannot_ask(version: str) -> None:
    server, errors = Server("test"), []

    @server.middleware
    async def middleware(ctx: Context, call_next: Any) -> Any:
        with pytest.raises(CannotAskHere) as caught:
            ctx.confirm("sure?")
        errors.append(str(caught.value))
        return await call_next(ctx)

    async with driver(server, version) as wire:
        await wire.serve(wire.exchange("tools/list", {}))
    assert errors[-1].startswith("tools/list cannot ask the client here")


CONFIRMATIONS: list[tuple[Any, str]] = [
    (accept(True), "True"),
    (accept(False), "False"),
    (DECLINED, "False"),
    ({"action": "cancel"}, "False"),
]


@both_eras
@pytest.mark.parametrize(("given", "wanted"), CONFIRMATIONS)
async def test_only_a_yes_confirms(given: Any, wanted: str, version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: given)) == wanted


def deleting(if_unable: Any = None) -> tuple[Server, list[str]]:
    server, deleted = Server("test"), list[str]()

    @server.tool
    async def delete_layer(ctx: Context, name: str) -> str:
        options = {"if_unable": if_unable} if if_unable else {}
        if not await ctx.confirm(f"Delete {name}?", **options):
            return "kept"
        deleted.append(name)
        return "deleted"

    return server, deleted


@pytest.mark.case("A08")
async def test_a_confirmation_fails_closed_and_says_why() -> None:
    server, deleted = deleting()
    reasons = []
    async with driver(server, LEGACY, {}) as wire:
        reasons.append(failed(await wire.call("delete_layer", {"name": "x"})))
    async with driver(server, LEGACY) as wire:
        exchange = wire.exchange("tools/call", {"name": "delete_layer", "arguments": {"name": "x"}}, session=None)
        await wire.serve(exchange)
        reasons.append(failed(await wire.next()))
    for reply in ({"error": {"code": -32603, "message": "broken"}}, {"result": "garbage"}, {"result": accept("x")}):
        async with driver(server, LEGACY) as wire:
            async with anyio.create_task_group() as group:
                group.start_soon(wire.serve, wire.tool("delete_layer", {"name": "x"}))
                wire.answer(await wire.next(), **reply)
            reasons.append(failed(await wire.next()))
    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("delete_layer", {"name": "x"}))
            await wire.next()
            wire.session.hang_up()
        reasons.append(failed(await wire.next()))
    assert len(set(reasons)) == len(reasons) == 6
    assert deleted == []


@pytest.mark.case("A08")
@pytest.mark.parametrize("given", [accept("x"), {"action": "accept", "content": {}}, {"action": "accept"}])
async def test_a_confirmation_fails_closed_on_modern(given: Any) -> None:
    server, deleted = deleting("proceed")
    async with driver(server, MODERN) as wire:
        first = await wire.call("delete_layer", {"name": "x"})
        failed(await wire.call("delete_layer", {"name": "x"}, **retry(first, **{"elicit-1": given})))
    assert deleted == []


@pytest.mark.case("A08")
@both_eras
async def test_only_an_explicit_proceed_goes_on_without_an_answer(version: str) -> None:
    server, deleted = deleting("proceed")
    async with driver(server, version, {}) as wire:
        assert text(await wire.call("delete_layer", {"name": "x"})) == "deleted"
    assert deleted == ["x"]


@pytest.mark.case("A08")
async def test_proceeding_is_for_who_cannot_be_asked_not_for_errors() -> None:
    server, deleted = deleting("proceed")
    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("delete_layer", {"name": "x"}))
            wire.answer(await wire.next(), error={"code": -32603, "message": "broken"})
        failed(await wire.next())
    assert deleted == []


@both_eras
async def test_the_parts_of_a_gather_keep_their_order(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        empty = await ctx.gather()
        (one,) = await ctx.gather(ctx.step("one", lambda: 1))
        (a, b), c = await ctx.gather(ctx.gather(ctx.step("a", lambda: "a"), ctx.elicit("b", str)), ctx.confirm("c"))
        return f"{empty} {one} {a} {b.unwrap()} {c}"

    answers: dict[str, Callable[[], Any]] = {"b": lambda: accept("B"), "c": lambda: YES}
    async with driver(server, version) as wire:
        response = await wire.rounds("tool", lambda _, question: answers[question["params"]["message"]]())
        assert text(response) == "() 1 a B True"


@pytest.mark.rule("R134")
@both_eras
async def test_a_synchronous_handler_can_see_that_nobody_waits_any_more(version: str) -> None:
    server, began, cancelled, seen = Server("test"), threading.Event(), threading.Event(), threading.Event()

    @server.tool
    def count(ctx: Context) -> str:
        assert not ctx.cancelled
        began.set()
        cancelled.wait(10)
        if ctx.cancelled:
            seen.set()
        return "done"

    async with driver(server, version) as wire:
        exchange = wire.tool("count")
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            await anyio.to_thread.run_sync(began.wait, 10)
            exchange.cancel()
        cancelled.set()
        assert await anyio.to_thread.run_sync(seen.wait, 10)


def test_a_context_without_a_call_is_not_cancelled() -> None:
    assert not Context().cancelled
