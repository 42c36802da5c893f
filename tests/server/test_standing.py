"""What outlives a call: ctx.detach and ctx.background."""

import contextvars
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import (
    AskTimeout,
    CallFinished,
    Context,
    Limits,
    MissingCapability,
    NoBackChannel,
    Server,
    SessionClosed,
    ToolError,
)
from backchannel.server.dispatch import start
from tests.server.replay import LEGACY, MODERN, YES, Driver, accept, both_eras, driver, failed, text

pytestmark = pytest.mark.anyio
who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


class Work:
    """Work in the background that waits to be told to go on."""

    def __init__(self) -> None:
        self.go, self.ended = anyio.Event(), anyio.Event()
        self.outcome: Any = None

    async def run(self, ctx: Context, action: Any) -> None:
        try:
            await self.go.wait()
            self.outcome = await action(ctx)
        except Exception as error:
            self.outcome = error
        finally:
            self.ended.set()


def serving(work: Work, action: Any, **options: Any) -> Server:
    server = Server("s", **options)

    @server.tool
    async def begin(ctx: Context) -> str:
        ctx.background("work", work.run, ctx.detach(), action)
        return ctx.call_id

    return server


@pytest.mark.rule("R44", "R46", "R47")
async def test_a_detached_context_asks_and_logs_after_the_call() -> None:
    work = Work()

    async def action(ctx: Context) -> Any:
        await ctx.log("info", "still here")
        await ctx.progress(1)
        one, two = await ctx.gather(ctx.elicit("One?", bool), ctx.elicit("Two?", bool, key="two"))
        value = await ctx.step("step", lambda: 41 + 1)
        return one.unwrap(), two.unwrap(), value, ctx.call_id, ctx.client.name, ctx.target, ctx.detach().version.value

    async with driver(serving(work, action), LEGACY) as client:
        await client.serve(client.exchange("logging/setLevel", {"level": "debug"}))
        call_id = text(await client.call("begin", _meta={"progressToken": 1}))
        work.go.set()
        for _ in range(2):
            client.answer(await client.until(lambda message: message.get("method") == "elicitation/create"), YES)
        await work.ended.wait()
        assert work.outcome == (True, True, 42, call_id, "driver", "begin", LEGACY)
        assert client.logged == ["still here"] and client.progress == []
        await client.idle()


@pytest.mark.rule("R45")
async def test_the_calls_own_context_ends_with_it_also_in_a_shielded_task() -> None:
    work = Work()

    async def action(_: Context) -> Any:
        with anyio.CancelScope(shield=True):
            return await kept[0].elicit("Anybody?", bool)

    kept: list[Context] = []
    server = serving(work, action)

    @server.middleware
    async def keep(ctx: Context, call_next: Any) -> Any:
        return await call_next(ctx)

    @server.tool
    async def keeping(ctx: Context) -> str:
        kept.append(ctx)
        ctx.background("work", work.run, ctx.detach(), action)
        return "done"

    async with driver(server, LEGACY) as client:
        await client.call("keeping")
        work.go.set()
        await work.ended.wait()
        assert isinstance(work.outcome, CallFinished)


@pytest.mark.rule("R47")
async def test_neither_the_calls_cancellation_nor_its_time_limit_reaches_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work()

    async def action(ctx: Context) -> Any:
        with anyio.move_on_after(0) as scope:  # a limit of its own works
            await ctx.elicit("Too slow?", bool)
        return scope.cancelled_caught, who.get()

    server = Server("s")

    @server.tool(timeout=30)
    async def begin(ctx: Context) -> None:
        who.set("ada")
        ctx.background("work", work.run, ctx.detach(), action)
        await anyio.sleep_forever()

    async with driver(server, LEGACY) as client:
        exchange = client.tool("begin")
        async with anyio.create_task_group() as group:
            group.start_soon(client.serve, exchange)
            await anyio.wait_all_tasks_blocked()
            client.tell("notifications/cancelled", {"requestId": exchange.request.id})
        work.go.set()
        await work.ended.wait()
        assert work.outcome == (True, "ada")
        question, cancelled = await client.next(), await client.next()
        assert cancelled["params"]["requestId"] == question["id"]
        await client.idle()


@pytest.mark.rule("R48")
@pytest.mark.parametrize("when", ["before", "during"])
async def test_when_the_session_ends_a_detached_context_fails_at_once(when: str) -> None:
    work = Work()

    async def action(ctx: Context) -> Any:
        return await ctx.elicit("Anybody?", bool)

    async with driver(serving(work, action), LEGACY) as client:
        await client.call("begin")
        if when == "during":
            work.go.set()
            await client.until(lambda message: message.get("method") == "elicitation/create")
        client.session.close()
        work.go.set()
        await work.ended.wait()
        assert isinstance(work.outcome, SessionClosed)


async def test_a_detached_context_knows_that_its_session_has_ended() -> None:
    work = Work()

    async def action(ctx: Context) -> Any:
        await ctx.log("info", "anybody?")

    async with driver(serving(work, action), LEGACY) as client:
        await client.call("begin")
        client.session.close()
        work.go.set()
        await work.ended.wait()
        assert isinstance(work.outcome, SessionClosed)


@pytest.mark.rule("R49")
async def test_the_outbox_of_a_session_is_bounded() -> None:
    work = Work()

    async def action(ctx: Context) -> Any:
        return await ctx.elicit("Anybody?", bool)

    async with driver(serving(work, action), LEGACY) as client:
        await client.call("begin")
        client.session.stream._limit = 0
        work.go.set()
        await work.ended.wait()
        assert isinstance(work.outcome, NoBackChannel) and "full" in str(work.outcome)


@pytest.mark.rule("R46")
async def test_the_stateless_protocol_has_nothing_to_detach_to() -> None:
    server = Server("s")
    ran: list[int] = []

    @server.tool
    async def begin(ctx: Context) -> str:
        ctx.background("work", ran.append, 1)
        sure = (await ctx.elicit("Sure?", bool)).unwrap()
        try:
            ctx.detach()
        except NoBackChannel as error:
            return f"{sure} {error}"
        raise ToolError("detached")

    async with driver(server, MODERN) as client:
        said = text(await client.rounds("begin", lambda key, question: accept(True)))
        assert "server.notify" in said and "ctx.background" in said and "task" not in said
        await client.idle()
        assert ran == [1]


@both_eras
@pytest.mark.rule("P9")
async def test_work_in_the_background_starts_once_in_all_rounds(version: str) -> None:
    server = Server("s")
    ran: list[str] = []

    @server.tool
    async def begin(ctx: Context) -> str:
        ctx.background("sync", ran.append, "sync")
        await ctx.elicit("One?", bool)
        ctx.background("later", ran.append, "later")
        await ctx.elicit("Two?", bool)
        return "done"

    async with driver(server, version) as client:
        assert text(await client.rounds("begin", lambda key, question: accept(True))) == "done"
        await client.idle()
        assert sorted(ran) == ["later", "sync"]


@both_eras
async def test_a_key_is_used_once_in_a_call(version: str) -> None:
    server = Server("s", debug=True)

    @server.tool
    async def begin(ctx: Context) -> str:
        ctx.background("work", len, "")
        ctx.background("work", len, "")
        return "done"

    async with driver(server, version) as client:
        response = await client.call("begin")
        assert "used twice" in response["result"]["content"][0]["text"]
        await client.idle()


async def test_work_that_fails_is_logged_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    def begin(ctx: Context) -> str:
        ctx.background("work", int, "no number")
        return "done"

    async with driver(server) as client:
        assert text(await client.call("begin")) == "done"
        await client.idle()
        (record,) = [one for one in caplog.records if "background job" in one.getMessage()]
        assert (
            record.levelname == "ERROR"
            and record.getMessage() == "the background job 'work of begin' failed"
            and "no number" in caplog.text
        )
        caplog.clear()


async def test_when_the_server_stops_it_waits_for_the_work_and_then_cancels_it() -> None:
    ended: list[str] = []
    going = anyio.Event()

    async def short() -> None:
        await going.wait()
        ended.append("short")

    async def long() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("long")

    server = Server("s", limits=Limits(grace=0.05))

    @server.tool
    async def begin(ctx: Context) -> str:
        ctx.background("short", short)
        ctx.background("long", long)
        return "done"

    async with start(server) as dispatcher:
        client = Driver(dispatcher, MODERN, {})
        await client.call("begin")
        await anyio.lowlevel.checkpoint()
        going.set()
    assert ended == ["short", "long"]


async def test_without_the_capability_a_detached_context_asks_nothing() -> None:
    work = Work()

    async def action(ctx: Context) -> Any:
        return await ctx.elicit("Anybody?", bool)

    async with driver(serving(work, action), LEGACY, {}) as client:
        await client.call("begin")
        work.go.set()
        await work.ended.wait()
        assert isinstance(work.outcome, MissingCapability)


@pytest.mark.rule("R47")
async def test_detaching_keeps_nothing_of_the_questions_that_were_answered() -> None:
    work = Work()
    kept: list[Context] = []

    async def action(ctx: Context) -> Any:
        kept.append(ctx)
        for number in range(50):
            await ctx.elicit(f"{number}?", bool)

    async with driver(serving(work, action), LEGACY) as client:
        await client.call("begin")
        work.go.set()
        for _ in range(50):
            client.answer(await client.until(lambda message: message.get("method") == "elicitation/create"), YES)
        await work.ended.wait()
        inputs: Any = kept[0]._inputs
        assert (len(inputs.journal.entries), len(inputs._questions), len(inputs._calls)) == (0, 0, 0)


# A client that never answers.


@pytest.mark.case("A18")
async def test_after_three_questions_in_a_row_without_an_answer_the_session_is_not_asked_again() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            return str(await ctx.elicit("Anybody?", bool, timeout=0))
        except AskTimeout as error:
            return str(error)

    @server.tool
    async def patient(ctx: Context) -> str:
        return str(await ctx.elicit("Anybody?", bool))

    async with driver(server, LEGACY) as client:
        for _ in range(3):
            assert "in time" in text(await client.call("ask"))
        asked = [m for m in client.sent if m.get("method") == "elicitation/create"]
        assert len(asked) == 3
        assert "not asked again" in text(await client.call("ask"))
        assert [m for m in client.sent if m.get("method") == "elicitation/create"] == asked
        client.answer(asked[0], YES)  # too late, but it does answer
        assert "Accepted" in text(await client.rounds("patient", lambda key, question: YES))


@both_eras
async def test_a_job_that_uses_the_calls_context_hurts_nobody(version: str) -> None:
    """It forgot `detach`, and speaks while the round ends."""
    server, told = Server("s"), anyio.Event()

    async def job(ctx: Context) -> None:
        await told.wait()
        await ctx.log("info", "anybody?")

    @server.tool
    async def begin(ctx: Context) -> str:
        ctx.background("job", job, ctx)
        try:
            await ctx.confirm("Sure?")
        finally:
            told.set()
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
        return str(await ctx.step("after", lambda: 42))

    async with driver(server, version) as client:
        assert text(await client.rounds("begin", lambda key, question: YES)) == "42"
        await client.idle()


async def test_a_job_that_ends_in_an_exception_of_its_own_hurts_nobody() -> None:
    class Odd(BaseException):
        pass

    async def job(error: BaseException) -> None:
        raise error

    server = Server("s")

    @server.tool
    async def begin(ctx: Context) -> str:
        for number, error in enumerate((Odd(), GeneratorExit(), BaseExceptionGroup("all", [Odd()]))):
            ctx.background(str(number), job, error)
        return str(await ctx.step("after", lambda: 42))

    async with driver(server) as client:
        for _ in range(2):
            assert text(await client.call("begin")) == "42"
        await client.idle()


async def test_a_job_whose_session_ends_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    async def job(ctx: Context) -> None:
        await ctx.confirm("Sure?")

    @server.tool
    async def begin(ctx: Context) -> str:
        ctx.background("job", job, ctx.detach())
        return "begun"

    caplog.set_level("INFO", "backchannel.server")
    async with driver(server, LEGACY) as client:
        assert text(await client.call("begin")) == "begun"
        await client.until(lambda message: message.get("method") == "elicitation/create")
        client.session.close()
        await client.idle()
    (record,) = [one for one in caplog.records if "background job" in one.getMessage()]
    assert record.levelname == "INFO" and record.exc_info is None
    assert record.getMessage().startswith("the background job 'job of begin' ended with its session: ")


@both_eras
async def test_what_a_call_that_has_ended_names_as_ways_out(version: str) -> None:
    server, kept = Server("s"), list[Context]()

    @server.tool
    async def begin(ctx: Context) -> str:
        kept.append(ctx)
        return "begun"

    async with driver(server, version) as client:
        await client.call("begin")
        for use in (lambda: kept[0].confirm("Sure?"), lambda: kept[0].log("info", "x")):
            with pytest.raises(CallFinished, match=r"ctx.background.*ctx.detach\(\)"):
                use()


async def test_without_a_session_it_is_said_what_gives_one() -> None:
    server = Server("s")

    @server.tool
    async def asks(ctx: Context) -> str:
        return str(await ctx.confirm("Sure?"))

    async with driver(server, LEGACY) as client:
        await client.serve(client.exchange("tools/call", {"name": "asks"}, session=None))
        said = failed(await client.next())
        assert "workers=1" in said and "fleet=" in said and "sessions=True" in said
