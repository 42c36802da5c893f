"""Steps: done once, seen alike live and on replay, recorded or not."""

import asyncio
import dataclasses
import datetime
import enum
import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel, Field

from backchannel import Context, JournalMismatch, RequestState, Server
from backchannel.errors import CallFinished, ConfigurationError, StepError
from backchannel.protocol.journal import STEP, Entry
from backchannel.server.question import Suspend
from backchannel.server.steps import StepRun
from tests.server.replay import MODERN, YES, asked, both_eras, driver, failed, retry, text

pytestmark = pytest.mark.anyio


class Receipt(BaseModel):
    total: int
    at: datetime.date = datetime.date(2026, 7, 28)


class Size(enum.Enum):
    SMALL = "s"


@dataclasses.dataclass
class Point:
    x: int
    y: tuple[int, int]


def model() -> Receipt:
    return Receipt(total=42)


def looser() -> Receipt:
    return {"total": "42"}  # type: ignore[return-value]


def an_enum() -> Size:
    return Size.SMALL


def a_dataclass() -> Point:
    return Point(1, (2, 3))


def a_list() -> list[Receipt]:
    return [Receipt(total=1)]


def nothing() -> None:
    return None


def annotated() -> Annotated[int, Field(gt=1), {"no": "hash"}]:
    return 2


def plain_tuple():  # type: ignore[no-untyped-def]
    return (1, 2)


def plain_model():  # type: ignore[no-untyped-def]
    return Receipt(total=7)


async def asynchronous() -> Receipt:
    await anyio.lowlevel.checkpoint()
    return Receipt(total=9)


def gives_awaitable() -> Awaitable[Receipt]:
    return asynchronous()


@functools.wraps(model)
def wrapper(*args: Any) -> Any:
    return model()


class Shop:
    def method(self) -> Receipt:
        return Receipt(total=3)

    async def __call__(self, total: int) -> Receipt:
        return Receipt(total=total)


def forward() -> "Receipt":
    return Receipt(total=5)


VALUES: list[tuple[Callable[..., Any], Any]] = [
    (model, Receipt(total=42)),
    (looser, Receipt(total=42)),
    (an_enum, Size.SMALL),
    (a_dataclass, Point(1, (2, 3))),
    (a_list, [Receipt(total=1)]),
    (nothing, None),
    (annotated, 2),
    (plain_tuple, [1, 2]),
    (plain_model, {"total": 7, "at": "2026-07-28"}),
    (lambda: {"a": {1: 2}}, {"a": {"1": 2}}),
    (asynchronous, Receipt(total=9)),
    (gives_awaitable, Receipt(total=9)),
    (wrapper, Receipt(total=42)),
    (functools.partial(functools.partial(model)), Receipt(total=42)),
    (Shop().method, Receipt(total=3)),
    (functools.partial(Shop(), total=4), Receipt(total=4)),
    (functools.partial(Receipt, total=6), Receipt(total=6)),
    (forward, Receipt(total=5)),
    (functools.partial(len, "abc"), 3),
]


@pytest.mark.rule("P5")
@both_eras
@pytest.mark.parametrize(("function", "wanted"), VALUES)
async def test_a_value_is_seen_alike_live_and_on_replay(
    function: Callable[..., Any], wanted: Any, version: str
) -> None:
    server, seen = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        seen.append(await ctx.step("step", function))
        await ctx.confirm("sure?")
        return "done"

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "done"
        await wire.idle()
    assert seen == [wanted] * (2 if version == MODERN else 1)
    assert {type(value) for value in seen} == {type(wanted)}


def not_json() -> anyio.Event:
    raise AssertionError


def wrong() -> Receipt:
    return {"total": "many"}  # type: ignore[return-value]


def raises() -> Receipt:
    raise KeyError("card")


async def raises_later() -> None:
    await anyio.lowlevel.checkpoint()
    raise OSError("no half \ud83d pairs")


FAILURES: list[tuple[Callable[..., Any], str]] = [
    (lambda: object(), "TypeError: the step 'step' returned an object, which JSON cannot carry; return an id"),
    (wrong, "ValidationError"),
    (raises, "KeyError: 'card'"),
    (raises_later, "OSError: no half ? pairs"),
]


@pytest.mark.rule("P5")
@both_eras
@pytest.mark.parametrize(("function", "wanted"), FAILURES)
async def test_a_failure_is_a_step_error_live_and_on_replay(
    function: Callable[..., Any], wanted: str, version: str
) -> None:
    server, seen, runs = Server("test"), [], []

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await ctx.step("step", counted(function, runs))
        except StepError as error:
            seen.append((type(error), error.kind, str(error)))
        await ctx.confirm("sure?")
        return "done"

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "done"
    assert len(runs) == 1
    assert len(seen) == (2 if version == MODERN else 1)
    assert len(set(seen)) == 1 and seen[0][2].startswith(wanted)


def counted(function: Callable[..., Any], runs: list[Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def count(*args: Any) -> Any:
        runs.append(function)
        return function(*args)

    return count


def test_what_cannot_be_recorded_is_refused_before_it_runs() -> None:
    with pytest.raises(ConfigurationError, match="not_json: the return annotation of a step cannot be recorded"):
        StepRun(Entry("step-1", STEP, "step", ""), not_json, (), {})


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    def lost() -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
        return None

    with pytest.raises(ConfigurationError, match="'Nowhere', which is not defined"):
        StepRun(Entry("step-1", STEP, "step", ""), lost, (), {})


@pytest.mark.rule("P13")
@pytest.mark.parametrize("how", ["ctx.gather", "task group", "made, not awaited", "sync"])
async def test_a_step_beside_a_question_is_done_once(how: str) -> None:
    """However its waiter ends."""
    await charge_once(how)


@pytest.mark.rule("P13")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_step_beside_a_question_is_done_once_on_asyncio() -> None:
    await charge_once("asyncio.gather")


async def charge_once(how: str) -> None:
    """A call over three rounds on two instances."""
    charged: list[int] = []

    async def charge(amount: int) -> int:
        charged.append(amount)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return amount

    def charge_in_a_thread(amount: int) -> int:
        charged.append(amount)
        return amount

    def instance() -> Server:
        server = Server("shop", state=RequestState(["k" * 32]))

        @server.tool
        async def tool(ctx: Context) -> str:
            step = ctx.step("charge", charge_in_a_thread if how == "sync" else charge, 42)
            question = ctx.elicit("sure?", bool)
            if how == "task group":
                results: dict[str, Any] = {}

                async def keep(name: str, what: Any) -> None:
                    results[name] = await what

                async with anyio.create_task_group() as group:
                    group.start_soon(keep, "step", step)
                    group.start_soon(keep, "sure", question)
                done, sure = results["step"], results["sure"]
            elif how == "asyncio.gather":
                done, sure = await asyncio.gather(step, question)
            elif how == "ctx.gather":
                done, sure = await ctx.gather(step, question)
            else:
                sure, done = await question, await step
            again = await ctx.confirm("again?")
            return f"{done} {sure.unwrap()} {again}"

        return server

    async with driver(instance()) as a, driver(instance()) as b:
        first = await a.call("tool")
        assert list(asked(first)) == ["elicit-2"]
        second = await b.call("tool", **retry(first, **{"elicit-2": YES}))
        assert text(await a.call("tool", **retry(second, **{"elicit-3": YES}))) == "42 True True"
        await a.idle()
        await b.idle()
    assert charged == [42]


@pytest.mark.case("A21")
async def test_work_before_questions_is_done_once_over_three_rounds_on_two_workers() -> None:
    made: list[str] = []
    seen: list[str] = []

    async def create_order() -> str:
        made.append(f"order-{len(made) + 1}")
        return made[-1]

    def instance() -> Server:
        server = Server("shop", state=RequestState(["k" * 32]))

        @server.tool
        async def order(ctx: Context) -> str:
            id = await ctx.step("create", create_order)
            seen.append(id)
            await ctx.confirm("a?")
            await ctx.confirm("b?")
            return str(id)

        return server

    async with driver(instance()) as a, driver(instance()) as b:
        first = await a.call("order")
        second = await b.call("order", **retry(first, **{"elicit-2": YES}))
        assert text(await a.call("order", **retry(second, **{"elicit-3": YES}))) == "order-1"
    assert seen == ["order-1"] * 3


@pytest.mark.rule("P12")
async def test_a_step_that_is_cancelled_is_not_recorded_and_runs_again() -> None:
    runs: list[int] = []
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        started = anyio.Event()

        async def work() -> str:
            runs.append(ctx.round)
            started.set()
            if ctx.round == 1:
                await anyio.sleep_forever()
            return "worked"

        async def cancel() -> None:
            await started.wait()
            if ctx.round == 1:
                scope.cancel()

        value = "cancelled"
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                step = ctx.step("work", work)
                group.start_soon(cancel)
                value = await step
        await ctx.confirm("sure?")
        return str(value)

    async with driver(server) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "worked"
        await wire.idle()
    assert runs == [1, 2]


class Odd(BaseException):
    """Not an ordinary exception."""


@pytest.mark.rule("P12")
@both_eras
async def test_what_is_no_ordinary_exception_goes_to_the_waiter_unrecorded(version: str) -> None:
    """And harms no other task of the server."""
    server, runs = Server("test"), []

    def work() -> str:
        runs.append(1)
        if len(runs) == 1:
            raise Odd
        return "worked"

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return str(await ctx.step("work", work))
        except Odd:
            await ctx.confirm("sure?")
            return "odd"

    async with driver(server, version) as wire:
        other = anyio.Event()
        wire.dispatcher.nursery.start(other.wait)
        assert text(await wire.rounds("tool", lambda *_: YES)) == ("worked" if version == MODERN else "odd")
        assert wire.dispatcher.nursery.running == 1
        other.set()
        await wire.idle()
    assert len(runs) == (2 if version == MODERN else 1)


@pytest.mark.rule("P12")
async def test_a_step_that_asks_suspends_and_runs_again() -> None:
    server, runs = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        async def work() -> bool:
            runs.append(1)
            return await ctx.confirm("sure?", key="inner")

        return repr(await ctx.step("work", work))

    async with driver(server) as wire:
        first = await wire.call("tool")
        assert list(asked(first)) == ["inner"]
        assert text(await wire.call("tool", **retry(first, inner=YES))) == "True"
        await wire.idle()
    assert len(runs) == 2


@both_eras
async def test_what_a_step_tells_is_sent_whenever_it_runs(version: str) -> None:
    """A line that the handler uses too is no reason to be silent."""
    server = Server("test")

    async def say(ctx: Context, data: str) -> None:
        await ctx.log("info", data)

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.step("work", say, ctx, "step")
        await say(ctx, "one")
        await ctx.confirm("sure?")
        await say(ctx, "two")
        return "done"

    async with driver(server, version) as wire:
        wire.session.log_level = "info"
        meta = {"_meta": {"io.modelcontextprotocol/logLevel": "info"}}
        assert text(await wire.rounds("tool", lambda *_: YES, **meta)) == "done"
        assert wire.logged == ["step", "one", "two"]


@both_eras
async def test_a_step_ends_with_its_call(version: str) -> None:
    server, ended = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        started = anyio.Event()

        async def work() -> None:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(True)

        ctx.step("work", work)
        await started.wait()
        raise ValueError

    async with driver(server, version) as wire:
        failed(await wire.call("tool"))
        await wire.idle()
    assert ended == [True]


@both_eras
async def test_a_step_whose_waiter_is_cancelled_before_it_began_does_not_run(version: str) -> None:
    server, runs = Server("test"), []

    async def work() -> None:
        runs.append(1)

    @server.tool
    async def tool(ctx: Context) -> str:
        question = ctx.step("work", work)
        question.close()
        return "done"

    async with driver(server, version) as wire:
        assert text(await wire.call("tool")) == "done"
        await wire.idle()
    assert runs == []


@both_eras
async def test_a_sync_tool_has_steps_too(version: str) -> None:
    server, runs = Server("test"), []

    @server.tool
    def tool(ctx: Context) -> str:
        value = ctx.step("work", counted(model, runs)).wait()
        ctx.confirm("sure?").wait()
        return str(value.total)

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "42"
    assert len(runs) == 1


@pytest.mark.rule("P6")
async def test_a_step_of_another_name_is_a_mismatch() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.step(f"step of round {ctx.round}", model)
        return repr(await ctx.confirm("sure?"))

    async with driver(server) as wire:
        first = await wire.call("tool")
        error = (await wire.call("tool", **retry(first, **{"elicit-2": YES})))["error"]
        assert error["code"] == JournalMismatch.code
        assert "step 'step of round 1'" in error["message"] and "step 'step of round 2'" in error["message"]


async def test_a_context_without_a_call_does_the_work() -> None:
    ctx = Context()
    assert await ctx.step("make", model) == Receipt(total=42)
    with pytest.raises(StepError, match="card"):
        await ctx.step("fail", raises)
    with pytest.raises(Suspend):
        await ctx.step("odd", suspend)


def suspend() -> None:
    raise Suspend


async def test_a_run_that_was_cancelled_says_so() -> None:
    run = StepRun(Entry("step-1", STEP, "charge", ""), anyio.sleep_forever, (), {})
    run.cancel()
    await run.run()
    await run.wait()
    assert not run.done
    with pytest.raises(CallFinished, match="'charge' was cancelled"):
        run.result()
