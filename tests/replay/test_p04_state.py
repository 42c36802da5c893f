"""P4: suspension is a state. Whatever a handler makes of the exception, the round ends with its questions, and the line
that swallowed it is named."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from backchannel import CallFinished, Context, Elicit, InputRequired, Server, ToolError
from backchannel.server.question import Suspend, caller
from tests.replay.wires import (
    LIVE,
    REPLAYED,
    ROUNDS,
    STORED,
    WIRES,
    asyncio_only,
    call,
    instances,
    obliging,
    play,
    trio_only,
)

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P4")]
replaying = pytest.mark.parametrize("how", [how for how in WIRES if how != LIVE])
lines: list[int] = []
effects: list[str] = []


async def bare(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    except:  # noqa: E722
        return "swallowed"


async def base_and_return(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    except BaseException:
        return "swallowed"


async def base_and_raise(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    except BaseException:
        raise ToolError("swallowed") from None


async def base_and_return_questions(ctx: Context) -> str | InputRequired:
    try:
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    except BaseException:
        return InputRequired({"other": Elicit("other", str)}, state="swallowed")


async def base_and_finished(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    except BaseException:
        raise CallFinished("swallowed") from None


async def finally_and_return(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        said = str((await ctx.elicit("a", str)).unwrap())
    finally:
        return locals().get("said", "swallowed")  # noqa: B012


async def finally_and_raise(ctx: Context) -> str:
    said = ""
    try:
        lines[:] = [caller()[1] + 1]
        said = str((await ctx.elicit("a", str)).unwrap())
        return said
    finally:
        if not said:
            raise ValueError("swallowed")


async def suppressed(ctx: Context) -> str:
    with contextlib.suppress(BaseException):
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    return "swallowed"


async def an_exit_that_swallows(ctx: Context) -> str:
    @contextlib.asynccontextmanager
    async def careless() -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            pass

    async with careless():
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    return "swallowed"


async def a_group(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    except BaseException as error:
        raise BaseExceptionGroup("swallowed", [error, ValueError(), KeyboardError()]) from None


class KeyboardError(BaseException):
    """Something of the author's."""


async def a_star(ctx: Context) -> str:
    said = []

    async def child(question: Any) -> None:
        said.append((await question).unwrap())

    try:
        async with anyio.create_task_group() as group:
            lines[:] = [caller()[1] + 1]
            group.start_soon(child, ctx.elicit("a", str))
    except* BaseException:
        said.append("swallowed")
    return " ".join(said)


async def a_child(ctx: Context) -> str:
    said = []

    async def child(question: Any) -> None:
        try:
            said.append((await question).unwrap())
        except BaseException:
            said.append("swallowed")

    async with anyio.create_task_group() as group:
        lines[:] = [caller()[1] + 1]
        group.start_soon(child, ctx.elicit("a", str))
    return " ".join(said)


async def a_helper(ctx: Context) -> str:
    async def helper() -> str:
        try:
            lines[:] = [caller()[1] + 1]
            return str((await ctx.elicit("a", str)).unwrap())
        except BaseException:
            return "swallowed"

    return await helper()


async def a_thread(ctx: Context) -> str:
    lines[:] = [caller()[1] + 1]
    question = ctx.elicit("a", str)

    def work() -> str:
        try:
            return str(question.wait().unwrap())
        except BaseException:
            return "swallowed"

    return await anyio.to_thread.run_sync(work)


def its_own_thread(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        return str(ctx.elicit("a", str).wait().unwrap())
    except BaseException:
        return "swallowed"


def its_own_thread_from_finally(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        said = str(ctx.elicit("a", str).wait().unwrap())
    finally:
        return locals().get("said", "swallowed")  # noqa: B012


async def gathered(ctx: Context) -> str:
    lines[:] = [caller()[1] + 1]
    question = ctx.elicit("a", str)
    (answer,) = await asyncio.gather(question, return_exceptions=True)
    return str(getattr(answer, "value", "swallowed"))


async def waited_for(ctx: Context) -> str:
    lines[:] = [caller()[1] + 1]
    task = asyncio.create_task(ctx.elicit("a", str))
    await asyncio.wait([task])
    return "swallowed" if task.exception() else str(task.result().unwrap())


async def in_an_asyncio_group(ctx: Context) -> str:
    said = []
    try:
        async with asyncio.TaskGroup() as group:
            lines[:] = [caller()[1] + 1]
            said.append(group.create_task(ctx.elicit("a", str)))
    except* BaseException:
        said.clear()
    return str(said[0].result().unwrap()) if said else "swallowed"


async def as_a_cancellation(ctx: Context) -> str:
    try:
        lines[:] = [caller()[1] + 1]
        return str((await ctx.elicit("a", str)).unwrap())
    except BaseException:
        raise asyncio.CancelledError from None


async def in_a_trio_nursery(ctx: Context) -> str:
    import trio

    said = []

    async def child(question: Any) -> None:
        said.append((await question).unwrap())

    try:
        async with trio.open_nursery() as nursery:
            lines[:] = [caller()[1] + 1]
            nursery.start_soon(child, ctx.elicit("a", str))
    except* BaseException:
        said.append("swallowed")
    return " ".join(said)


ANYWHERE = [
    bare,
    base_and_return,
    base_and_raise,
    base_and_return_questions,
    base_and_finished,
    finally_and_return,
    finally_and_raise,
    suppressed,
    an_exit_that_swallows,
    a_group,
    a_star,
    a_child,
    a_helper,
    a_thread,
    its_own_thread,
    its_own_thread_from_finally,
]
ON_ASYNCIO = [gathered, waited_for, in_an_asyncio_group, as_a_cancellation]
HOLDS_IT = {a_group}  # what comes out holds the suspension: nobody swallowed it


async def discarded(handler: Any, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """What the handler makes of it does not count, a WARNING names the line, and the answer comes in the next round."""
    lines.clear()
    with caplog.at_level(logging.WARNING):
        seen = await play(how, handler)
    assert seen.end == "<a>" and seen.questions == ["a"]
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    if handler in HOLDS_IT:
        assert told == []
        return
    (one,) = told
    assert one.startswith(f"{__file__}:{lines[0]}: the handler ")
    assert "that was discarded" in one and "Exception instead of BaseException" in one


@replaying
@pytest.mark.parametrize("handler", ANYWHERE)
async def test_whatever_is_made_of_it_the_question_is_asked(
    handler: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    await discarded(handler, how, caplog)


@replaying
@asyncio_only
@pytest.mark.parametrize("handler", ON_ASYNCIO)
async def test_whatever_is_made_of_it_on_asyncio(handler: Any, how: str, caplog: pytest.LogCaptureFixture) -> None:
    await discarded(handler, how, caplog)


@replaying
@trio_only
async def test_whatever_is_made_of_it_on_trio(how: str, caplog: pytest.LogCaptureFixture) -> None:
    await discarded(in_a_trio_nursery, how, caplog)


@replaying
@pytest.mark.filterwarnings("ignore:a question or step was made:RuntimeWarning")
async def test_after_it_nothing_is_asked_told_or_done(how: str) -> None:
    """Neither at once nor when what was made before is awaited."""
    effects.clear()
    outcomes: list[str] = []

    async def tool(ctx: Context) -> str:
        before = ctx.elicit("before", str, key="before")
        started = ctx.step("before", lambda: effects.append("before"))
        for make in (
            lambda: ctx.elicit("a", str),
            lambda: ctx.elicit("b", str),
            lambda: ctx.elicit("keyed", str, key="k"),
            lambda: ctx.sample("c"),
            lambda: ctx.roots(),
            lambda: ctx.confirm("d?", if_unable="proceed"),
            lambda: ctx.step("late", lambda: effects.append("late")),
            lambda: ctx.step("keyed late", lambda: effects.append("late"), key="late"),
            lambda: ctx.progress(5),
            lambda: ctx.log("error", "late"),
            lambda: ctx.gather(before, started),
        ):
            try:
                await make()
                outcomes.append("came through")
            except Suspend:
                outcomes.append("suspended")
        return "swallowed"

    server = Server("test")
    server.add_tool(tool)
    async with instances(server, how) as wires:
        wire = wires[0]
        if wire.modern:
            response = await wire.call("tool", _meta={"progressToken": 1})
            assert set(response["result"]["inputRequests"]) == {"before", "elicit-2"}
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(wire.serve, wire.tool("tool", _meta={"progressToken": 1}))
                asked = [await wire.next(), await wire.next()]
                group.cancel_scope.cancel()
            assert [question["params"]["message"] for question in asked] == ["before", "a"]
        assert wire.told == []
    assert outcomes == ["suspended"] * 11 and effects == ["before"]


@pytest.mark.parametrize("how", [REPLAYED, ROUNDS, STORED])
async def test_a_second_swallowing_in_a_later_round_is_named_too(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def tool(ctx: Context) -> str:
        said = []
        for name in "ab":
            try:
                said.append((await ctx.elicit(name, str)).unwrap())
            except BaseException:
                said.append("swallowed")
        return " ".join(said)

    seen = await play(how, tool)
    assert seen.end == "<a> <b>" and seen.questions == ["a", "b"]
    assert len([one for one in caplog.records if "was discarded" in one.getMessage()]) == 2


@pytest.mark.parametrize("how", [ROUNDS])
@pytest.mark.case("A11")
async def test_middleware_is_outside_of_it(how: str) -> None:
    """It gets the round as a result. A failure of its own is answered as one."""
    server, seen = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        return str((await ctx.elicit("a", str)).unwrap())

    @server.middleware
    async def look(ctx: Context, call_next: Any) -> Any:
        try:
            result = await call_next(ctx)
        except BaseException as error:
            seen.append(repr(error))
            raise
        seen.append(type(result).__name__)
        return result

    async with instances(server, how) as wires:
        assert (await call(wires, obliging)).end == "<a>"
    assert seen == ["InputRequiredResult", "CallToolResult"]
