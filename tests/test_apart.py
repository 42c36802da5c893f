"""A coroutine in its caller's task: it runs at once, has a context of its own, and its first wait is told."""

from contextvars import ContextVar, copy_context

import anyio
import anyio.lowlevel
import pytest

from backchannel.apart import apart
from backchannel.nursery import current_task

pytestmark = pytest.mark.anyio
word = ContextVar("word", default="none")


async def test_what_waits_for_nothing_is_done_at_once() -> None:
    async def work() -> object:
        return current_task()

    waited: list[str] = []
    assert await apart(copy_context(), work(), lambda: waited.append("waited")) is current_task()
    assert waited == []


async def test_the_first_wait_is_told_before_it_begins_and_once() -> None:
    said: list[str] = []

    async def work() -> str:
        said.append("begins")
        await anyio.lowlevel.checkpoint()
        said.append("goes on")
        await anyio.lowlevel.checkpoint()
        return "done"

    assert await apart(copy_context(), work(), lambda: said.append("waits")) == "done"
    assert said == ["begins", "waits", "goes on"]


async def test_context_variables_are_its_own() -> None:
    word.set("outer")

    async def work() -> list[str]:
        seen = [word.get()]
        token = word.set("inner")
        await anyio.lowlevel.checkpoint()
        seen.append(word.get())
        word.reset(token)
        word.set("left over")
        return seen

    def tell() -> None:
        word.set("told")

    assert await apart(copy_context(), work(), tell) == ["outer", "inner"]
    assert word.get() == "told"


@pytest.mark.parametrize("waits", [False, True])
async def test_what_it_raises_comes_out(waits: bool) -> None:
    async def work() -> None:
        if waits:
            await anyio.lowlevel.checkpoint()
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        await apart(copy_context(), work(), lambda: None)


@pytest.mark.parametrize("answers", [False, True])
async def test_a_cancellation_is_for_it(answers: bool) -> None:
    said: list[str] = []

    async def work() -> str:
        try:
            with anyio.CancelScope() as inner:
                said.append("waits")
                if answers:
                    inner.cancel()
                await anyio.sleep_forever()
            return "answered"
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                said.append("cleaned up")

    result = ""
    with anyio.CancelScope() as scope:
        result = await apart(copy_context(), work(), lambda: None if answers else scope.cancel())
    assert said == ["waits", "cleaned up"]
    assert (result, scope.cancelled_caught) == (("answered", False) if answers else ("", True))
