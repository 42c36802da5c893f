"""P3: suspension is an exception that no ordinary handler catches, and that teaches."""

import asyncio
from typing import Any

import anyio
import pytest

from backchannel import Context
from backchannel.errors import BackchannelError
from backchannel.server.question import Suspend
from tests.replay.wires import LIVE, asyncio_only, every_wire, play

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P3")]


def test_it_is_in_no_tree_and_says_what_not_to_do() -> None:
    assert Suspend.__mro__[1:] == (BaseException, object)
    for other in (Exception, BackchannelError, asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
        assert not issubclass(Suspend, other)
    for words in ("goes on in its next round", "BaseException", "finally"):
        assert words in str(Suspend())


@every_wire
async def test_what_an_author_should_write_does_not_see_it(how: str, caplog: pytest.LogCaptureFixture) -> None:
    caught: list[str] = []

    async def tool(ctx: Context) -> str:
        cancelled: Any = anyio.get_cancelled_exc_class()
        try:
            try:
                try:
                    answer = (await ctx.elicit("a", str)).unwrap()
                except Exception as error:
                    caught.append(repr(error))
                    return "Exception"
            except (TimeoutError, GeneratorExit, KeyboardInterrupt) as error:
                caught.append(repr(error))
                return "others"
        except cancelled as error:
            caught.append(repr(error))
            raise
        return str(answer)

    assert (await play(how, tool)).end == "<a>"
    assert caught == [] and not caplog.records


@every_wire
@asyncio_only
async def test_in_tasks_of_the_event_loop_too(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """No task is left of which asyncio says that nobody came to see what it raised."""
    import gc

    async def tool(ctx: Context) -> str:
        tasks = [asyncio.create_task(ctx.elicit(name, str)) for name in "abc"]
        try:
            answers = [(await task).unwrap() for task in tasks]
        except Exception as error:
            return repr(error)
        return " ".join(answers)

    seen = await play(how, tool)
    assert seen.end == "<a> <b> <c>"
    if how != LIVE:
        gc.collect()
    assert not caplog.records
