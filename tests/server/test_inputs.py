"""Asking on either era: who may ask, what the client has to have, what its answers and errors become, and the end of a
call."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from trio.testing import MockClock

from backchannel import (
    AskTimeout,
    CallFinished,
    ClientLied,
    Context,
    MissingCapability,
    NoBackChannel,
    RemoteProtocolError,
    Server,
)
from backchannel.protocol.jsonrpc import Malformed
from backchannel.protocol.types.tools import Tool
from backchannel.server.asks import ElicitUrl
from tests.server.replay import (
    DECLINED,
    LEGACY,
    MODERN,
    ROOTS,
    SAMPLE,
    YES,
    Driver,
    accept,
    asked,
    both_eras,
    driver,
    failed,
    message_of,
    retry,
    text,
)

pytestmark = pytest.mark.anyio


# P2: whose task.


async def in_a_task(helper: Callable[[], Any]) -> Any:
    return await asyncio.create_task(helper())


async def in_a_group(helper: Callable[[], Any]) -> Any:
    results = []

    async def run() -> None:
        results.append(await helper())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
    return results[0]


async def in_wait_for(helper: Callable[[], Any]) -> Any:
    return await asyncio.wait_for(helper(), 1000)


async def elsewhere(runner: Any, make: Callable[[Context, str | None], Any], version: str) -> None:
    server = Server("test", debug=True)

    @server.tool
    async def tool(ctx: Context, key: str | None) -> str:
        async def helper() -> Any:
            return await make(ctx, key)

        return repr(await runner(helper))

    async with driver(server, version) as wire:
        error = (await wire.call("tool", {"key": None}))["error"]
        assert error["code"] == -32603
        assert "in another task" in error["message"]
        assert "key=" in error["message"] and "asyncio.timeout()" in error["message"]
        await wire.idle()
        assert text(await wire.rounds("tool", lambda *_: YES, {"key": "mine"})) == "True"
        await wire.idle()


MAKE: list[Callable[[Context, str | None], Any]] = [
    lambda ctx, key: ctx.confirm("sure?", key=key),
    lambda ctx, key: ctx.step("sure", lambda: True, key=key),
]


@pytest.mark.rule("P2")
@both_eras
@pytest.mark.parametrize("make", MAKE)
async def test_another_task_needs_a_key(make: Any, version: str) -> None:
    await elsewhere(in_a_group, make, version)


ON_ASYNCIO = [in_a_task] + ([in_wait_for] if sys.version_info < (3, 12) else [])


@pytest.mark.rule("P2")
@both_eras
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("runner", ON_ASYNCIO)
async def test_another_task_needs_a_key_on_asyncio(runner: Any, make: Any, version: str) -> None:
    await elsewhere(runner, make, version)


@pytest.mark.rule("P2")
@both_eras
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_timeout_block_needs_none(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        async with asyncio.timeout(1000):
            return repr(await ctx.confirm("sure?"))

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "True"


@pytest.mark.rule("P2", "P1")
@both_eras
async def test_siblings_with_keys_ask_in_one_round(version: str) -> None:
    """Beside the handler's own question, whichever task runs first."""
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        answers: dict[str, str] = {}

        async def ask(key: str) -> None:
            answers[key] = (await ctx.elicit(key, str, key=key)).unwrap()

        async with anyio.create_task_group() as group:
            for key in "abc":
                group.start_soon(ask, key)
            own = (await ctx.elicit("own", str)).unwrap()
        return own + "".join(answers[key] for key in "abc")

    async with driver(server, version) as wire:
        if version == LEGACY:
            assert text(await wire.rounds("tool", lambda k, q: accept(message_of(q).upper()))) == "OWNABC"
            return
        first = await wire.call("tool")
        assert set(asked(first)) == {"elicit-1", "a", "b", "c"}
        answers = {key: accept(key.upper()) for key in "abc"}
        assert text(await wire.call("tool", **retry(first, **answers, **{"elicit-1": accept("OWN")}))) == "OWNABC"


@pytest.mark.rule("P2")
@both_eras
async def test_a_sync_tool_asks_from_its_thread(version: str) -> None:
    server, threads = Server("test"), set()

    @server.tool
    def tool(ctx: Context) -> str:
        threads.add(threading.get_ident())
        ctx.progress(1).wait()
        a, b = ctx.gather(ctx.elicit("a", str), ctx.elicit("b", str)).wait()
        roots = ctx.roots().wait()
        return a.unwrap() + b.unwrap() + roots[0].uri

    def answer(key: str, question: dict[str, Any]) -> Any:
        return ROOTS if question["method"] == "roots/list" else accept(message_of(question))

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", answer, _meta={"progressToken": 1})) == "abfile:///srv"
        assert wire.progress == [1]
        await wire.idle()
    assert threading.get_ident() not in threads


@pytest.mark.rule("P2")
@both_eras
async def test_a_thread_of_an_async_tool_asks_with_a_key(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        def work() -> bool:
            ctx.progress(1).wait()
            return ctx.confirm("sure?", key="sure").wait()

        return repr(await anyio.to_thread.run_sync(work))

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES, _meta={"progressToken": 1})) == "True"
        assert wire.progress == [1]


@pytest.mark.rule("P2")
@both_eras
async def test_a_step_of_a_sync_tool_is_a_task_of_its_own(version: str) -> None:
    server = Server("test", debug=True)

    @server.tool
    def tool(ctx: Context) -> str:
        async def work() -> bool:
            return await ctx.confirm("sure?")

        return repr(ctx.step("work", work).wait())

    async with driver(server, version) as wire:
        assert "a step asks nothing" in failed(await wire.call("tool"))


@both_eras
async def test_a_sync_tool_may_ask_on_the_event_loop_too(version: str) -> None:
    server = Server("test")

    @server.tool
    def tool(ctx: Context) -> str:
        async def ask() -> bool:
            return await ctx.confirm("sure?")

        return repr(anyio.from_thread.run(ask))

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "True"


# What the client has to have.

TOOL = Tool("t", {"type": "object"})
GATES: list[tuple[Callable[[Context], Any], dict[str, Any], str | None]] = [
    (lambda c: c.elicit("a", str), {}, "elicitation"),
    (lambda c: c.elicit("a", str), {"elicitation": {}}, None),
    (lambda c: c.elicit("a", str), {"elicitation": {"form": {}}}, None),
    (lambda c: c.elicit("a", str), {"elicitation": {"url": {}}}, "elicitation.form"),
    (lambda c: c.confirm("a"), {"sampling": {}}, "elicitation"),
    (lambda c: c.elicit_url("a", "https://a"), {}, "elicitation.url"),
    (lambda c: c.elicit_url("a", "https://a"), {"elicitation": {}}, "elicitation.url"),
    (lambda c: c.elicit_url("a", "https://a"), {"elicitation": {"form": {}}}, "elicitation.url"),
    (lambda c: c.ask(ElicitUrl("a", "https://a")), {"elicitation": {"form": {}}}, "elicitation.url"),
    (lambda c: c.elicit_url("a", "https://a"), {"elicitation": {"url": {}}}, None),
    (lambda c: c.sample("a"), {}, "sampling"),
    (lambda c: c.sample("a"), {"sampling": {}}, None),
    (lambda c: c.sample("a", tools=[TOOL]), {"sampling": {}}, "sampling.tools"),
    (lambda c: c.sample("a", tools=[TOOL]), {"sampling": {"tools": {}}}, None),
    (lambda c: c.sample("a", include_context="none"), {"sampling": {}}, None),
    (lambda c: c.sample("a", include_context="thisServer"), {"sampling": {}}, "sampling.context"),
    (lambda c: c.sample("a", include_context="thisServer"), {"sampling": {"context": {}}}, None),
    (lambda c: c.roots(), {}, "roots"),
    (lambda c: c.roots(), {"roots": {}}, None),
]


@pytest.mark.rule("R15", "R16", "R17", "R27")
@pytest.mark.case("A14")
@both_eras
@pytest.mark.parametrize(("make", "capabilities", "missing"), GATES)
async def test_nothing_is_asked_that_the_client_did_not_declare(
    make: Any, capabilities: dict[str, Any], missing: str | None, version: str
) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context, catch: bool) -> str:
        try:
            make(ctx)
        except MissingCapability as error:
            if catch:
                return error.capability
            raise
        raise RuntimeError

    async with driver(server, version, capabilities) as wire:
        if missing is None:
            await wire.serve(wire.tool("tool", {"catch": True}))
            message = await wire.next()
            assert ("method" in message) if version == LEGACY else ("the handler failed" in failed(message))
            return
        assert text(await wire.call("tool", {"catch": True})) == missing
        response = await wire.call("tool", {"catch": False})
        if version == LEGACY:
            assert f"did not declare the capability '{missing}'" in failed(response)
        else:
            error = response["error"]
            assert error["code"] == -32021
            (first, *rest) = missing.split(".")
            assert error["data"] == {"requiredCapabilities": {first: {rest[0]: {}} if rest else {}}}
        assert not [message for message in wire.sent if "method" in message]
        await wire.idle()


@pytest.mark.rule("R16")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
async def test_before_2025_06_18_there_is_no_elicitation(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server, version) as wire:
        assert f"protocol version {version} has none" in failed(await wire.call("tool"))


@pytest.mark.rule("R19")
async def test_capabilities_are_those_of_this_request() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server) as wire:
        first = await wire.call("tool")
        wire.capabilities = {}
        assert (await wire.call("tool", **retry(first, **{"elicit-1": YES})))["error"]["code"] == -32021


@pytest.mark.rule("R18", "R27")
@pytest.mark.case("B01")
@pytest.mark.parametrize("change", [{"session": None}, {"can_stream": False}])
async def test_without_a_way_to_the_client_nothing_hangs(change: dict[str, Any]) -> None:
    server, errors = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        for make in (lambda: ctx.confirm("a"), lambda: ctx.sample("b"), lambda: ctx.roots()):
            try:
                make()
            except NoBackChannel as error:
                assert not isinstance(error, MissingCapability)
                errors.append(str(error))
        return repr(await ctx.confirm("c"))

    async with driver(server, LEGACY) as wire:
        exchange = wire.exchange("tools/call", {"name": "tool"}, **change)
        await wire.serve(exchange)
        hint = failed(await wire.next())
        assert errors == [hint] * 3
        assert "sessions on" in hint or "text/event-stream" in hint
        await wire.idle()


# What comes back.


@pytest.mark.rule("R22", "R27")
@pytest.mark.parametrize("catch", [True, False])
async def test_a_clients_error_comes_to_the_handler(catch: bool, caplog: pytest.LogCaptureFixture) -> None:
    server, errors = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return repr(await ctx.confirm("sure?", key="sure"))
        except RemoteProtocolError as error:
            errors.append((error.code, error.message, error.data))
            if catch:
                return "without"
            raise

    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            wire.answer(await wire.next(), error={"code": -32603, "message": "no person", "data": [1]})
        response = await wire.next()
        assert (text(response) == "without") if catch else ("no person" in failed(response))
        await wire.idle()
    assert errors == [(-32603, "no person", [1])]
    record = next(record for record in caplog.records if record.levelno == logging.WARNING)
    assert record.getMessage() == "tool: the client answered the question 'sure' with error -32603: no person"


async def test_a_clients_text_is_one_short_line_of_the_log_and_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            long = "x\nLOG CRITICAL root gone" + "y" * 10_000
            wire.answer(await wire.next(), error={"code": -32000, "message": long})
        assert "gone" in failed(await wire.next())
        await wire.idle()
    texts = [record.getMessage() for record in caplog.records]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert all("\n" not in text and len(text) < 700 and "LOG CRITICAL" in text for text in texts)
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.case("B05")
async def test_a_client_that_declared_what_it_does_not_know_lied(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return repr(await ctx.confirm("sure?"))
        except ClientLied as error:
            return type(error).__name__

    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            wire.answer(await wire.next(), error={"code": -32601, "message": "Method not found"})
        assert text(await wire.next()) == "ClientLied"
    assert "tool: the client answered the question 'elicit-1' with error -32601" in caplog.text


GARBAGE: list[tuple[Callable[[Context], Any], Any]] = [
    (lambda c: c.confirm("a"), {"action": "perhaps"}),
    (lambda c: c.confirm("a"), {}),
    (lambda c: c.sample("a"), {"role": "assistant", "model": "m", "content": 7}),
    (lambda c: c.roots(), {"roots": [{"name": "x"}]}),
    (lambda c: c.confirm("a"), [1]),
    (lambda c: c.confirm("a"), None),
]


@pytest.mark.rule("R21")
@pytest.mark.parametrize(("make", "garbage"), GARBAGE)
async def test_a_malformed_answer_is_an_error_to_the_handler(make: Any, garbage: Any) -> None:
    server, errors = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await make(ctx)
        except RemoteProtocolError as error:
            errors.append(str(error))
        return "went on"

    async with driver(server, LEGACY) as wire:
        assert text(await wire.rounds("tool", lambda *_: garbage)) == "went on"
    assert errors[0].startswith("the client's answer is malformed: ")


async def test_a_response_that_cannot_be_read_fails_its_question() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return repr(await ctx.confirm("sure?"))
        except RemoteProtocolError as error:
            return str(error)

    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            question = await wire.next()
            wire.session.receive(Malformed(-32700, "Parse error", question["id"], True))
        assert text(await wire.next()) == "the client's answer cannot be read: Parse error"
        await wire.idle()


@pytest.mark.rule("R2", "R25", "R26", "R30", "R13")
async def test_questions_in_sequence_are_requests_of_their_own() -> None:
    """Two that are alike too: nothing is cached."""
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        texts = [(await ctx.sample("the same")).text for _ in range(2)]
        outcome = await ctx.elicit(f"Take {texts[0]}?", bool)
        return f"{texts} {outcome.unwrap()}"

    async with driver(server, LEGACY) as wire:
        answers = iter([SAMPLE, {**SAMPLE, "content": {"type": "text", "text": "again"}}, YES])
        assert text(await wire.rounds("tool", lambda *_: next(answers))) == "['hello', 'again'] True"
        questions = [message for message in wire.sent if "method" in message]
        assert [q["method"] for q in questions] == ["sampling/createMessage"] * 2 + ["elicitation/create"]
        assert len({q["id"] for q in questions}) == 3
        assert wire.last is not None and wire.last.request.id not in {q["id"] for q in questions}
        assert all(set(q) <= {"jsonrpc", "id", "method", "params"} for q in questions)


@pytest.mark.case("A18")
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
@pytest.mark.parametrize(("wait", "late"), [(1, 4), (3, 1.5)])
async def test_the_time_for_an_answer_runs_from_the_question(wait: float, late: float) -> None:
    """Not from where it is awaited. An answer that came in time counts whenever it is awaited."""
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        question = ctx.confirm("sure?", timeout=2)
        await anyio.sleep(wait)
        try:
            return repr(await question)
        except AskTimeout as error:
            return str(error)

    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            question = await wire.next()
            await anyio.sleep(late)
            wire.answer(question, YES)
        last = [await wire.next() for _ in range(len(wire.session.stream))]
        if late > 2:
            assert last[0]["method"] == "notifications/cancelled"
            assert last[0]["params"]["requestId"] == question["id"]
        assert text(last[-1]) == ("True" if late < 2 else "the client did not answer elicitation/create in time")
        await wire.idle()


@pytest.mark.rule("R96")
async def test_a_question_before_initialized_waits_for_it() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server, MODERN) as unready:
        wire = Driver(unready.dispatcher, LEGACY, unready.capabilities)
        await wire.bring_up(initialized=False)
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            assert len(wire.session.stream) == 0
            wire.tell("notifications/initialized")
            wire.answer(await wire.next(), YES)
        assert text(await wire.next()) == "True"


@pytest.mark.rule("R42")
async def test_a_question_that_was_never_sent_is_not_withdrawn_either() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server, MODERN) as unready:
        wire = Driver(unready.dispatcher, LEGACY, unready.capabilities)
        await wire.bring_up(initialized=False)
        exchange = wire.tool("tool")
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            await anyio.lowlevel.checkpoint()
            wire.tell("notifications/cancelled", {"requestId": exchange.request.id})
        wire.tell("notifications/initialized")
        assert len(wire.session.stream) == 0
        await wire.idle()


@pytest.mark.rule("R7")
async def test_a_stream_that_takes_no_more_fails_the_question() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return repr(await ctx.confirm("sure?"))
        except NoBackChannel as error:
            return str(error)

    async with driver(server, LEGACY) as wire:
        wire.session.stream._limit = 0
        assert "was not sent" in text(await wire.call("tool"))
        await wire.idle()
        assert len(wire.sent) == 2  # the answer to initialize, and this


@pytest.mark.rule("R51")
async def test_the_end_of_the_session_ends_its_calls() -> None:
    server, ended = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return repr(await ctx.confirm("sure?"))
        finally:
            ended.append(True)

    async with driver(server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            await wire.next()
            wire.session.close()
        await wire.idle()
    assert ended == [True]


# The end of a call.


@pytest.mark.rule("R40", "R43")
@pytest.mark.parametrize(
    ("version", "end"),
    [
        (LEGACY, "result"),
        (LEGACY, "error"),
        (LEGACY, "cancelled"),
        (MODERN, "result"),
        (MODERN, "error"),
        (MODERN, "suspended"),
    ],
)
async def test_after_its_call_a_context_is_of_no_use(version: str, end: str) -> None:
    server, kept = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        kept.append((ctx, ctx.elicit("early", str, key="early"), ctx.step("early step", lambda: 1)))
        if end == "error":
            raise ValueError
        if end == "result":
            kept[0][1].close()
            await kept[0][2]
            return "done"
        await kept[0][1]
        return "never"

    async with driver(server, version) as wire:
        wire.session.log_level = "debug"
        exchange = wire.tool("tool", _meta={"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"})
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            if version == LEGACY:
                await wire.next()
            if end == "cancelled":
                wire.tell("notifications/cancelled", {"requestId": exchange.request.id})
        ((ctx, early, step),) = kept
        sent = len(wire.session.stream)
        for operation in (
            lambda: ctx.elicit("a", str),
            lambda: ctx.elicit("a", str, key="k"),
            lambda: ctx.elicit_url("a", "https://a"),
            lambda: ctx.confirm("a", if_unable="proceed"),
            lambda: ctx.sample("a"),
            lambda: ctx.roots(),
            lambda: ctx.step("a", lambda: 1),
            lambda: ctx.progress(1),
            lambda: ctx.log("error", "a"),
        ):
            with pytest.raises(CallFinished, match="has ended"):
                operation()
        for question in (early, step):
            if not question.awaited:
                with pytest.raises(CallFinished, match="has ended"):
                    await question
        assert len(wire.session.stream) == sent
        await wire.idle()


@pytest.mark.rule("R43")
@both_eras
async def test_a_task_that_outlives_its_call_is_told(version: str) -> None:
    """It neither hangs, nor asks, nor is suspended."""
    server, seen = Server("test"), []
    go = anyio.Event()

    @server.tool
    async def tool(ctx: Context) -> str:
        waiting = ctx.confirm("waiting?", key="waiting")
        if version == LEGACY:
            outliving.start_soon(collect, waiting)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
        else:
            waiting.close()

        async def later() -> Any:
            await go.wait()
            await ctx.progress(7)

        outliving.start_soon(collect, later())
        return "done"

    async def collect(coroutine: Any) -> None:
        try:
            await coroutine
        except CallFinished as error:
            seen.append(str(error))

    async with driver(server, version) as wire, anyio.create_task_group() as outliving:
        exchange = wire.tool("tool", _meta={"progressToken": 1})
        await wire.serve(exchange)
        go.set()
        messages = [await wire.next() for _ in range(len(wire.session.stream))]
        assert text(messages[-1]) == "done"
    assert len(seen) == (2 if version == LEGACY else 1)
    await wire.idle()


@pytest.mark.rule("R41")
@both_eras
async def test_a_thread_that_waits_for_an_answer_ends_with_its_call(version: str) -> None:
    """Its tool is abandoned, and finds out at what it does next with its context."""
    server, seen = Server("test"), []
    started, ended = anyio.Event(), threading.Event()

    @server.tool
    def tool(ctx: Context) -> str:
        try:
            step = ctx.step("forever", sleep)
            step.wait()
        except BaseException as error:
            seen.append(type(error).__name__)
            try:
                ctx.progress(1)
            except CallFinished:
                seen.append("CallFinished")
        finally:
            ended.set()
        return "never"

    async def sleep() -> None:
        started.set()
        await anyio.sleep_forever()

    async with driver(server, version) as wire:
        exchange = wire.tool("tool")
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            await started.wait()
            wire.tell("notifications/cancelled", {"requestId": exchange.request.id})
        await anyio.to_thread.run_sync(ended.wait)
        await wire.idle()
    assert seen[-1] == "CallFinished" and len(seen) == 2


@pytest.mark.rule("R165")
@both_eras
async def test_a_page_is_done_when_the_author_says_so(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.lookout.POLL_INTERVAL", 0)
    server, polls = Server("test"), []

    async def signed_in() -> bool:
        polls.append(1)
        return len(polls) >= 3

    @server.tool
    async def tool(ctx: Context) -> str:
        outcome = await ctx.elicit_url("Sign in", "https://example.com/?state=1", until=signed_in)
        await ctx.confirm("and now?")
        return type(outcome).__name__

    questions: list[str] = []

    def answer(key: str, question: dict[str, Any]) -> Any:
        questions.append(key or question["params"]["mode"])
        return {"action": "accept"} if question["params"]["mode"] == "url" else YES

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", answer)) == "Accepted"
        await wire.idle()
    assert len(polls) == 3, "once true it is not asked again in later rounds"
    assert questions == (["url", "form"] if version == LEGACY else ["elicit-1", "elicit-2"])


@pytest.mark.rule("R165")
async def test_a_page_that_takes_long_ends_rounds_without_asking_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client comes back with the state alone; no round is longer than a request may take."""
    monkeypatch.setattr("backchannel.server.journaled.ROUND", 0)
    server, polls = Server("test"), list[int]()

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.elicit_url("Sign in", "https://a/", until=lambda: polls.append(1) or len(polls) >= 3)
        return str(ctx.round)

    questions: list[str] = []
    async with driver(server, MODERN) as wire:
        answer = lambda key, question: questions.append(key) or {"action": "accept"}  # noqa: E731
        assert text(await wire.rounds("tool", answer)) == "4"
        await wire.idle()
    assert questions == ["elicit-1"] and len(polls) == 3


@both_eras
async def test_a_page_that_is_declined_is_not_polled(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return type(await ctx.elicit_url("Sign in", "https://a", until=lambda: 1 / 0)).__name__

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: DECLINED)) == "Declined"
