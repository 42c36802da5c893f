"""Outbox: what is held back goes out in one piece, and what the channel does not take at once is written by a task."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from backchannel.protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from backchannel.server import outbox as module
from backchannel.server.outbox import Outbox
from backchannel.server.streams import HIGH_WATER

pytestmark = pytest.mark.anyio


class Channel:
    """Takes all at once, but for the first `slow` times."""

    def __init__(self, slow: int = 0):
        self.slow = slow
        self.pieces: list[list[Any]] = []
        self.flushing = 0
        self.room = anyio.Event()
        self.broken = False

    async def receive(self) -> Any:
        raise NotImplementedError

    def write(self, messages: list[bytes]) -> bool:
        assert not self.flushing, "what was written before is not out yet"
        self.pieces.append([json.loads(message).get("id") for message in messages])
        self.slow -= 1
        return self.slow < 0

    async def flush(self) -> None:
        self.flushing += 1
        await self.room.wait()
        if self.broken:
            raise anyio.BrokenResourceError
        self.flushing -= 1


def made(channel: Channel) -> tuple[Outbox, list[ErrorResponse]]:
    refused: list[ErrorResponse] = []
    return Outbox(channel, refused.append), refused


@contextlib.asynccontextmanager
async def written(outbox: Outbox) -> AsyncIterator[None]:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(outbox.run)
            await anyio.wait_all_tasks_blocked()
            yield
            outbox.close()


async def test_what_is_held_back_goes_out_in_one_piece_and_wakes_nobody() -> None:
    channel = Channel()
    outbox, _ = made(channel)
    async with written(outbox):
        outbox.held = True
        for id in range(3):
            outbox.append(Response(id, {}))
        await anyio.wait_all_tasks_blocked()
        assert channel.pieces == [] and len(outbox) == 3
        outbox.flush()
        assert channel.pieces == [[0, 1, 2]] and len(outbox) == 0
        outbox.append(Response(3, {}))  # held back no more
        await anyio.wait_all_tasks_blocked()
        assert channel.pieces == [[0, 1, 2], [3]]


async def test_release_leaves_it_to_the_task() -> None:
    channel = Channel()
    outbox, _ = made(channel)
    async with written(outbox):
        outbox.held = True
        outbox.append(Response(0, {}))
        outbox.release()
        assert channel.pieces == []
        await anyio.wait_all_tasks_blocked()
        assert channel.pieces == [[0]]


async def test_what_the_channel_does_not_take_is_waited_for_by_the_task() -> None:
    channel = Channel(slow=1)
    outbox, _ = made(channel)
    async with written(outbox):
        outbox.append(Response(0, {}))
        outbox.flush()
        outbox.append(Response(1, {}))
        outbox.flush()  # does not get in between
        await anyio.wait_all_tasks_blocked()
        assert channel.pieces == [[0]] and channel.flushing == 1 and len(outbox) == 1
        channel.room.set()
        await anyio.wait_all_tasks_blocked()
        assert channel.pieces == [[0], [1]]


async def test_all_is_written_before_the_end() -> None:
    channel = Channel(slow=1)
    outbox, _ = made(channel)
    async with written(outbox):
        outbox.append(Response(0, {}))
        await anyio.wait_all_tasks_blocked()
        outbox.append(Response(1, {}))
        channel.room.set()
    assert channel.pieces == [[0], [1]] and outbox.over


async def test_nobody_reads_any_more() -> None:
    channel = Channel(slow=1)
    outbox, _ = made(channel)
    channel.broken = True
    channel.room.set()
    outbox.append(Response(0, {}))
    with pytest.raises(anyio.BrokenResourceError):
        await outbox.run()


async def test_what_has_no_form_in_json_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    channel = Channel()
    outbox, refused = made(channel)
    for message in (Request(7, "ask", object()), Notification("tell", object()), Response(8, {})):
        outbox.append(message)
    outbox.flush()
    assert channel.pieces == [[8]]
    assert [(error.id, error.error.code) for error in refused] == [(7, -32603)]
    assert caplog.text.count("was not sent") == 2


async def test_a_piece_is_not_much_larger_than_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 100)
    channel = Channel()
    outbox, _ = made(channel)
    async with written(outbox):
        outbox.held = True
        for id in range(4):
            outbox.append(Response(id, "x" * 60))
        outbox.flush()
        assert channel.pieces == [[0, 1]]
        await anyio.wait_all_tasks_blocked()
        assert channel.pieces == [[0, 1], [2, 3]], "the task does the rest"


async def test_who_waits_for_room_gets_it_when_a_piece_is_out() -> None:
    channel = Channel()
    outbox, _ = made(channel)
    outbox.held = True
    for id in range(HIGH_WATER):
        outbox.append(Response(id, {}))
    drained: list[bool] = []

    async def drain() -> None:
        await outbox.drain()
        drained.append(True)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(drain)
            await anyio.wait_all_tasks_blocked()
            assert drained == []
            outbox.flush()
    assert drained == [True]
