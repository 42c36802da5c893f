"""A channel: its requests are served by whoever reads it, until one of them waits."""

import asyncio
import json
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Context, Server
from backchannel.nursery import current_task
from backchannel.protocol.jsonrpc import Malformed, Message, decode
from backchannel.server.channel import serve
from backchannel.server.dispatch import start

pytestmark = pytest.mark.anyio
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
word = ContextVar("word", default="none")
Json = dict[str, Any]


def call(id: int, name: str) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "_meta": META}}


def ping(id: int) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


class Channel:
    """Gives what is read at once, one piece after the other, and keeps what is written at once. Each piece comes when
    so much was answered as there were requests in those before."""

    def __init__(self, *pieces: list[Json]):
        self._pieces = list(pieces)
        self._due = 0
        self.written: list[list[Json]] = []

    @property
    def answers(self) -> list[Any]:
        """The text of each response, by its id."""
        found = [one for piece in self.written for one in piece]
        return [(one["id"], (one["result"].get("content") or [{}])[0].get("text")) for one in found]

    async def receive(self) -> list[Message | Malformed]:
        while sum(map(len, self.written)) < self._due:
            await anyio.lowlevel.checkpoint()
        if not self._pieces:
            raise anyio.EndOfStream
        piece = self._pieces.pop(0)
        self._due += len(piece)
        return [decode(json.dumps(message).encode()) for message in piece]

    def write(self, messages: list[bytes]) -> bool:
        self.written.append([json.loads(message) for message in messages])
        return True

    async def flush(self) -> None:
        raise NotImplementedError


async def served(server: Server, *pieces: list[Json]) -> Channel:
    channel = Channel(*pieces)
    with anyio.fail_after(10):
        async with start(server) as dispatcher:
            await serve(dispatcher, channel)
    return channel


async def test_what_waits_for_nothing_is_served_by_one_task_and_answered_in_one_piece() -> None:
    server, tasks = Server("s"), set[object]()

    @server.tool
    async def quick() -> str:
        tasks.add(current_task())
        return "done"

    channel = await served(server, [call(1, "quick"), call(2, "quick")], [call(3, "quick")])
    assert [[one["id"] for one in piece] for piece in channel.written] == [[1, 2], [3]]
    assert len(tasks) == 1


async def test_while_one_waits_others_are_read_and_served() -> None:
    server, opened = Server("s"), anyio.Event()

    @server.tool
    async def wait() -> str:
        await opened.wait()
        return "waited"

    @server.tool
    async def open() -> str:
        opened.set()
        return "opened"

    channel = await served(server, [call(1, "wait"), call(2, "wait"), call(3, "open")])
    assert channel.answers[0] == (3, "opened") and sorted(channel.answers[1:]) == [(1, "waited"), (2, "waited")]


async def test_calls_see_nothing_of_each_others_context() -> None:
    server = Server("s")

    @server.tool
    async def leave() -> str:
        before = word.get()
        word.set("left over")
        return before

    @server.tool
    async def wait() -> str:
        word.set("waiting")
        await anyio.lowlevel.checkpoint()
        return word.get()

    channel = await served(
        server, [call(id, name) for id, name in enumerate(["leave", "wait", "leave"])], [call(3, "leave")]
    )
    assert sorted(channel.answers) == [(0, "none"), (1, "waiting"), (2, "none"), (3, "none")]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_that_cancels_its_task_cancels_nothing_else(
    before: bool, waits: bool, anyio_backend_name: str
) -> None:
    if anyio_backend_name != "asyncio":
        return  # a task of trio cannot be cancelled, only a scope
    server = Server("s")

    @server.tool
    async def give_up() -> str:
        task = asyncio.current_task()
        assert task is not None
        if before:
            await anyio.lowlevel.checkpoint()
        task.cancel()
        if waits:
            await anyio.lowlevel.checkpoint()
        return "not really"

    @server.tool
    async def quick() -> str:
        await anyio.lowlevel.checkpoint()
        return "done"

    channel = Channel([call(1, "give_up"), call(2, "quick")], [call(3, "quick")])
    channel.written.append([])
    with anyio.fail_after(10):
        async with start(server) as dispatcher:
            await serve(dispatcher, channel)
    found = {one["id"]: one for piece in channel.written for one in piece}
    assert found.keys() == {1, 2, 3} and ("error" in found[1]) is waits
    assert all(found[id]["result"]["content"][0]["text"] == "done" for id in (2, 3))


class Slow(Channel):
    """Waits before it gives anything."""

    async def receive(self) -> list[Message | Malformed]:
        await anyio.lowlevel.checkpoint()
        return await super().receive()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_after_its_handler_stops_no_reading() -> None:
    server = Server("s")

    @server.tool
    async def leave_behind() -> str:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        return "done"

    channel = Slow([call(1, "leave_behind")], [call(2, "leave_behind"), call(3, "leave_behind")])
    with anyio.fail_after(10):
        async with start(server) as dispatcher:
            await serve(dispatcher, channel)
    assert channel.answers == [(1, "done"), (2, "done"), (3, "done")]


async def test_a_reply_waits_for_no_handler() -> None:
    server = Server("s")
    channel = Channel([ping(1), call(2, "look")])

    @server.tool
    async def look() -> str:
        return str(channel.answers)

    with anyio.fail_after(10):
        async with start(server) as dispatcher:
            await serve(dispatcher, channel)
    assert channel.answers == [(1, None), (2, "[(1, None)]")]


async def test_initialize_is_served_before_what_lies_behind_it_is_taken() -> None:
    server = Server("s")

    @server.middleware
    async def slowly(ctx: Context, call_next: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return await call_next(ctx)

    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    first: Json = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    second: Json = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    channel = await served(server, [first, second])
    assert [one["id"] for piece in channel.written for one in piece] == [1, 2]
    assert channel.written[-1][-1]["result"] == {"tools": []}


async def test_the_end_is_waited_for_by_nobody_who_was_told_to_stop() -> None:
    server, reading, ran = Server("s"), anyio.CancelScope(), list[str]()

    @server.tool
    async def stop() -> str:
        reading.cancel()
        for _ in range(10):  # in which the reader hears of it
            await anyio.lowlevel.checkpoint()
        return "stopped"

    @server.tool
    async def late() -> str:
        ran.append("late")
        return "too late"

    channel = Channel([call(1, "stop")], [call(2, "late")])
    with anyio.fail_after(10):
        async with start(server) as dispatcher:
            await serve(dispatcher, channel, reading=reading)
    assert channel.answers == [(1, "stopped")] and ran == []
