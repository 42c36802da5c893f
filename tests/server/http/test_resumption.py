"""A session's streams are logs: a client that lost its connection reads on (2025-11-25 basic/transports, Resumability
and Redelivery)."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Context, Limits, Server
from backchannel.protocol.jsonrpc import Notification
from tests.server.http.wire import ASKS, FORMS, LEGACY, Asgi, Event, Response, accept, call, text, until, wire

pytestmark = pytest.mark.anyio


class Counter:
    """A server with a call that reports and waits as the test wants."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("counter", **options)
        self.steps = [anyio.Event() for _ in range(10)]
        self.ended = anyio.Event()

        @self.server.tool
        async def count(ctx: Context, to: int) -> str:
            for number in range(to):
                await self.steps[number].wait()
                await ctx.progress(number + 1)
            await self.steps[to].wait()
            self.ended.set()
            return "counted"

        @self.server.tool
        async def ask(ctx: Context) -> str:
            return (await ctx.elicit("Who?", str)).unwrap()

        @self.server.tool
        async def big(ctx: Context, size: int) -> str:
            await ctx.progress(1)
            return "x" * size


async def events(response: Response, count: int) -> list[tuple[str | None, Any]]:
    """The next events that have a message: id, and progress or the whole message."""
    found: list[tuple[str | None, Any]] = []
    while len(found) < count:
        event = await response.event()
        assert event is not None
        if event.message is not None:
            found.append((event.id, event.message.get("params", {}).get("progress", event.message)))
    return found


@pytest.mark.rule("R81", "R90", "R52")
@pytest.mark.case("C03")
async def test_a_call_outlives_its_connection_and_every_message_comes_once() -> None:
    counter = Counter()
    async with wire(counter.server) as there:
        session = await there.session()
        counter.steps[0].set()
        response = await session.post(call("count", id="c", token="t", to=3))
        [(first, one)] = await events(response, 1)
        response.drop()
        counter.steps[1].set()
        counter.steps[2].set()
        counter.steps[3].set()
        await counter.ended.wait()
        assert first == "1-1"
        resumed = await session.http("GET", last_event_id=first)
        got = await events(resumed, 3)
        assert [id for id, _ in got] == ["1-2", "1-3", "1-4"]
        assert [one, *[value for _, value in got[:2]]] == [1, 2, 3]
        assert text(got[2][1]) == "counted"
        assert await resumed.event() is None


@pytest.mark.rule("R52", "R90")
async def test_a_call_that_still_runs_is_followed_to_its_end() -> None:
    counter = Counter()
    async with wire(counter.server) as there:
        session = await there.session()
        counter.steps[0].set()
        response = await session.post(call("count", token="t", to=2))
        [(first, _)] = await events(response, 1)
        response.drop()
        for attempt in range(3):
            resumed = await session.http("GET", last_event_id=first)
            if attempt < 2:
                resumed.drop()
        counter.steps[1].set()
        assert await events(resumed, 1) == [("1-2", 2)]
        counter.steps[2].set()
        assert text(await resumed.message()) == "counted"


@pytest.mark.rule("R52", "R25")
async def test_a_question_is_asked_again_on_the_new_connection_and_answered() -> None:
    async with wire(Counter().server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("ask"))
        first = await response.event()
        assert first is not None and first.id == "1-0" and first.message is None
        question = await response.message()
        response.drop()
        resumed = await session.http("GET", last_event_id="1-0")
        assert await resumed.message() == question
        await session.answer(question, accept(value="Ada"))
        assert text(await resumed.message()) == "Ada"


async def test_a_client_that_comes_back_before_its_old_connection_is_missed_takes_over() -> None:
    counter = Counter()
    async with wire(counter.server) as there:
        session = await there.session()
        counter.steps[0].set()
        old = await session.post(call("count", token="t", to=2))
        await events(old, 1)
        new = await session.http("GET", last_event_id="1-1")
        assert await old.event() == Event(retry=1000)
        assert await old.event() is None
        counter.steps[1].set()
        counter.steps[2].set()
        assert await events(new, 1) == [("1-2", 2)]
        assert text(await new.message()) == "counted"


@pytest.mark.rule("R90")
async def test_a_response_that_was_sent_into_the_void_can_be_read_again() -> None:
    counter = Counter()
    async with wire(counter.server) as there:
        session = await there.session()
        counter.steps[0].set()
        counter.steps[1].set()
        response = await session.post(call("count", token="t", to=1))
        got = await events(response, 2)
        resumed = await session.http("GET", last_event_id=str(got[0][0]))
        assert await events(resumed, 1) == got[1:]
        assert await resumed.event() is None


async def test_a_big_response_that_was_sent_is_not_kept() -> None:
    async with wire(Counter().server) as there:
        session = await there.session()
        response = await session.post(call("big", token="t", size=100_000))
        assert len(text((await response.messages())[-1])) == 100_000
        assert (await session.http("GET", last_event_id="1-1")).status == 400


@pytest.mark.rule("R81")
@pytest.mark.parametrize(("version", "primed"), [(LEGACY, True), ("2025-06-18", False), ("2025-03-26", False)])
async def test_streams_begin_with_a_cursor_where_the_version_knows_it(version: str, primed: bool) -> None:
    counter = Counter(limits=Limits(keep_alive=0.01))
    async with wire(counter.server) as there:
        session = await there.session(version=version)
        for number, response in (
            (0, await session.http("GET")),
            (1, await session.post(call("count", id=1, to=0))),
            (2, await session.post(call("count", id=2, to=0))),
        ):
            event = await response.event()
            assert event is not None
            assert (event.id, event.message, event.comment) == (
                (f"{number}-0", None, False) if primed else (None, None, True)
            )
        counter.steps[0].set()


@pytest.mark.rule("R81")
async def test_no_two_events_of_a_session_have_the_same_id() -> None:
    counter = Counter()
    for step in counter.steps:
        step.set()
    async with wire(counter.server) as there:
        session = await there.session()
        [object_] = there.app.sessions._sessions.values()
        ids: list[str | None] = []
        for number in range(3):
            standing = await session.http("GET")
            object_.stream.append(Notification("notifications/progress", {"progress": number}))
            while (event := await standing.event()) is not None:
                ids.append(event.id)
                if event.message is not None:
                    break
            standing.drop()
            await until(lambda: not object_.readings)
            response = await session.post(call("count", id=number, token="t", to=2))
            while (event := await response.event()) is not None:
                ids.append(event.id)
            again = await session.http("GET", last_event_id=str(ids[-1]))
            assert await again.event() is None
        assert len(ids) == len(set(ids)) == 16
        assert all(ids)


@pytest.mark.rule("R82")
@pytest.mark.parametrize("version", [LEGACY, "2025-03-26"])
async def test_the_headers_of_the_standing_stream_come_at_once(version: str) -> None:
    async with wire(Counter().server) as there:
        session = await there.session(version=version)
        for cursor in ({}, {"last_event_id": "0-0"}):
            response = await session.http("GET", **cursor)  # which reads the headers, while nothing is sent
            assert response.status == 200 and response.streams


@pytest.mark.rule("R52")
async def test_a_silent_call_whose_stream_was_primed_can_be_resumed() -> None:
    counter = Counter(limits=Limits(keep_alive=0.01))
    async with wire(counter.server) as there:
        session = await there.session()
        response = await session.post(call("count", to=0))
        event = await response.event()
        assert event is not None and event.id == "1-0"
        response.drop()
        counter.steps[0].set()
        await counter.ended.wait()
        resumed = await session.http("GET", last_event_id="1-0")
        assert text(await resumed.message()) == "counted"


@pytest.mark.rule("R81", "R86", "R90")
async def test_the_standing_stream_is_resumed_too() -> None:
    async with wire(Counter().server) as there:
        session = await there.session()
        [object_] = there.app.sessions._sessions.values()

        def push(number: int) -> None:
            object_.stream.append(Notification("notifications/progress", {"progress": number}))

        push(1)
        first = await session.http("GET")
        assert await events(first, 1) == [("0-1", 1)]
        push(2)
        assert await events(first, 1) == [("0-2", 2)]
        first.drop()
        await until(lambda: not object_.readings)
        push(3)
        second = await session.http("GET", last_event_id="0-1")
        assert await events(second, 2) == [("0-2", 2), ("0-3", 3)]


@pytest.mark.rule("R85", "R90")
@pytest.mark.case("F07")
async def test_a_cursor_of_another_session_gives_nothing_of_it() -> None:
    counter = Counter()
    for step in counter.steps:
        step.set()
    async with wire(counter.server) as there:
        mine, theirs = await there.session(), await there.session()
        for session, count in ((mine, 3), (theirs, 1)):
            response = await session.post(call("count", id="x", token=session.id, to=count))
            await response.messages()
        for cursor in ("1-3", "9-1", "1-99999999999999999999", "nonsense", "0-7"):
            response = await theirs.http("GET", last_event_id=cursor)
            assert response.status == 400, cursor
            assert mine.id not in (await response.body()).decode()
        resumed = await theirs.http("GET", last_event_id="1-0")
        progress, last = await resumed.messages()
        assert progress["params"]["progressToken"] == theirs.id
        assert text(last) == "counted"


@pytest.mark.rule("R52")
async def test_a_client_that_leaves_before_the_stream_has_begun_cannot_be_asked() -> None:
    server = Server("late")
    go, ended = anyio.Event(), anyio.Event()
    errors: list[BaseException] = []

    @server.tool
    async def late(ctx: Context) -> str:
        await go.wait()
        try:
            await ctx.elicit("Who?", str)
        except Exception as error:
            errors.append(error)
        ended.set()
        return "done"

    async with wire(server) as there:
        session = await there.session(FORMS)
        headers = {"mcp-session-id": session.id, "mcp-protocol-version": LEGACY}
        one = Asgi(there.app, call("late"), headers)
        [object_] = there.app.sessions._sessions.values()
        await until(lambda: object_.peer.serving == 1)
        await one.leave()
        assert object_.peer.serving == 1, "disconnection is not cancellation"
        go.set()
        await ended.wait()
        await one.done
        assert [type(error).__name__ for error in errors] == ["NoBackChannel"]
        assert one.sent == []
        assert object_.peer.serving == object_.peer.pending == 0


async def test_a_client_that_does_not_read_its_stream_fills_no_memory() -> None:
    server = Server("fast")
    sent = 0
    ended = anyio.Event()

    @server.tool
    async def run(ctx: Context) -> str:
        nonlocal sent
        for number in range(10_000):
            await ctx.progress(number + 1, message="x" * 1000)
            sent = number + 1
        ended.set()
        return "ran"

    async with wire(server) as there:
        session = await there.session()
        response = await session.post(call("run", token="t"))
        await response.message()
        response.connection.writer.transport.pause_reading()
        [object_] = there.app.sessions._sessions.values()
        stream = (await object_.find("1-0")).stream
        stuck = 0
        while stuck < 200:  # nothing has moved for so many turns
            before = sent
            await anyio.lowlevel.checkpoint()
            stuck = stuck + 1 if sent == before else 0
        assert sent < 9000 and len(stream) <= 256
        response.drop()
        await ended.wait()
        assert len(stream) <= 10_001


async def test_a_modern_call_ends_when_its_client_leaves_without_reading() -> None:
    server = Server("fast")
    ended = anyio.Event()
    outcome: list[str] = []

    @server.tool
    async def run(ctx: Context) -> str:
        try:
            for number in range(1_000_000):
                await ctx.progress(number + 1, message="x" * 1000)
        except BaseException as error:
            outcome.append(type(error).__name__)
            raise
        finally:
            ended.set()
        return "ran"

    async with wire(server) as there:
        response = await there.modern(call("run", token="t"))
        await response.message()
        response.connection.writer.transport.pause_reading()
        response.drop()
        await ended.wait()
        assert outcome == ["CancelledError"]
