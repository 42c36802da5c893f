"""EventStream: a log of messages, and the one connection that reads it."""

import anyio
import anyio.lowlevel
import pytest

from backchannel.protocol.jsonrpc import Message, Notification, Response, encode
from backchannel.server import streams
from backchannel.server.streams import HIGH_BYTES, HIGH_WATER, KEPT, EventStream


def message(number: int) -> Notification:
    return Notification("n", number)


def numbers(messages: list[Message | None]) -> list[int]:
    return [message.params for message in messages if isinstance(message, Notification)]


async def read(stream: EventStream, count: int, reader: object = None) -> list[int]:
    return numbers([await stream.next(reader) for _ in range(count)])


@pytest.mark.anyio
async def test_messages_come_in_order_and_then_the_end() -> None:
    stream = EventStream()
    for number in range(5):
        assert stream.append(message(number))
    stream.close()
    assert await read(stream, 5) == [0, 1, 2, 3, 4]
    assert await stream.next() is None
    assert await stream.next() is None


@pytest.mark.anyio
async def test_a_reader_waits_for_what_comes() -> None:
    stream = EventStream()
    got: list[int] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:

            async def run() -> None:
                while isinstance(one := await stream.next(), Notification):
                    got.append(one.params)

            group.start_soon(run)
            for number in range(3):
                await anyio.wait_all_tasks_blocked()
                stream.append(message(number))
            stream.close()
    assert got == [0, 1, 2]


def test_the_first_message_is_announced_once() -> None:
    seen: list[str] = []
    stream = EventStream(lambda: seen.append("first"))
    stream.append(message(1))
    stream.append(message(2))
    assert seen == ["first"]


def test_a_full_or_closed_stream_refuses_and_counts() -> None:
    stream = EventStream(limit=2)
    assert [stream.append(message(number)) for number in range(3)] == [True, True, False]
    assert stream.append(Response(1, {})), "a response always finds room"
    assert len(stream) == 3
    stream.close()
    assert not stream.append(Response(2, {}))
    assert stream.dropped == 2


def test_a_stream_for_nothing_but_a_response() -> None:
    stream = EventStream(limit=0)
    assert not stream.append(message(1))
    assert not stream.started
    assert stream.append(Response(1, {}))


@pytest.mark.anyio
async def test_drain_waits_until_the_reader_has_caught_up() -> None:
    stream = EventStream()
    for number in range(HIGH_WATER):
        stream.append(message(number))
    drained = False

    async def drain() -> None:
        nonlocal drained
        await stream.drain()
        drained = True

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(drain)
            await anyio.wait_all_tasks_blocked()
            assert not drained
            await stream.next()
            await anyio.wait_all_tasks_blocked()
            assert drained


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["close", "leave"])
async def test_drain_waits_for_nobody(end: str) -> None:
    stream = EventStream()
    reader = stream.take()
    for number in range(HIGH_WATER):
        stream.append(message(number))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(stream.drain)
            await anyio.wait_all_tasks_blocked()
            if end == "close":
                stream.close()
            else:
                stream.leave(reader)
        await stream.drain()


@pytest.mark.anyio
async def test_a_writer_that_nobody_reads_lets_others_run_and_can_be_cancelled() -> None:
    stream = EventStream(limit=0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(other)
            for number in range(1000):
                stream.append(message(number))
                await stream.drain()
            assert turns > 10
            group.cancel_scope.cancel()
            with pytest.raises(anyio.get_cancelled_exc_class()):
                await stream.drain()


@pytest.mark.anyio
async def test_what_was_read_is_forgotten() -> None:
    stream = EventStream()
    for number in range(3):
        stream.append(message(number))
    await read(stream, 2)
    assert stream.position == 2
    assert stream.last == 3
    reader = stream.take(after=0)
    assert await read(stream, 1, reader) == [2]


@pytest.mark.anyio
@pytest.mark.rule("R90")
@pytest.mark.parametrize(("after", "expected"), [(None, [4, 5]), (4, [4, 5]), (2, [2, 3, 4, 5]), (0, [1, 2, 3, 4, 5])])
async def test_a_reader_that_comes_back_gets_what_it_missed(after: int | None, expected: list[int]) -> None:
    stream = EventStream(keep=3)
    for number in range(6):
        stream.append(message(number))
    reader = stream.take()
    assert await read(stream, 4, reader) == [0, 1, 2, 3]
    stream.leave(reader)
    reader = stream.take(after)
    stream.close()
    assert await read(stream, len(expected), reader) == expected
    assert await stream.next(reader) is None


@pytest.mark.anyio
@pytest.mark.rule("R86")
async def test_a_new_reader_replaces_the_old_one() -> None:
    stream = EventStream()
    old = stream.take()
    ended = anyio.Event()

    async def run() -> None:
        assert await stream.next(old) is None
        stream.leave(old)  # its clean-up does not touch the new one
        ended.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            new = stream.take()
            stream.append(message(1))
            await ended.wait()
        assert await read(stream, 1, new) == [1]
        for number in range(HIGH_WATER):
            stream.append(message(number))
        with anyio.move_on_after(0) as scope:
            await stream.drain()
        assert scope.cancelled_caught, "somebody still reads"


@pytest.mark.anyio
async def test_a_reader_that_was_woken_and_replaced_takes_nothing_along() -> None:
    stream = EventStream()
    old = stream.take()
    got: list[Message | None] = []

    async def run() -> None:
        got.append(await stream.next(old))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            stream.append(message(1))
            new = stream.take()
        assert got == [None]
        assert await read(stream, 1, new) == [1]


@pytest.mark.anyio
async def test_a_cancelled_reader_loses_nothing() -> None:
    stream = EventStream()

    async def run(scope: anyio.CancelScope) -> None:
        with scope:
            await stream.next()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(run, scope)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            stream.append(message(1))
        assert await read(stream, 1) == [1]


def polled() -> EventStream:
    return EventStream(keep=8, polled=True)


@pytest.mark.anyio
async def test_a_reader_that_is_dismissed_reads_what_there_is_and_stops() -> None:
    stream = polled()
    reader = stream.take()
    stream.append(message(0))
    stream.dismiss(2.5)
    stream.append(message(1))
    assert await read(stream, 2, reader) == [0]
    assert await stream.next(reader) is None
    assert not stream.over and stream.retry == 2.5
    stream.leave(reader)
    stream.close()
    assert await read(stream, 2, stream.take(1)) == [1]
    assert stream.over


@pytest.mark.anyio
async def test_a_reader_that_waits_is_dismissed_at_once() -> None:
    stream = polled()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(stream.next, stream.take())
            await anyio.wait_all_tasks_blocked()
            stream.dismiss()


@pytest.mark.anyio
async def test_a_reader_is_started_to_be_dismissed_with_what_there_was() -> None:
    readers: list[object] = []
    stream = EventStream(lambda: readers.append(None), keep=8, polled=True)
    stream.dismiss()
    assert len(readers) == 1
    stream.append(message(0))
    first = stream.take()
    assert await stream.next(first) is None
    assert await read(stream, 1, stream.take(0)) == [0]


@pytest.mark.anyio
async def test_who_takes_over_is_not_dismissed() -> None:
    stream = polled()
    stream.take()
    stream.dismiss()
    stream.append(message(0))
    assert await read(stream, 1, stream.take()) == [0]


@pytest.mark.anyio
@pytest.mark.parametrize("why", ["nobody comes back", "nobody is there", "closed"])
async def test_dismissing_does_nothing_where(why: str) -> None:
    stream = EventStream(keep=8, polled=why != "nobody comes back")
    reader = stream.take()
    if why == "nobody is there":
        stream.leave(reader)
    elif why == "closed":
        stream.close()
    stream.dismiss(9)
    if why == "nobody is there":
        reader = stream.take()
    stream.append(message(0))
    assert await read(stream, 1, reader) == ([] if why == "closed" else [0])
    assert stream.retry != 9


@pytest.mark.parametrize("retry", [-1, float("inf"), float("nan")])
def test_a_reader_comes_back_in_a_time_that_can_be(retry: float) -> None:
    with pytest.raises(ValueError, match="retry"):
        EventStream().dismiss(retry)


@pytest.mark.anyio
async def test_what_is_kept_has_a_bound_in_bytes_and_is_at_least_the_last() -> None:
    stream = EventStream(keep=100)
    for size in (10, KEPT // 2, KEPT // 2, KEPT * 2, 20, 30):
        stream.append(Response(1, "x" * size))
    reader, kept = stream.take(), list[list[int]]()
    for _ in range(6):
        await stream.next(reader)
        kept.append([len(message.result) for message in stream._log][: stream._read])  # type: ignore[union-attr]
    assert [len(sizes) for sizes in kept] == [1, 2, 1, 1, 1, 2]
    reader = stream.take(0)
    assert [len((await stream.next(reader)).result) for _ in range(2)] == [20, 30]  # type: ignore[union-attr]


@pytest.mark.anyio
async def test_what_lies_unread_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ROOM", 1000)
    stream = EventStream(keep=10)
    reader = stream.take()
    for _ in range(2):
        assert stream.append(Notification("n", "x" * 2000))  # a single one always has room
        assert not stream.append(Notification("n", ""))
        assert stream.append(Response(1, "x" * 2000))
        for _ in range(2):
            await stream.next(reader)
    stream.take(2)  # the reader missed two
    assert not stream.append(Notification("n", ""))
    assert stream.dropped == 3


@pytest.mark.anyio
async def test_a_writer_of_large_messages_waits_for_their_reader() -> None:
    stream = EventStream()
    reader = stream.take()
    written = list[int]()

    async def write() -> None:
        for number in range(20):
            assert stream.append(Notification("n", "x" * (HIGH_BYTES // 2)))
            written.append(number)
            await stream.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        for number in range(20):
            await stream.next(reader)
            await anyio.lowlevel.checkpoint()
            assert len(written) - number <= 3


def test_what_is_there_is_read_without_waiting() -> None:
    stream = EventStream()
    assert stream.read() is None
    stream.append(message(1))
    assert numbers([stream.read(object()), stream.read(), stream.read()]) == [1]


def test_the_newest_message_is_written_once() -> None:
    stream = EventStream(keep=2)
    first, second = message(1), message(2)
    stream.append(first)
    stream.append(second)
    assert stream.line(first) == b""
    stream.append(second)
    assert stream.line(second) == encode(second) and stream.line(second) == b""
