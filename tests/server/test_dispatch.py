"""What becomes of a handler that suspends, is cancelled, fails, or is wrapped; and what a state is bound to."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from trio.testing import MockClock

from backchannel import Accepted, Context, Limits, Principal, RequestState, Server, ToolError
from backchannel.protocol.jsonrpc import ErrorResponse
from backchannel.server.question import Suspend, caller
from tests.server.replay import (
    LEGACY,
    SAMPLE,
    YES,
    Driver,
    accept,
    asked,
    both_eras,
    driver,
    failed,
    retry,
    text,
)

pytestmark = pytest.mark.anyio
line = 0  # of the question that a handler below swallows


# Handlers that do with the suspension what they should not. Each but the first two is told so.


async def catches_exceptions(ctx: Context) -> str:
    global line
    try:
        line = caller()[1] + 1
        return repr((await ctx.elicit("sure?", bool)).unwrap())
    except Exception:
        return "fallback"


async def cleans_up(ctx: Context) -> str:
    try:
        return repr((await ctx.elicit("sure?", bool)).unwrap())
    finally:
        await anyio.lowlevel.checkpoint()


async def catches_everything(ctx: Context) -> str:
    global line
    try:
        line = caller()[1] + 1
        return repr((await ctx.elicit("sure?", bool)).unwrap())
    except BaseException:
        return "fallback"


async def returns_from_finally(ctx: Context) -> str:
    global line
    try:
        line = caller()[1] + 1
        answer = repr((await ctx.elicit("sure?", bool)).unwrap())
    finally:
        return locals().get("answer", "fallback")  # noqa: B012


async def raises_another(ctx: Context) -> str:
    global line
    try:
        line = caller()[1] + 1
        return repr((await ctx.elicit("sure?", bool)).unwrap())
    except BaseException as error:
        raise ValueError("wrapped") from error


async def raises_a_group(ctx: Context) -> str:
    global line
    try:
        line = caller()[1] + 1
        return repr((await ctx.elicit("sure?", bool)).unwrap())
    except BaseException:
        raise BaseExceptionGroup("wrapped", [ValueError(), KeyError()]) from None


async def looks_cancelled(ctx: Context) -> str:
    global line
    try:
        line = caller()[1] + 1
        return repr((await ctx.elicit("sure?", bool)).unwrap())
    except BaseException:
        raise asyncio.CancelledError from None


async def gathers_exceptions(ctx: Context) -> str:
    global line
    line = caller()[1] + 1
    asking = ctx.elicit("sure?", bool)
    (answer,) = await asyncio.gather(asking, return_exceptions=True)
    return repr(answer.unwrap()) if isinstance(answer, Accepted) else "fallback"


async def swallows_in_a_thread(ctx: Context) -> str:
    global line
    line = caller()[1] + 1
    asking = ctx.elicit("sure?", bool)

    def work() -> str:
        try:
            return repr(asking.wait().unwrap())
        except BaseException:
            return "fallback"

    return await anyio.to_thread.run_sync(work)


def swallows_in_its_thread(ctx: Context) -> str:
    global line
    try:
        line = caller()[1] + 1
        return repr(ctx.elicit("sure?", bool).wait().unwrap())
    except BaseException:
        return "fallback"


SWALLOWING = [
    catches_everything,
    returns_from_finally,
    raises_another,
    raises_a_group,
    swallows_in_a_thread,
    swallows_in_its_thread,
]
SWALLOWING_ON_ASYNCIO = [looks_cancelled, gathers_exceptions]


async def suspends(handler: Callable[..., Any], warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")
    server.add_tool(handler, name="tool")
    async with driver(server) as wire:
        with caplog.at_level(logging.WARNING):
            first = await wire.call("tool")
        assert list(asked(first)) == ["elicit-1"]
        told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert [text.startswith(f"{__file__}:{line}: the handler ") for text in told] == [True] * warned
        assert text(await wire.call("tool", **retry(first, **{"elicit-1": YES}))) == "True"
        await wire.idle()


@pytest.mark.rule("P3", "P4")
@pytest.mark.case("A22")
@pytest.mark.parametrize("handler", [catches_exceptions, cleans_up])
async def test_suspension_passes_what_an_author_should_write(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    await suspends(handler, False, caplog)


@pytest.mark.rule("P4")
@pytest.mark.case("A22")
@pytest.mark.parametrize("handler", SWALLOWING)
async def test_suspension_is_a_state(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    await suspends(handler, True, caplog)


@pytest.mark.rule("P4")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("handler", SWALLOWING_ON_ASYNCIO)
async def test_suspension_is_a_state_on_asyncio(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    await suspends(handler, True, caplog)


@pytest.mark.rule("P4")
async def test_a_group_that_holds_the_suspension_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def tool(ctx: Context) -> str:
        answers = []

        async def ask() -> None:
            answers.append((await ctx.elicit("sure?", bool, key="sure")).unwrap())

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
        return repr(answers[0])

    server = Server("test")
    server.add_tool(tool)
    async with driver(server) as wire:
        first = await wire.call("tool")
        assert text(await wire.call("tool", **retry(first, sure=YES))) == "True"
    assert not caplog.records


@pytest.mark.rule("P4")
async def test_once_suspended_every_operation_suspends_again() -> None:
    server, seen = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        early = ctx.elicit("early", bool, key="early")
        done = ctx.step("done", lambda: 1)
        for operation in (
            lambda: ctx.elicit("a", bool),
            lambda: ctx.elicit("b", bool),
            lambda: ctx.sample("c"),
            lambda: ctx.roots(),
            lambda: ctx.confirm("d", if_unable="proceed"),
            lambda: ctx.step("e", lambda: 1),
            lambda: ctx.progress(1),
            lambda: ctx.log("info", "f"),
            lambda: early,
            lambda: done,
        ):
            try:
                await operation()
                seen.append("no")
            except Suspend:
                seen.append("suspended")
        return "fallback"

    async with driver(server) as wire:
        assert list(asked(await wire.call("tool"))) == ["early", "elicit-2"]
        assert seen == ["suspended"] * 10
        assert [m for m in wire.sent if "id" not in m] == []


@pytest.mark.rule("R131", "P4")
@pytest.mark.case("A11")
async def test_middleware_sees_a_suspended_round_as_a_result_and_cannot_replace_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, seen = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> dict[str, bool]:
        return {"sure": (await ctx.elicit("sure?", bool)).unwrap()}

    @server.middleware
    async def outer(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        result = await call_next(ctx)
        seen.append(type(result).__name__)
        return {"wrapped": "whatever it was"}

    async with driver(server) as wire:
        first = await wire.call("tool")
        assert list(asked(first)) == ["elicit-1"]
        assert "wrapped" not in first["result"]
        assert "middleware replaced the questions of tool" in caplog.text
        second = await wire.call("tool", **retry(first, **{"elicit-1": YES}))
        assert text(second) == '{"wrapped":"whatever it was"}'
    assert seen == ["InputRequiredResult", "CallToolResult"]


@pytest.mark.rule("R122", "R131")
@both_eras
async def test_middleware_cannot_ask_but_can_tell(version: str) -> None:
    """Neither before its handler nor after it, whatever the handler did."""
    server, errors = Server("test"), []

    @server.tool
    async def tool(ctx: Context, ask: bool) -> str:
        return repr((await ctx.elicit("sure?", bool)).unwrap()) if ask else "nothing"

    @server.middleware
    async def middleware(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        for after in (False, True):
            try:
                await ctx.elicit("me?", bool)
            except Exception as error:
                errors.append(type(error).__name__)
            await ctx.progress(2 * ctx.round + after)
            if not after:
                result = await call_next(ctx)
        return result

    async with driver(server, version) as wire:
        meta = {"_meta": {"progressToken": 1}}
        for ask in (True, False):
            assert text(await wire.rounds("tool", lambda *_: YES, {"ask": ask}, **meta)) in ("True", "nothing")
        assert set(errors) == {"CannotAskHere"}
        assert wire.progress[-2:] == [2, 3]


@pytest.mark.rule("R132")
async def test_middleware_that_raises_after_a_round_is_answered_with_its_error() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.elicit("sure?", bool))

    @server.middleware
    async def middleware(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        await call_next(ctx)
        raise ToolError("not on Sundays")

    async with driver(server) as wire:
        assert failed(await wire.call("tool")) == "not on Sundays"


class Odd(BaseException):
    """Neither an Exception nor a cancellation."""


@pytest.mark.rule("R133")
@both_eras
@pytest.mark.parametrize("error", [ValueError("x"), Odd("x"), GeneratorExit(), BaseExceptionGroup("x", [Odd()])])
async def test_whatever_a_handler_raises_its_request_is_answered(version: str, error: BaseException) -> None:
    server = Server("test")

    @server.tool
    async def tool() -> str:
        raise error

    async with driver(server, version) as wire:
        assert failed(await wire.call("tool")) == "the handler failed; the server's log says why"
        await wire.idle()


@pytest.mark.rule("R133")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@both_eras
async def test_the_cancellation_of_a_task_that_a_handler_awaits_is_not_its_own(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool() -> str:
        task = asyncio.create_task(anyio.sleep_forever())
        task.cancel()
        await task
        return "never"

    async with driver(server, version) as wire:
        assert "the handler failed" in failed(await wire.call("tool"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_the_end_of_the_program_is_let_through(error: type[BaseException]) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await ctx.elicit("sure?", bool)
        finally:
            raise error

    async with driver(server) as wire:
        with pytest.raises(error):
            await wire.call("tool")


# What a state is bound to.


def confirming(name: str = "shop", **options: Any) -> tuple[Server, list[int]]:
    server, paid = Server(name, state=RequestState(["k" * 32], **options)), list[int]()

    @server.tool
    async def pay(ctx: Context, amount: int) -> str:
        if await ctx.confirm(f"Pay {amount}?"):
            paid.append(amount)
        return "done"

    @server.tool
    async def refund(ctx: Context, amount: int) -> str:
        paid.append(-amount)
        return repr(await ctx.confirm(f"Pay {amount}?"))

    return server, paid


ANN, BOB = Principal("ann", "https://as"), Principal("bob", "https://as")


async def pay(wire: Driver) -> dict[str, Any]:
    return retry(await wire.call("pay", {"amount": 10}), **{"elicit-1": YES})


@pytest.mark.rule("P8", "R109", "R110")
@pytest.mark.case("A13")
@pytest.mark.parametrize(
    "change", ["principal", "nobody", "arguments", "tool", "flipped", "audience", "key", "version"]
)
async def test_a_state_serves_no_other_request(change: str) -> None:
    server, paid = confirming()
    other, others = confirming("other") if change == "audience" else (server, paid)
    if change == "key":
        other, others = confirming()
        other.state = RequestState(["x" * 32])
    async with driver(server, principal=ANN) as first:
        again = await pay(first)
        who = {"principal": BOB, "nobody": None}.get(change, ANN)
        async with driver(other, principal=who) as wire:
            name = "refund" if change == "tool" else "pay"
            amount = 99 if change == "arguments" else 10
            if change == "flipped":
                token = again["requestState"]
                again["requestState"] = token[:50] + ("A" if token[50] != "A" else "B") + token[51:]
            if change == "version":
                again["requestState"] = "Ag" + again["requestState"][2:]
            response = await wire.call(name, {"amount": amount}, **again)
        assert response["error"] == {"code": -32602, "message": "Invalid or expired requestState"}
    assert paid == others == []


@pytest.mark.rule("P8", "R109", "R112")
@pytest.mark.parametrize("token", ["", "x", "Z" * 70000, "{}", "null", "AAAA", "é" * 40, "\x00"])
async def test_a_malformed_state_is_answered_like_a_forged_one(token: str) -> None:
    server, paid = confirming()
    async with driver(server) as wire:
        response = await wire.call("pay", {"amount": 10}, requestState=token, inputResponses={"elicit-1": YES})
    assert response["error"] == {"code": -32602, "message": "Invalid or expired requestState"}
    assert paid == []


@pytest.mark.rule("R110")
async def test_how_a_gateway_writes_the_arguments_makes_no_difference() -> None:
    server, paid = confirming()
    async with driver(server, principal=ANN) as wire:
        again = await pay(wire)
        assert text(await wire.call("pay", {"amount": 10.0}, **again)) == "done"
    assert paid == [10]


@pytest.mark.rule("R111")
async def test_a_state_expires() -> None:
    now = [1000.0]
    server, paid = confirming(ttl=60, clock=lambda: now[0])
    async with driver(server) as wire:
        again = await pay(wire)
        now[0] += 61
        assert (await wire.call("pay", {"amount": 10}, **again))["error"]["code"] == -32602
    assert paid == []


@pytest.mark.rule("R105", "P8")
async def test_answers_without_a_state_are_ignored() -> None:
    server, paid = confirming()
    async with driver(server) as wire:
        response = await wire.call("pay", {"amount": 10}, inputResponses={"elicit-1": YES})
        assert list(asked(response)) == ["elicit-1"]
    assert paid == []


@pytest.mark.rule("R100", "R104", "R108", "P11", "P13")
async def test_any_instance_serves_any_round_and_no_two_states_are_equal() -> None:
    seen: list[tuple[str, int]] = []

    def instance() -> Server:
        server = Server("shop", state=RequestState(["k" * 32]))

        @server.tool
        async def tool(ctx: Context) -> str:
            names = []
            for place in range(3):
                seen.append((ctx.call_id, ctx.round))
                names.append((await ctx.elicit(f"name {place}", str)).unwrap())
            return " ".join(names)

        return server

    async with driver(instance()) as a, driver(instance()) as b:
        first = await a.call("tool")
        second = await b.call("tool", **retry(first, **{"elicit-1": accept("x")}))
        repeated = await a.call("tool", **retry(first, **{"elicit-1": accept("x")}))
        third = await a.call("tool", **retry(second, **{"elicit-2": accept("y")}))
        assert text(await b.call("tool", **retry(third, **{"elicit-3": accept("z")}))) == "x y z"
        states = {r["result"]["requestState"] for r in (first, second, repeated, third)}
        assert len(states) == 4
    assert len({call_id for call_id, _ in seen}) == 1
    assert sorted({round for _, round in seen}) == [1, 2, 3, 4]


@pytest.mark.rule("R114")
async def test_the_rounds_of_a_call_have_an_end() -> None:
    server = Server("shop", state=RequestState(max_rounds=3))

    @server.tool
    async def tool(ctx: Context) -> str:
        while True:
            await ctx.elicit("more?", bool)

    async with driver(server) as wire:
        response = await wire.rounds("tool", lambda *_: YES)
        assert response["error"]["code"] == -32603
        assert "round 4, limit 3" in response["error"]["message"]


async def test_a_state_that_is_too_large_is_an_error_that_says_so() -> None:
    server = Server("shop")

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.step("big", lambda: "x" * 100_000)
        return repr(await ctx.confirm("sure?"))

    async with driver(server) as wire:
        response = await wire.call("tool")
        assert response["error"]["code"] == -32603
        assert "limit is 65536" in response["error"]["message"]


# Cancellation and time.


def everything(events: list[str]) -> Server:
    """A tool that does everything that a context offers."""
    server = Server("test", state=RequestState(["k" * 32]))

    async def work(x: int) -> int:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return x

    @server.tool
    async def tool(ctx: Context) -> str:
        events.append("start")
        try:
            await ctx.progress(1)
            await ctx.log("info", "began")
            first, message = await ctx.gather(ctx.elicit("a", str), ctx.sample("b"))
            await ctx.progress(2)
            both = await ctx.gather(ctx.step("work", work, 1), ctx.elicit("c", str))
            answers = []

            async def ask(name: str) -> None:
                answers.append(await ctx.elicit(name, str, key=name))

            async with anyio.create_task_group() as group:
                group.start_soon(ask, "d")
                group.start_soon(ask, "e")
            return f"{first.unwrap()} {message.text} {both[0]} {len(answers)}"
        finally:
            events.append("end")

    return server


def answer(key: str, question: dict[str, Any]) -> Any:
    return SAMPLE if question["method"] == "sampling/createMessage" else accept("x")


async def cancelled_after(wire: Driver, ticks: int) -> bool:
    """A whole call, which is cancelled after so many turns of the event loop. Returns whether it had ended before."""

    async def call() -> None:
        await wire.rounds("tool", answer, _meta={"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"})
        ended.append(True)
        everything.cancel_scope.cancel()

    ended: list[bool] = []
    wire.last = None
    async with anyio.create_task_group() as everything:
        everything.start_soon(call)
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        if wire.last is not None:
            wire.tell("notifications/cancelled", {"requestId": wire.last.request.id})
        while wire.last is not None and not wire.last.finished:
            await anyio.lowlevel.checkpoint()
        everything.cancel_scope.cancel()
    return bool(ended)


@pytest.mark.rule("R7", "R40", "R41", "R42", "R60")
@both_eras
async def test_cancelled_at_any_point_a_call_leaves_nothing(version: str) -> None:
    events: list[str] = []
    async with driver(everything(events), version) as wire:
        ticks = 0
        while True:
            before = len(wire.sent)
            ended = await cancelled_after(wire, ticks)
            await wire.idle()
            assert events.count("start") == events.count("end")
            while len(wire.session.stream):
                await wire.next()
            if ended:
                break
            sent = wire.sent[before:]
            questions = {m["id"] for m in sent if "method" in m and "id" in m}
            withdrawn = {m["params"]["requestId"] for m in sent if m.get("method") == "notifications/cancelled"}
            assert withdrawn <= questions
            assert not any("result" in m and m["result"].get("resultType") != "input_required" for m in sent)
            ticks += 1
        assert ticks > 10


@pytest.mark.rule("R42", "R57")
@pytest.mark.case("B16")
async def test_cancelling_a_call_withdraws_each_of_its_open_questions() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.gather(ctx.elicit("a", str), ctx.elicit("b", str))
        return "never"

    async with driver(server, LEGACY) as wire:
        exchange = wire.tool("tool")
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            questions = [await wire.next(), await wire.next()]
            wire.tell("notifications/cancelled", {"requestId": exchange.request.id})
        withdrawn = [await wire.next(), await wire.next()]
        assert [m["method"] for m in withdrawn] == ["notifications/cancelled"] * 2
        assert {m["params"]["requestId"] for m in withdrawn} == {q["id"] for q in questions}
        assert len(wire.session.stream) == 0
        wire.answer(questions[0], YES)  # it comes too late
        await wire.idle()


@pytest.mark.rule("R50")
@both_eras
async def test_a_handler_that_takes_too_long_is_ended(version: str) -> None:
    server = Server("test")

    @server.tool(timeout=0.01)
    async def tool(ctx: Context) -> str:
        ctx.step("slow", anyio.sleep_forever)
        await anyio.sleep_forever()
        return "never"

    async with driver(server, version) as wire:
        assert failed(await wire.call("tool")) == "the tool took longer than its limit of 0.01 s"
        await wire.idle()


@pytest.mark.rule("P13", "R50")
async def test_a_round_waits_for_its_steps_within_the_limit_of_the_tool() -> None:
    """Too late, it is no round at all: its step would run again without having been recorded."""
    server = Server("test")

    @server.tool(timeout=0.01)
    async def tool(ctx: Context) -> str:
        ctx.step("slow", anyio.sleep_forever)
        return repr(await ctx.elicit("sure?", bool))

    async with driver(server) as wire:
        assert failed(await wire.call("tool")) == "the tool took longer than its limit of 0.01 s"
        await wire.idle()


@pytest.mark.rule("R50")
@pytest.mark.case("B14")
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
@pytest.mark.parametrize(
    ("before", "after", "wanted"), [(0.3, 0.3, "done"), (0.3, 0.9, "took longer"), (0.9, 0.0, "done")]
)
async def test_the_limit_of_a_tool_does_not_count_the_time_of_the_person(
    before: float, after: float, wanted: str
) -> None:
    server = Server("test")

    @server.tool(timeout=1)
    async def tool(ctx: Context) -> str:
        question = ctx.elicit("sure?", bool)
        await anyio.sleep(before)
        await question
        await anyio.sleep(after)
        return "done"

    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            question = await wire.next()
            await anyio.sleep(1000)
            wire.answer(question, YES)
        assert wanted in str(await wire.next())


@pytest.mark.rule("R1", "R9", "R12")
@both_eras
async def test_a_thousand_asking_calls_at_once(version: str) -> None:
    server = Server("test", limits=Limits(in_flight=2000))

    @server.tool
    async def tool(ctx: Context, n: int) -> str:
        outcome = await ctx.elicit(f"{n}", str)
        return f"{n} {outcome.unwrap()}"

    async with driver(server, version) as wire:
        if wire.modern:
            replies: dict[int, Any] = {}

            async def one(n: int) -> None:
                exchange = wire.tool("tool", {"n": n})
                replies[n] = await wire.dispatcher(exchange)
                wire.session.peer.finish(exchange.request.id, exchange)

            async with anyio.create_task_group() as group:
                for n in range(1000):
                    group.start_soon(one, n)
            for n in range(1000):
                result = replies[n].result
                assert result.input_requests["elicit-1"].params.message == f"{n}"
            second = await wire.call(
                "tool",
                {"n": 7},
                requestState=replies[7].result.request_state,
                inputResponses={"elicit-1": accept("seven")},
            )
            assert text(second) == "7 seven"
        else:
            exchanges = [wire.tool("tool", {"n": n}) for n in range(1000)]
            results: dict[int, str] = {}
            async with anyio.create_task_group() as group:
                for exchange in exchanges:
                    group.start_soon(wire.serve, exchange)
                questions = [await wire.next() for _ in range(1000)]
                for message in reversed(questions):
                    wire.answer(message, accept(message["params"]["message"]))
                for _ in range(1000):
                    response = await wire.next()
                    results[response["id"]] = text(response)
            assert [results[e.request.id] for e in exchanges] == [f"{n} {n}" for n in range(1000)]
        await wire.idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@both_eras
async def test_a_call_leaves_no_cycles_for_the_collector(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context, ask: bool) -> str:
        await ctx.progress(1)
        return repr(await ctx.confirm("sure?")) if ask else "done"

    async with driver(server, version) as wire:

        async def calls(ask: bool) -> None:
            for _ in range(5):
                await wire.rounds("tool", lambda *_: YES, {"ask": ask}, _meta={"progressToken": 1})
            wire.last = None
            wire.sent.clear()

        for ask in (False, True):
            await calls(ask)
            gc.collect()
            gc.disable()
            try:
                await calls(ask)
                gc.set_debug(gc.DEBUG_SAVEALL)
                gc.collect()
                left = [thing for thing in gc.garbage if type(thing).__module__.startswith("backchannel")]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
            assert [type(thing).__name__ for thing in left] == []


@pytest.mark.rule("R28", "R12")
async def test_the_call_is_not_answered_before_its_question() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr((await ctx.elicit("sure?", bool)).unwrap())

    async with driver(server, LEGACY) as wire:
        exchange = wire.tool("tool")
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            question = await wire.next()
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert not len(wire.session.stream) and not exchange.finished
            wire.answer(question, YES)
        response = await wire.next()
        assert response["id"] == exchange.request.id and text(response) == "True"


async def test_an_unknown_tool_and_method() -> None:
    async with driver(Server("test")) as wire:
        assert (await wire.call("nothing"))["error"]["code"] == -32602
        reply = await wire.dispatcher(wire.exchange("prompts/list", {}))
        assert isinstance(reply, ErrorResponse) and reply.error.code == -32601
