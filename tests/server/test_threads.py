"""Worker threads: who waits for an answer keeps nobody from running."""

import functools
import threading
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from backchannel import Context, Limits, Server
from backchannel.server import threads as module
from backchannel.server.threads import Threads, seat_here
from tests.server.replay import LEGACY, YES, driver, text

pytestmark = pytest.mark.anyio


def serving() -> Server:
    server = Server("s", limits=Limits(threads=2))

    @server.tool
    def ask(ctx: Context) -> str:
        return f"{ctx.confirm('sure?').wait()}"

    @server.tool
    def plain() -> str:
        return "done"

    return server


async def test_tools_that_wait_for_an_answer_do_not_stop_the_others() -> None:
    async with driver(serving(), LEGACY) as client, anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(client.serve, client.tool("ask"))
        questions = [await client.until(lambda message: "method" in message) for _ in range(5)]
        pool = client.dispatcher.threads
        while pool.waiting < 5:
            await anyio.lowlevel.checkpoint()
        assert pool.seats.borrowed_tokens == 0
        assert text(await client.call("plain")) == "done"
        for question in questions:
            client.answer(question, YES)
        assert [text(await client.next()) for _ in questions] == ["True"] * 5
        assert pool.waiting == 0 and pool.seats.borrowed_tokens == 0


async def test_a_cancelled_call_gives_its_seat_back_once() -> None:
    async with driver(serving(), LEGACY) as client, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(client.serve, client.tool("ask"))
            await client.until(lambda message: message.get("method") == "elicitation/create")
            assert client.last is not None
            client.last.cancel()
        pool = client.dispatcher.threads
        while pool.waiting or pool.seats.borrowed_tokens:
            await anyio.lowlevel.checkpoint()
        assert text(await client.call("plain")) == "done"
        assert pool.seats.borrowed_tokens == 0


class Held:
    """A pool, and functions in it that wait for `go`."""

    def __init__(self, most: int) -> None:
        self.pool = Threads(most)
        self.go = anyio.Event()
        self.begun: list[int] = []
        self.ended: list[int] = []

    def work(self, number: int) -> None:
        self.begun.append(number)
        seat = seat_here()
        assert seat is not None
        anyio.from_thread.run(seat.lend, self.go.wait)
        self.ended.append(number)

    async def start(self, group: Any, number: int) -> None:
        group.start_soon(self.pool.run, functools.partial(self.work, number))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()


async def test_those_that_wait_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    held = Held(1)
    async with anyio.create_task_group() as group:
        for number in range(3):
            await held.start(group, number)
            while number not in held.begun:
                await anyio.lowlevel.checkpoint()
        await held.start(group, 3)
        assert held.pool.waiting == 2 and held.pool.seats.borrowed_tokens == 1 and 3 not in held.begun
        held.go.set()
    assert sorted(held.ended) == [0, 1, 2, 3] and held.pool.seats.borrowed_tokens == 0


async def test_a_thread_serves_one_call_after_the_other_and_is_let_go_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Threads(2)
    first = await pool.run(threading.current_thread)
    assert await pool.run(threading.current_thread) is first and pool._nursery.running == 1
    await pool.close()
    monkeypatch.setattr(module, "IDLE", 0.001)
    pool = Threads(2)
    for _ in range(3):
        await pool.run(threading.current_thread)
        with anyio.fail_after(10):
            while pool._nursery.running:
                await anyio.lowlevel.checkpoint()
        assert pool._idle == []


async def test_a_thread_that_is_given_something_as_it_goes_stays() -> None:
    pool = Threads(2)
    first = await pool.run(threading.current_thread)
    (worker,) = pool._idle

    def late() -> None:
        pool._soon(pool._unused, worker)  # as if it had just waited for too long

    await pool.run(late)
    with anyio.fail_after(10):
        assert await pool.run(threading.current_thread) is first
    await pool.close()


async def test_where_there_can_be_no_more_threads_nobody_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none_left(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    pool = Threads(2)
    with monkeypatch.context() as patch:
        patch.setattr(anyio.to_thread, "run_sync", none_left)
        with anyio.fail_after(10), pytest.raises(RuntimeError, match="can't start"):
            await pool.run(threading.current_thread)
    assert pool.seats.borrowed_tokens == 0
    await pool.run(threading.current_thread)
    await pool.close()


async def test_a_seat_belongs_to_its_thread_and_to_nothing_that_it_starts() -> None:
    seen: list[Any] = []

    def work() -> None:
        seen.append(seat_here())
        other = threading.Thread(target=lambda: seen.append(seat_here()))
        other.start()
        other.join()
        seen.append(anyio.from_thread.run_sync(seat_here))

    await Threads(1).run(work)
    assert [seat is not None for seat in seen] == [True, False, False] and seat_here() is None


async def test_a_job_in_the_background_leaves_steps_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.steps.JOBS", 1)
    limiter = anyio.to_thread.current_default_thread_limiter()
    go = threading.Event()
    server = Server("s")

    @server.tool
    async def tool(ctx: Context) -> str:
        for number in range(3):
            ctx.background(f"job {number}", go.wait)
        return await ctx.step("work", lambda: f"{limiter.borrowed_tokens}")

    try:
        async with driver(server, LEGACY) as client:
            assert text(await client.call("tool")) == "1"  # the step's own
            go.set()
    finally:
        go.set()
