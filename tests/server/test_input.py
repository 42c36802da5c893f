"""Input: a descriptor that stays registered, and is read when somebody waits for more."""

import asyncio
import os
import sys
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from backchannel.nursery import on_asyncio
from backchannel.server.input import Input

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="pipes that can be waited for")]


class Pipe:
    """A pipe whose reader wants lines."""

    def __init__(self) -> None:
        self.descriptor, self.end = os.pipe()
        self.got: list[bytes] = []
        self.input = Input(self.descriptor, self._read)

    def _read(self) -> bool:
        self.got.append(os.read(self.descriptor, 100))
        return self.got[-1][-1:] in (b"\n", b"")

    def write(self, data: bytes) -> None:
        os.write(self.end, data)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.input.close()
    os.close(pipe.descriptor)
    os.close(pipe.end)


async def more(pipe: Pipe) -> bytes:
    """What comes next, though it may take several reads."""
    before = len(pipe.got)
    with anyio.fail_after(10):
        while not b"".join(pipe.got[before:]).endswith(b"\n"):
            await pipe.input.more()
    return b"".join(pipe.got[before:])


async def test_each_wait_ends_with_what_came(pipe: Pipe) -> None:
    for line in (b"one\n", b"two\n"):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, pipe.write, line)
            assert await more(pipe) == line


async def test_who_waits_goes_on_before_anything_else_does(pipe: Pipe) -> None:
    if not on_asyncio():
        pytest.skip("a turn of the event loop of asyncio")
    loop, order = asyncio.get_running_loop(), list[str]()
    tasks: list[object] = [asyncio.current_task()]

    def read() -> bool:
        loop.call_soon(order.append, "the next turn")
        return pipe._read()

    input = Input(pipe.descriptor, read)
    pipe.write(b"one\n")
    await input.more()
    order.append("the task")
    tasks.append(asyncio.current_task())
    await anyio.lowlevel.checkpoint()
    input.close()
    assert order == ["the task", "the next turn"]
    assert tasks[0] is tasks[1]


async def test_what_else_waits_for_the_same_goes_on_too(pipe: Pipe) -> None:
    if not on_asyncio():
        pytest.skip("a future of asyncio")
    wait = asyncio.ensure_future(pipe.input.more())
    pipe.write(b"one\n")
    await asyncio.gather(asyncio.wait([wait]), asyncio.wait_for(asyncio.shield(wait), 10))
    assert pipe.got == [b"one\n"]


async def test_a_part_is_not_enough(pipe: Pipe) -> None:
    async def write_the_rest() -> None:
        while not pipe.got:
            await anyio.lowlevel.checkpoint()
        pipe.write(b"line\n")

    pipe.write(b"one ")
    async with anyio.create_task_group() as group:
        group.start_soon(write_the_rest)
        assert await more(pipe) == b"one line\n"
    assert pipe.got == [b"one ", b"line\n"]


async def test_what_comes_while_nobody_waits_stays_where_it_is(pipe: Pipe) -> None:
    pipe.write(b"one\n")
    assert await more(pipe) == b"one\n"
    for line in (b"two\n", b"three\n"):
        pipe.write(line)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
    assert pipe.got == [b"one\n"]
    assert await more(pipe) == b"two\nthree\n"


async def test_a_wait_that_was_cancelled_takes_nothing_away(pipe: Pipe) -> None:
    with anyio.move_on_after(0):
        await pipe.input.more()
    pipe.write(b"one\n")
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert pipe.got == []
    assert await more(pipe) == b"one\n"


async def test_nothing_is_read_once_it_is_closed(pipe: Pipe) -> None:
    pipe.write(b"one\n")
    assert await more(pipe) == b"one\n"
    pipe.input.close()
    pipe.write(b"two\n")
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert pipe.got == [b"one\n"]
