"""A handler frees the connection of its call, and the client comes back for the rest (2025-11-25 basic/transports,
Sending Messages, Resumability and Redelivery)."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import AskTimeout, CallFinished, Client, Context, Limits, Server
from backchannel.server.http.session import HttpSession
from tests.server.http.away import Away, told
from tests.server.http.test_resumption import events
from tests.server.http.wire import (
    ASKS,
    FORMS,
    LEGACY,
    Asgi,
    Event,
    Response,
    Wire,
    accept,
    call,
    notification,
    serving,
    text,
    until,
    wire,
)

pytestmark = pytest.mark.anyio


class Worker:
    """A server whose calls free the connection, and go on when the test says so."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("worker", **options)
        self.go, self.ended = anyio.Event(), anyio.Event()
        self.runs = 0
        self.errors: list[BaseException] = []
        self.contexts: list[Context] = []

        @self.server.tool
        async def work(ctx: Context, before: int = 1, after: int = 1, retry: float = 0.5, size: int = 4) -> str:
            self.runs += 1
            self.contexts.append(ctx)
            try:
                for number in range(before):
                    await ctx.progress(number + 1, message="x" * size)
                await ctx.disconnect(retry=retry)
                await self.go.wait()
                for number in range(before, before + after):
                    await ctx.progress(number + 1)
                return "done"
            except BaseException as error:
                self.errors.append(error)
                raise
            finally:
                self.ended.set()

        @self.server.tool
        async def ask(ctx: Context, first: bool) -> str:
            try:
                question = ctx.elicit("Who?", str) if first else None
                await ctx.disconnect()
                await self.go.wait()
                return (await (question if question is not None else ctx.elicit("Who?", str))).unwrap()
            except BaseException as error:
                self.errors.append(error)
                raise
            finally:
                self.ended.set()

        @self.server.tool
        async def quick(ctx: Context) -> str:
            await ctx.progress(1)
            return "quick"

        @self.server.tool
        def thread(ctx: Context) -> str:
            ctx.disconnect(retry=0.25).wait()
            return "threaded"


async def all_of(response: Response) -> list[Event]:
    """The events to the end of the connection."""
    found = []
    while (event := await response.event()) is not None:
        found.append(event)
    return found


def the_session(there: Wire) -> HttpSession:
    [session] = there.app.sessions._sessions.values()
    return session


@pytest.mark.rule("R52", "R81", "R90")
@pytest.mark.case("C03")
async def test_a_handler_frees_its_connection_and_the_rest_comes_when_the_client_does() -> None:
    worker = Worker()
    async with wire(worker.server) as there:
        session = await there.session()
        response = await session.post(call("work", id="w", token="t", before=2, after=2))
        first = await all_of(response)
        assert [event.id for event in first] == ["1-0", "1-1", "1-2", None]
        assert first[0].message is None
        assert first[-1] == Event(retry=500)
        assert the_session(there).busy and not worker.ended.is_set()
        worker.go.set()
        await worker.ended.wait()
        resumed = await session.http("GET", last_event_id="1-2")
        got = await events(resumed, 3)
        assert [id for id, _ in got] == ["1-3", "1-4", "1-5"]
        assert [value for _, value in got[:2]] == [3, 4]
        assert got[2][1]["id"] == "w" and text(got[2][1]) == "done"
        assert await resumed.event() is None
        assert worker.runs == 1


@pytest.mark.rule("R52")
async def test_the_connection_is_free_for_other_requests() -> None:
    worker = Worker()
    async with wire(worker.server) as there:
        session = await there.session()
        response = await session.post(call("work", token="t"))
        await all_of(response)
        headers = {"mcp-session-id": session.id, "mcp-protocol-version": LEGACY, "accept": "text/event-stream"}
        await response.connection.send("GET", "/mcp", {**headers, "last-event-id": "1-1"})
        resumed = await response.connection.head()
        worker.go.set()
        assert await events(resumed, 1) == [("1-2", 2)]
        assert text(await resumed.message()) == "done"


@pytest.mark.rule("R81", "R90")
async def test_a_call_that_has_sent_nothing_gives_its_client_a_cursor_first() -> None:
    worker = Worker()
    worker.go.set()
    async with wire(worker.server) as there:
        session = await there.session()
        response = await session.post(call("work", before=0, after=0))
        assert await all_of(response) == [Event(id="1-0"), Event(retry=500)]
        resumed = await session.http("GET", last_event_id="1-0")
        assert text(await resumed.message()) == "done"


async def test_a_thread_frees_its_connection() -> None:
    async with wire(Worker().server) as there:
        session = await there.session()
        assert await all_of(await session.post(call("thread"))) == [Event(id="1-0"), Event(retry=250)]
        resumed = await session.http("GET", last_event_id="1-0")
        assert text(await resumed.message()) == "threaded"


@pytest.mark.rule("R90")
async def test_the_connection_that_came_back_is_freed_too() -> None:
    server, steps = Server("steps"), [anyio.Event() for _ in range(3)]

    @server.tool
    async def poll(ctx: Context) -> str:
        for number, step in enumerate(steps):
            await ctx.disconnect(retry=number)
            await step.wait()
            await ctx.progress(number + 1)
        return "polled"

    async with wire(server) as there:
        session = await there.session()
        response, seen = await session.post(call("poll", token="t")), []
        for number, step in enumerate(steps):
            *_, last = await all_of(response)
            assert last == Event(retry=number * 1000)
            response = await session.http("GET", last_event_id=f"1-{number}")
            step.set()
            seen += [value for _, value in await events(response, 1)]
        assert seen == [1, 2, 3]
        assert text(await response.message()) == "polled"


@asynccontextmanager
async def in_process(server: Server, version: str) -> AsyncIterator[Any]:
    async with Client(server, version=version) as client:

        async def go(tool: str) -> str:
            return (await client.call_tool(tool)).text

        yield go


@asynccontextmanager
async def over_http(server: Server, version: str, accept: str = "", **options: Any) -> AsyncIterator[Any]:
    async with wire(server, **options) as there:
        if version == "2026-07-28":
            post: Any = there.modern
        elif options:
            post = there.post
        else:
            post = (await there.session(version=version)).post

        async def go(tool: str) -> str:
            response = await post(call(tool), **({"accept": accept} if accept else {}))
            assert not response.streams
            return text(await response.json())

        yield go


@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param(lambda server: in_process(server, LEGACY), id="in-process, legacy"),
        pytest.param(lambda server: in_process(server, "2026-07-28"), id="in-process, modern"),
        pytest.param(lambda server: over_http(server, "2026-07-28"), id="HTTP, modern"),
        pytest.param(lambda server: over_http(server, "2025-06-18"), id="HTTP, 2025-06-18"),
        pytest.param(lambda server: over_http(server, "2025-03-26"), id="HTTP, 2025-03-26"),
        pytest.param(lambda server: over_http(server, LEGACY, sessions=False), id="HTTP, no session"),
        pytest.param(lambda server: over_http(server, LEGACY, "application/json"), id="HTTP, JSON"),
    ],
)
async def test_elsewhere_nothing_happens(elsewhere: Any) -> None:
    worker = Worker()
    worker.go.set()
    with anyio.fail_after(30):
        async with elsewhere(worker.server) as go:
            assert await go("work") == "done"
            assert await go("thread") == "threaded"
    assert worker.runs == 1


@pytest.mark.parametrize("retry", [-1, 86_401, 1e306, math.inf, math.nan])
@pytest.mark.parametrize("version", [LEGACY, "2026-07-28"])
async def test_a_time_that_cannot_be_is_refused_on_every_wire(retry: float, version: str) -> None:
    server = Server("wrong")

    @server.tool
    async def wrong(ctx: Context) -> str:
        with pytest.raises(ValueError, match="retry is a number of seconds"):
            await ctx.disconnect(retry=retry)
        return "refused"

    async with Client(server, version=version) as client:
        assert (await client.call_tool("wrong")).text == "refused"


@pytest.mark.rule("R49", "R52", "R90")
@pytest.mark.case("C03")
async def test_our_client_comes_back_answers_and_hears_everything_once() -> None:
    away = Away()
    heard: list[Any] = []

    def elicit(question: Any) -> dict[str, Any]:
        heard.append(question.message)
        return {"value": "Ada"}

    with anyio.fail_after(30):
        async with serving(away) as port:
            client = Client(
                f"http://127.0.0.1:{port}/mcp",
                version=LEGACY,
                elicit=elicit,
                log=lambda params: heard.append(params.data),
                log_level="info",
            )
            async with client:
                result = await client.call_tool("trip", progress=lambda params: heard.append(params.message))
    assert result.text == "back, Ada"
    assert heard == [*map(told, range(1, 4)), "Who?", *map(told, range(4, 6))]
    assert away.runs == 1
    assert away.resumed[:2] == ["1-1", "1-5"]


# What goes wrong.


async def test_a_client_that_never_comes_back_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a question has ends the handler, and then idleness ends its session."""
    worker = Worker(limits=Limits(ask_timeout=0.05, session_idle=60))
    now = 1000.0
    async with wire(worker.server) as there:
        session = await there.session(FORMS)
        sessions = there.app.sessions
        monkeypatch.setattr(sessions, "_clock", lambda: now)
        await all_of(await session.post(call("ask", first=False)))
        now += 1000
        sessions.expire()
        assert len(sessions) == 1, "what runs is not idle"
        worker.go.set()
        await worker.ended.wait()
        assert [type(error) for error in worker.errors] == [AskTimeout]
        await until(lambda: not the_session(there).busy)
        stream = (await the_session(there).find("1-0")).stream  # type: ignore[union-attr]
        assert stream.closed
        now += 61
        sessions.expire()
        assert len(sessions) == 0
        assert (await session.http("GET", last_event_id="1-0")).status == 404


async def test_disconnecting_again_frees_what_is_there_once() -> None:
    server, go, ended = Server("again"), anyio.Event(), anyio.Event()

    @server.tool
    async def again(ctx: Context) -> str:
        await ctx.disconnect(retry=9)
        await ctx.disconnect(retry=2)
        await go.wait()
        await ctx.disconnect(retry=3)  # nobody is there
        await ctx.progress(1)
        ended.set()
        return "again"

    async with wire(server) as there:
        session = await there.session()
        response = await session.post(call("again", token="t"))
        assert await all_of(response) == [Event(id="1-0"), Event(retry=2000)]
        go.set()
        await ended.wait()
        resumed = await session.http("GET", last_event_id="1-0")
        assert (await events(resumed, 1))[0] == ("1-1", 1)
        assert text(await resumed.message()) == "again"
        assert await resumed.event() is None


async def test_a_call_that_has_ended_frees_nothing() -> None:
    worker = Worker()
    worker.go.set()
    async with wire(worker.server) as there:
        session = await there.session()
        await all_of(await session.post(call("work")))
        [ctx] = worker.contexts
        await until(lambda: ctx.exchange.finished)
        with pytest.raises(CallFinished):
            ctx.disconnect()


async def test_a_client_that_left_before_the_stream_began_is_not_sent_one() -> None:
    server, go = Server("late"), anyio.Event()

    @server.tool
    async def late(ctx: Context) -> str:
        await go.wait()
        await ctx.disconnect()
        return "late"

    async with wire(server) as there:
        session = await there.session()
        one = Asgi(there.app, call("late"), {"mcp-session-id": session.id, "mcp-protocol-version": LEGACY})
        await until(lambda: the_session(there).peer.serving == 1)
        await one.leave()
        go.set()
        await one.done
        assert one.sent == []


@pytest.mark.rule("R52", "R25")
async def test_a_question_that_is_open_is_answered_without_the_connection() -> None:
    worker = Worker()
    worker.go.set()
    async with wire(worker.server) as there:
        session = await there.session(ASKS)
        prime, question, last = await all_of(await session.post(call("ask", first=True)))
        assert (prime.id, question.id, last) == ("1-0", "1-1", Event(retry=1000))
        assert (await session.answer(question.message, accept(value="Ada"))).status == 202
        await worker.ended.wait()
        resumed = await session.http("GET", last_event_id="1-1")
        assert text(await resumed.message()) == "Ada"


@pytest.mark.rule("R49", "R52")
async def test_a_question_waits_for_the_client_and_comes_again_to_one_that_lost_it() -> None:
    worker = Worker()
    worker.go.set()
    async with wire(worker.server) as there:
        session = await there.session(ASKS)
        await all_of(await session.post(call("ask", first=False)))
        questions = []
        for _ in range(2):
            resumed = await session.http("GET", last_event_id="1-0")
            questions.append(await resumed.message())
            resumed.drop()
        assert questions[0] == questions[1] and questions[0]["method"] == "elicitation/create"
        await session.answer(questions[0], accept(value="Ada"))
        resumed = await session.http("GET", last_event_id="1-1")
        assert text(await resumed.message()) == "Ada"
        assert await resumed.event() is None


@pytest.mark.rule("R51")
@pytest.mark.parametrize("how", ["cancel", "delete"])
async def test_a_call_can_be_ended_while_its_client_is_away(how: str) -> None:
    worker = Worker()
    async with wire(worker.server) as there:
        session = await there.session()
        inner = the_session(there)
        await all_of(await session.post(call("work", id="w", token="t")))
        if how == "cancel":
            await session.post(notification("notifications/cancelled", {"requestId": "w"}))
        else:
            await session.http("DELETE")
        await worker.ended.wait()
        assert [type(error).__name__ for error in worker.errors] == ["CancelledError"]
        await until(lambda: not inner.busy)
        resumed = await session.http("GET", last_event_id="1-1")
        if how == "cancel":
            assert await all_of(resumed) == [], "an end without a response, and no invitation"
        else:
            assert resumed.status == 404


@pytest.mark.rule("R86", "R90")
async def test_of_two_that_come_back_at_once_the_later_gets_the_rest() -> None:
    worker = Worker()
    async with wire(worker.server) as there:
        session = await there.session()
        await all_of(await session.post(call("work", token="t")))
        one = await session.http("GET", last_event_id="1-1")
        other = await session.http("GET", last_event_id="1-1")
        assert await all_of(one) == [Event(retry=500)]
        worker.go.set()
        assert await events(other, 1) == [("1-2", 2)]
        assert text(await other.message()) == "done"
        assert await other.event() is None


@pytest.mark.rule("R85", "R90")
@pytest.mark.case("F07")
async def test_another_session_gets_nothing_of_a_call_whose_client_is_away() -> None:
    worker = Worker()
    async with wire(worker.server) as there:
        mine, theirs = await there.session(), await there.session()
        await all_of(await mine.post(call("work", token="secret")))
        for cursor in ("1-1", "1-0"):
            response = await theirs.http("GET", last_event_id=cursor)
            assert response.status == 400
            assert b"secret" not in await response.body()
        worker.go.set()
        resumed = await mine.http("GET", last_event_id="1-1")
        assert await events(resumed, 1) == [("1-2", 2)]
        assert text(await resumed.message()) == "done"


@pytest.mark.rule("R52")
async def test_what_was_not_read_outlives_many_later_calls_and_a_large_start() -> None:
    worker = Worker()
    worker.go.set()
    async with wire(worker.server) as there:
        session = await there.session()
        await all_of(await session.post(call("work", token="t", size=100_000, after=0)))
        await until(lambda: not the_session(there).busy)
        for id in range(20):
            await (await session.post(call("quick", id=f"q{id}", token="q"))).messages()
        resumed = await session.http("GET", last_event_id="1-1")
        assert text(await resumed.message()) == "done"
        assert await resumed.event() is None
        again = await session.http("GET", last_event_id="1-0")
        assert len(await again.messages()) == 2
        while await the_session(there).find("1-0") is not None:  # until it is known that all of it was sent at once
            await anyio.lowlevel.checkpoint()
