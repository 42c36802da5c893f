"""Starting and stopping: lazily, with a lifespan, again, and while something runs."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from backchannel import Context, Limits, Server, http_app
from tests.server.http.wire import ASKS, Asgi, Wire, call, modern, request, serving, text, until, wire

anyio_test = pytest.mark.anyio
VARIABLE: ContextVar[str] = ContextVar("variable", default="unset")


class Noted:
    """A server whose lifespan and handlers leave notes."""

    def __init__(self, name: str = "noted", **options: Any) -> None:
        self.notes: list[str] = []
        self.started = anyio.Event()

        @contextlib.asynccontextmanager
        async def lifespan(server: Server) -> AsyncIterator[str]:
            self.notes.append("start")
            try:
                yield VARIABLE.get()
            finally:
                self.notes.append("end")

        self.server = Server(name, lifespan=lifespan, **options)

        @self.server.tool
        async def hello(ctx: Context) -> str:
            return f"{name} {ctx.lifespan}"

        @self.server.tool
        async def sleep(ctx: Context, stream: bool = False) -> str:
            try:
                if stream:
                    await ctx.progress(1)
                self.started.set()
                await anyio.sleep_forever()
            finally:
                self.notes.append("cancelled")
            return ""

        @self.server.tool
        async def ask(ctx: Context) -> str:
            try:
                return (await ctx.elicit("Who?", str)).unwrap()
            except BaseException as error:
                self.notes.append(type(error).__name__)
                raise


async def ends(base: set[Any]) -> None:
    """Wait until no task is left that was not there."""
    await until(lambda: len(asyncio.all_tasks() - base) == 0)


@anyio_test
@pytest.mark.case("G07")
async def test_an_app_that_is_mounted_without_a_lifespan_starts_with_its_first_request() -> None:
    base = asyncio.all_tasks()
    one, two = Noted("one"), Noted("two")
    apps = [http_app(one.server), http_app(two.server)]
    parent = Starlette(routes=[Mount("/x", app=apps[0]), Mount("/y", app=apps[1])])
    with anyio.fail_after(30):
        async with serving(parent) as port:
            assert one.notes == two.notes == []
            for path, name, noted in (("/x/mcp", "one", one), ("/y/mcp", "two", two), ("/x/mcp/", "one", one)):
                there = Wire(port, path=path)
                assert text(await (await there.modern(call("hello"))).json()) == f"{name} unset"
                assert noted.notes == ["start"]
                session = await there.session()
                assert text(await (await session.post(call("hello"))).json()) == f"{name} unset"
                await there.close()
            for app in apps:
                await app.close()
        assert one.notes == two.notes == ["start", "end"]
        await ends(base)


@anyio_test
@pytest.mark.case("G07")
async def test_running_ties_the_app_to_a_lifespan_of_the_parent() -> None:
    base = asyncio.all_tasks()
    noted = Noted()
    app = http_app(noted.server)

    @contextlib.asynccontextmanager
    async def lifespan(parent: Starlette) -> AsyncIterator[None]:
        async with app.running():
            yield

    with anyio.fail_after(30):
        async with serving(Starlette(routes=[Mount("/", app=app)], lifespan=lifespan)) as port:
            assert noted.notes == ["start"]
            there = Wire(port)
            assert (await there.modern(call("hello"))).status == 200
            await there.close()
        assert noted.notes == ["start", "end"]
        await ends(base)


@anyio_test
@pytest.mark.case("G07")
async def test_an_app_can_be_started_twice_in_a_row() -> None:
    noted = Noted()
    app = http_app(noted.server)
    for _ in range(2):
        with anyio.fail_after(30):
            async with serving(app) as port:
                there = Wire(port)
                session = await there.session()
                assert (await session.post(call("hello"))).status == 200
                await there.close()
        assert app.sessions is None
    assert noted.notes == ["start", "end"] * 2


@pytest.mark.case("G07")
@pytest.mark.parametrize("tidy", [True, False])
def test_two_event_loops_in_a_row(tidy: bool) -> None:
    noted = Noted()
    noted.server.limits = Limits(keep_alive=0.01)
    app = http_app(noted.server)

    async def main() -> None:
        noted.started = anyio.Event()
        with anyio.fail_after(30):
            message, headers = modern(call("hello"))
            one = Asgi(app, message, headers)
            await one.done
            assert one.status == 200
            # what a timer of the event loop does, outside of any task
            message, headers = modern(call("sleep"))
            silent = Asgi(app, message, headers)
            await until(lambda: any(b":" in part.get("body", b"") for part in silent.sent))
            silent.gone.set()
            await silent.done
            if tidy:
                await app.close()

    asyncio.run(main())
    assert noted.notes == ["start", "cancelled", "end"]
    asyncio.run(main())
    assert noted.notes == ["start", "cancelled", "end"] * 2


def test_a_loop_that_was_left_as_it_is() -> None:
    noted = Noted()
    app = http_app(noted.server)

    async def ask() -> None:
        message, headers = modern(call("hello"))
        one = Asgi(app, message, headers)
        await one.done
        assert one.status == 200

    loops = [asyncio.new_event_loop() for _ in range(2)]
    left = []
    for loop in loops:
        loop.run_until_complete(ask())
        left.append(asyncio.all_tasks(loop))  # the loop itself does not keep them
    assert noted.notes == ["start", "start"]
    for loop, tasks in zip(loops, left, strict=True):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()
    assert noted.notes == ["start", "start", "end", "end"]


@anyio_test
@pytest.mark.case("E08")
async def test_the_lifespan_does_not_see_the_context_of_the_first_request() -> None:
    noted = Noted()
    app = http_app(noted.server)
    VARIABLE.set("of the first request")
    with anyio.fail_after(30):
        message, headers = modern(call("hello"))
        one = Asgi(app, message, headers)
        await one.done
        assert b"noted unset" in one.body
        await app.close()


@anyio_test
async def test_many_first_requests_start_it_once() -> None:
    noted = Noted()
    app = http_app(noted.server)
    with anyio.fail_after(30):
        message, headers = modern(call("hello"))
        many = [Asgi(app, message, headers) for _ in range(20)]
        for one in many:
            await one.done
            assert one.status == 200
        assert noted.notes == ["start"]
        await app.close()


class Broken:
    """A server whose lifespan fails at the start or at the end, until it is mended."""

    def __init__(self, at: str) -> None:
        self.at = at

        @contextlib.asynccontextmanager
        async def lifespan(server: Server) -> AsyncIterator[None]:
            if self.at == "start":
                raise LookupError("no database")
            yield
            if self.at == "end":
                raise LookupError("no farewell")

        self.app = http_app(Server("broken", lifespan=lifespan))


@anyio_test
async def test_a_start_that_fails_is_reported_and_can_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken("start")
    with anyio.fail_after(30):
        with pytest.raises(SystemExit):
            async with serving(broken.app):
                pass
        assert "no database" in caplog.text
        with pytest.raises(LookupError, match="no database"):
            await broken.app.open()
        message, headers = modern(request("tools/list"))
        one = Asgi(broken.app, message, headers)
        with pytest.raises(LookupError):
            await one.done
        broken.at = "never"
        async with broken.app.running():
            one = Asgi(broken.app, message, headers)
            await one.done
            assert one.status == 200


@anyio_test
async def test_an_end_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken("end")
    with anyio.fail_after(30):
        with pytest.raises(LookupError, match="no farewell"):
            async with broken.app.running():
                pass
        incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
        sent: list[Any] = []

        async def receive() -> Any:
            return incoming.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await broken.app({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.failed"]
    assert sent[1]["message"] == "no farewell"


@anyio_test
@pytest.mark.rule("R51")
@pytest.mark.case("F13")
async def test_closing_ends_streams_calls_and_questions() -> None:
    noted = Noted()
    base = asyncio.all_tasks()
    async with wire(noted.server) as there:
        session = await there.session(ASKS)
        standing = [await session.http("GET")]
        other = await there.session()
        standing.append(await other.http("GET"))
        asking = await session.post(call("ask", 1))
        await asking.message()
        streaming = await there.modern(call("sleep", 2, "t", stream=True))
        await streaming.message()
        message, headers = modern(call("sleep", 3))
        noted.started = anyio.Event()
        silent = Asgi(there.app, message, {**headers, "accept": "application/json"})
        await noted.started.wait()
        await there.app.close()
        for response in standing:
            while await response.event() is not None:
                pass
        for response in (asking, streaming):
            last = (await response.messages())[-1]
            assert last["error"]["code"] == -32603
        await silent.done
        assert silent.status == 503
        assert b"shutting down" in silent.body
        assert sorted(noted.notes[1:-1]) == ["SessionClosed", "cancelled", "cancelled"]
        assert noted.notes[-1] == "end", "the lifespan ends after the handlers"
    await ends(base)


@anyio_test
async def test_calls_that_end_within_the_grace_are_answered_and_new_ones_refused() -> None:
    server = Server("slow")
    started, go = anyio.Event(), anyio.Event()

    @server.tool
    async def slow() -> str:
        started.set()
        await go.wait()
        return "done"

    async with wire(server) as there:
        session = await there.session()
        listening = await session.http("GET")
        message, headers = modern(call("slow"))
        running = Asgi(there.app, message, headers)
        await started.wait()
        closing = [asyncio.ensure_future(there.app.close(grace=30)) for _ in range(2)]
        await until(lambda: there.app._lifespan.posts.stopping)
        assert (await there.modern(call("slow"))).status == 503
        assert (await session.post(call("slow"))).status == 503
        assert (await session.http("GET")).status == 503
        assert (await session.post({"jsonrpc": "2.0", "id": 1, "result": {}})).status == 202
        while await listening.event() is not None:
            pass
        go.set()
        await running.done
        assert running.status == 200
        assert b"done" in running.body
        await asyncio.wait(closing)
        assert there.app.sessions is None


@anyio_test
async def test_a_handler_that_does_not_stop_does_not_keep_the_app_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.http.posts._LAST_WORDS", 0.01)
    server = Server("stubborn")
    started, go = anyio.Event(), anyio.Event()

    @server.tool
    async def linger() -> str:
        with anyio.CancelScope(shield=True):
            started.set()
            await go.wait()
        return "done"

    with anyio.fail_after(30):
        app = http_app(server)
        message, headers = modern(call("linger"))
        running = Asgi(app, message, headers)
        await started.wait()
        await app.close()
        go.set()
        await running.done
        assert running.status == 503


@anyio_test
async def test_a_foreign_server_that_stops_takes_the_app_along(caplog: pytest.LogCaptureFixture) -> None:
    noted = Noted()
    app = http_app(noted.server)
    base = asyncio.all_tasks()
    with anyio.fail_after(30), caplog.at_level(logging.WARNING):
        async with serving(app, close=False) as port:
            there = Wire(port)
            await there.session()
            await there.close()
        assert noted.notes == ["start", "end"]
        await ends(base)
    assert caplog.records == []
