"""P2: one task makes the questions, unless they have keys."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from backchannel import Context, LocalProtocolError
from backchannel.server.question import Question
from tests.replay.wires import LIVE, REPLAYED, ROUNDS, asyncio_only, every_wire, obliging, play

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P2")]

MAKE: dict[str, Callable[[Context, str | None], Question[Any]]] = {
    "elicit": lambda ctx, key: ctx.elicit("sure?", bool, key=key),
    "confirm": lambda ctx, key: ctx.confirm("sure?", key=key),
    "sample": lambda ctx, key: ctx.sample("sure", key=key),
    "roots": lambda ctx, key: ctx.roots(key=key),
    "step": lambda ctx, key: ctx.step("sure", lambda: True, key=key),
    "in an if_unable": lambda ctx, key: ctx.confirm("sure?", if_unable="proceed", key=key),
}


@every_wire
@pytest.mark.parametrize("kind", MAKE)
async def test_the_error_comes_where_it_is_made_and_names_the_ways_out(how: str, kind: str) -> None:
    errors: list[str] = []

    async def tool(ctx: Context) -> str:
        async def child() -> None:
            try:
                MAKE[kind](ctx, None)  # it is not awaited: making it is what fails
            except LocalProtocolError as error:
                errors.append(str(error))

        async with anyio.create_task_group() as group:
            group.start_soon(child)
        return "went on"

    assert (await play(how, tool)).end == "went on"
    (error,) = errors
    assert "key=" in error and "asyncio.timeout()" in error and "asyncio.wait_for(helper())" in error


@every_wire
@pytest.mark.parametrize("kind", ["elicit", "step"])
async def test_what_the_handler_made_may_be_awaited_anywhere(how: str, kind: str) -> None:
    async def tool(ctx: Context) -> str:
        made, answers = MAKE[kind](ctx, None), []

        async def child() -> None:
            answers.append(await made)

        async with anyio.create_task_group() as outer, anyio.create_task_group() as inner:
            inner.start_soon(child)
            outer.start_soon(anyio.lowlevel.checkpoint)
        return repr(answers)

    live = await play(LIVE, tool)
    assert (await play(how, tool)).end == live.end and "True" in live.end


@every_wire
async def test_with_keys_it_does_not_matter_which_task_comes_first(how: str) -> None:
    """In each round the tasks run in another order, and each makes more than one."""
    turns: list[list[str]] = []

    async def tool(ctx: Context) -> str:
        found: dict[str, Any] = {}
        turn: list[str] = []
        turns.append(turn)

        async def child(name: str, delay: int) -> None:
            for _ in range(delay):
                await anyio.lowlevel.checkpoint()
            turn.append(name)
            asking = ctx.elicit(name, str, key=f"ask {name}")
            step = ctx.step("length", len, name, key=f"step {name}")
            found[name] = (await asking).unwrap(), await step
            found[name] += ((await ctx.elicit(f"{name} again", str, key=f"again {name}")).unwrap(),)

        names = ["one", "three", "seven"]
        async with anyio.create_task_group() as group:
            for place, name in enumerate(names if len(turns) % 2 else reversed(names)):
                group.start_soon(child, name, 4 * place)
        return repr(sorted(found.items()))

    expected = sorted((name, (f"<{name}>", len(name), f"<{name} again>")) for name in ("one", "three", "seven"))
    seen = await play(how, tool)
    assert seen.end == repr(expected)
    if how != LIVE:
        assert turns[0][0] != turns[1][0]


@every_wire
async def test_keys_and_places_do_not_disturb_each_other(how: str) -> None:
    async def tool(ctx: Context) -> str:
        said = []

        async def child() -> None:
            for n in range(ctx.round):  # as many as there were rounds: they take no places
                ctx.step("noise", lambda n=n: n, key=f"noise {n}")
            said.append((await ctx.elicit("keyed", str, key="elicit-2")).unwrap())

        async with anyio.create_task_group() as group:
            group.start_soon(child)
        for name in "ab":
            said.append((await ctx.elicit(name, str)).unwrap())
        return " ".join(said)

    with pytest.warns(RuntimeWarning, match="never awaited"):
        assert (await play(how, tool)).end == "<keyed> <a> <b>"


@every_wire
async def test_the_thread_of_a_sync_tool_is_its_task(how: str) -> None:
    def tool(ctx: Context) -> str:
        def helper(name: str) -> str:
            return str(ctx.elicit(name, str).wait().unwrap())

        return helper("a") + helper("b") + str(ctx.step("s", lambda: 1).wait())

    seen = await play(how, tool)
    assert seen.end == "<a><b>1" and seen.questions == ["a", "b"]


@asyncio_only
@pytest.mark.parametrize("how", [REPLAYED, ROUNDS])
async def test_a_thread_of_an_async_tool_is_another_task(how: str) -> None:
    """On trio it speaks for the task that waits for it, which is the handler's."""
    errors: list[str] = []

    async def tool(ctx: Context) -> str:
        def work() -> Any:
            try:
                ctx.elicit("a", str)
            except LocalProtocolError as error:
                errors.append(str(error))
            return ctx.elicit("b", str, key="b").wait().unwrap()

        return str(await anyio.to_thread.run_sync(work))

    assert (await play(how, tool)).end == "<b>"
    assert errors and all("key=" in error for error in errors)


@every_wire
@asyncio_only
@pytest.mark.parametrize("key", [None, "mine"])
async def test_wait_for_with_a_helper(how: str, key: str | None) -> None:
    """On Python 3.11 it starts a task, on later ones it does not."""
    starts_a_task = "ensure_future" in inspect.getsource(asyncio.wait_for)

    async def tool(ctx: Context) -> str:
        async def helper() -> str:
            return str((await ctx.elicit("a", str, key=key)).unwrap())

        try:
            return await asyncio.wait_for(helper(), 1000)
        except LocalProtocolError as error:
            return f"refused: {error}"

    seen = await play(how, tool, obliging)
    assert seen.end.startswith("refused") if starts_a_task and key is None else seen.end == "<a>"
