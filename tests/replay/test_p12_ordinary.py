"""P12: a step records what ordinary exceptions there are, and nothing else."""

import asyncio
from typing import Any

import anyio
import pytest

from backchannel import Context, StepError
from backchannel.server.question import Suspend
from tests.replay.wires import LIVE, WIRES, asyncio_only, every_wire, play

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P12")]
replaying = pytest.mark.parametrize("how", [how for how in WIRES if how != LIVE])


class Odd(BaseException):
    """Not an ordinary exception."""


ORDINARY = [
    ValueError("a"),
    TimeoutError("late"),
    StopAsyncIteration(),
    OSError(5, "io"),
    ExceptionGroup("g", [KeyError()]),
]
OTHERS = [Odd("a"), GeneratorExit(), BaseExceptionGroup("g", [Odd()]), Suspend()]


@every_wire
@pytest.mark.parametrize("error", ORDINARY, ids=repr)
async def test_an_ordinary_failure_is_recorded(how: str, error: Exception) -> None:
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        async def work() -> None:
            runs.append(1)
            raise error

        try:
            await ctx.step("work", work)
        except StepError as failed:
            await ctx.confirm("and?")
            return f"{failed.kind}: {failed.text}"
        return "never"

    assert (await play(how, tool)).end == f"{type(error).__name__}: {error}"
    assert runs == [1]


@replaying
@pytest.mark.parametrize("error", OTHERS, ids=repr)
async def test_anything_else_goes_through_unrecorded(how: str, error: BaseException) -> None:
    """The step is done again in the next round."""
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        async def work() -> str:
            runs.append(1)
            if len(runs) == 1:
                raise error
            return "worked"

        try:
            return str(await ctx.step("work", work))
        except type(error):
            return str(await ctx.confirm("and?"))

    assert (await play(how, tool)).end == "worked"
    assert runs == [1, 1]


@replaying
async def test_a_step_whose_time_is_over_is_not_recorded(how: str) -> None:
    """Nor is one that the handler gave up, which goes on nowhere."""
    runs: list[str] = []

    async def tool(ctx: Context) -> str:
        async def work(name: str) -> str:
            runs.append(name)
            if runs.count(name) == 1:
                await anyio.sleep_forever()
            return name

        said = []
        with anyio.move_on_after(0.001):
            said.append(await ctx.step("slow", work, "slow"))
        given_up = ctx.step("given up", work, "given up")
        await anyio.lowlevel.checkpoint()
        given_up.close()
        await ctx.confirm("and?")
        return " ".join(said)

    assert (await play(how, tool)).end == "slow"
    assert runs.count("slow") == 2


@replaying
@asyncio_only
async def test_a_cancellation_of_its_own_making(how: str) -> None:
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        async def work() -> str:
            runs.append(1)
            if len(runs) == 1:
                raise asyncio.CancelledError
            return "worked"

        try:
            return str(await ctx.step("work", work))
        except Exception as error:
            await ctx.confirm("and?")
            return type(error).__name__

    seen: Any = await play(how, tool)
    assert seen.end == "worked" and runs == [1, 1]
