"""Where a question takes its place, and what a Question is to its author and to event loops."""

import asyncio
import collections.abc
import re
import threading
from typing import Any

import anyio
import pytest

from backchannel import Accepted, ConfigurationError, Context, Elicit, Server, StepError
from backchannel.server.question import Question, Suspend, caller
from tests.server.replay import DECLINED, LEGACY, MODERN, accept, asked, both_eras, driver, message_of, retry, text

pytestmark = pytest.mark.anyio


def named(key: str, question: dict[str, Any]) -> Any:
    """An answer that tells to which question it was given."""
    return accept(f"<{message_of(question)}>")


async def value(question: Question[Any]) -> str:
    outcome = await question
    assert isinstance(outcome, Accepted)
    return str(outcome.value)


async def by_context_gather(ctx: Context) -> str:
    a, b = await ctx.gather(ctx.elicit("a", str), ctx.elicit("b", str))
    return f"{a.value}{b.value}"


async def by_asyncio_gather(ctx: Context) -> str:
    return "".join(await asyncio.gather(value(ctx.elicit("a", str)), value(ctx.elicit("b", str))))


async def by_asyncio_gather_bare(ctx: Context) -> str:
    a, b = await asyncio.gather(ctx.elicit("a", str), ctx.elicit("b", str))
    return f"{a.value}{b.value}"


async def by_task_group(ctx: Context) -> str:
    async with asyncio.TaskGroup() as group:
        a, b = (group.create_task(ctx.elicit(name, str)) for name in ("a", "b"))
    return f"{a.result().value}{b.result().value}"


async def by_nursery(ctx: Context) -> str:
    answers: dict[str, str] = {}

    async def keep(name: str, question: Question[Any]) -> None:
        answers[name] = await value(question)

    async with anyio.create_task_group() as group:
        for name in ("a", "b"):
            group.start_soon(keep, name, ctx.elicit(name, str))
    return answers["a"] + answers["b"]


async def by_trio(ctx: Context) -> str:
    import trio

    answers: dict[str, str] = {}

    async def keep(name: str, question: Question[Any]) -> None:
        answers[name] = await value(question)

    async with trio.open_nursery() as nursery:
        for name in ("a", "b"):
            nursery.start_soon(keep, name, ctx.elicit(name, str))
    return answers["a"] + answers["b"]


async def made_before(ctx: Context) -> str:
    a, b = ctx.elicit("a", str), ctx.elicit("b", str)
    second = await value(b)
    return await value(a) + second


ANYWHERE = [by_context_gather, by_nursery, made_before]
ASYNCIO = [by_asyncio_gather, by_asyncio_gather_bare, by_task_group]


async def one_round(handler: Any, version: str) -> None:
    server = Server("test")
    server.add_tool(handler, name="tool")
    async with driver(server, version) as wire:
        if wire.modern:
            first = await wire.call("tool")
            assert [(key, message_of(q)) for key, q in asked(first).items()] == [("elicit-1", "a"), ("elicit-2", "b")]
            second = await wire.call("tool", **retry(first, **{"elicit-1": accept("A"), "elicit-2": accept("B")}))
            assert text(second) == "AB"
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(wire.serve, wire.tool("tool"))
                a, b = await wire.next(), await wire.next()  # both before any answer
                assert [message_of(q) for q in (a, b)] == ["a", "b"]
                wire.answer(b, accept("B"))
                wire.answer(a, accept("A"))
            assert text(await wire.next()) == "AB"
        await wire.idle()


@pytest.mark.rule("P1", "R6", "R9")
@both_eras
@pytest.mark.parametrize("handler", ANYWHERE)
async def test_questions_made_together_go_out_in_one_round(handler: Any, version: str) -> None:
    await one_round(handler, version)


@pytest.mark.rule("P1")
@pytest.mark.case("A22")
@both_eras
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("handler", ASYNCIO)
async def test_questions_made_together_go_out_in_one_round_on_asyncio(handler: Any, version: str) -> None:
    await one_round(handler, version)


@pytest.mark.rule("P1")
@both_eras
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_questions_made_together_go_out_in_one_round_on_trio(version: str) -> None:
    await one_round(by_trio, version)


@pytest.mark.rule("P1")
@both_eras
async def test_the_order_of_awaiting_does_not_move_places(version: str) -> None:
    """Answers arrive one at a time, the first question's last."""
    server = Server("test")
    server.add_tool(made_before, name="tool")
    async with driver(server, version) as wire:
        if not wire.modern:
            assert text(await wire.rounds("tool", named)) == "<a><b>"
            return
        first = await wire.call("tool")
        second = await wire.call("tool", **retry(first, **{"elicit-2": accept("B")}))
        assert list(asked(second)) == ["elicit-1"]
        assert text(await wire.call("tool", **retry(second, **{"elicit-1": accept("A")}))) == "AB"


@pytest.mark.rule("P1")
@both_eras
async def test_a_question_that_nobody_awaits_is_asked_and_its_line_is_named(version: str) -> None:
    server = Server("test")
    where: list[int] = []

    @server.tool
    async def tool(ctx: Context) -> str:
        where.append(caller()[1] + 1)
        ctx.elicit("a", str)
        return "done"

    questions: list[str] = []

    def note(key: str, question: dict[str, Any]) -> Any:
        questions.append(message_of(question))
        return DECLINED

    async with driver(server, version) as wire:
        with pytest.warns(RuntimeWarning, match="never awaited") as caught:
            assert text(await wire.rounds("tool", note)) == "done"
        await wire.idle()
    assert questions == ["a"]
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, where[0])}


@both_eras
async def test_a_gather_that_nobody_awaits_names_each_of_its_questions(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        ctx.gather(ctx.elicit("a", str), ctx.elicit("b", str))
        return "done"

    async with driver(server, version) as wire:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            assert text(await wire.rounds("tool", named)) == "done"


@both_eras
async def test_an_error_to_a_question_that_nobody_awaits_does_no_harm(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        ctx.elicit("a", int)
        ctx.step("fails", lambda: 1 / 0)
        return "done"

    async with driver(server, version) as wire:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            assert text(await wire.rounds("tool", lambda key, q: accept("no number"))) == "done"


@pytest.mark.rule("R42")
@both_eras
async def test_the_first_failure_of_a_gather_withdraws_the_rest(version: str) -> None:
    """Nobody has to answer a question whose answer no one waits for."""
    server = Server("test")

    failed_once: list[bool] = []

    async def fail() -> None:
        failed_once.append(True)
        raise ValueError("no")

    @server.tool
    async def tool(ctx: Context) -> str:
        failing = ctx.step("fails", fail)
        while version == MODERN and not failed_once:  # there, the question would suspend first
            await anyio.lowlevel.checkpoint()
        try:
            await ctx.gather(failing, ctx.gather(ctx.elicit("a", str)))
        except StepError as error:
            return error.kind
        return "no failure"

    async with driver(server, version) as wire:
        await wire.serve(wire.tool("tool"))
        messages = [await wire.next() for _ in range(len(wire.session.stream))]
        assert text(messages[-1]) == "ValueError"
        if not wire.modern:
            question, cancelled, _ = messages
            assert cancelled["method"] == "notifications/cancelled"
            assert cancelled["params"]["requestId"] == question["id"]
        await wire.idle()


async def test_what_gather_does_not_take() -> None:
    async def other() -> None: ...

    coroutine = other()
    with pytest.raises(TypeError, match=r"ctx\.gather takes what ctx\.elicit"):
        Context().gather(coroutine)  # type: ignore[arg-type]
    coroutine.close()


async def test_a_question_is_a_coroutine() -> None:
    async def seven() -> int:
        return 7

    question: Question[int] = Question(seven)
    assert isinstance(question, collections.abc.Coroutine)
    assert not question.awaited
    assert await question == 7
    assert question.awaited
    with pytest.raises(RuntimeError, match="already awaited"):
        await question


async def test_closing_or_throwing_before_the_start_withdraws() -> None:
    async def never() -> int:
        raise AssertionError

    withdrawn: list[str] = []
    closed = Question(never, lambda: withdrawn.append("closed"))
    closed.close()
    thrown = Question(never, lambda: withdrawn.append("thrown"))
    with pytest.raises(KeyError):
        thrown.throw(KeyError())
    for question in (closed, thrown):
        with pytest.raises(RuntimeError, match="already awaited"):
            await question
    assert withdrawn == ["closed", "thrown"]


def test_wait_is_for_worker_threads() -> None:
    async def seven() -> int:
        return 7

    with pytest.raises(RuntimeError, match="synchronous handler"):
        Question(seven).wait()


@pytest.mark.rule("P3")
def test_suspend_is_no_exception_and_no_cancellation() -> None:
    assert not issubclass(Suspend, Exception | asyncio.CancelledError)
    assert "do not catch BaseException" in str(Suspend())


@pytest.mark.rule("P1")
@pytest.mark.parametrize("version", [LEGACY])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_never_began_withdraws_its_question(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        task = asyncio.create_task(ctx.elicit("a", str))
        task.cancel()
        await asyncio.wait([task])
        return "done"

    async with driver(server, version) as wire:
        await wire.serve(wire.tool("tool"))
        question, cancelled, response = [await wire.next() for _ in range(3)]
        assert cancelled["params"]["requestId"] == question["id"]
        assert text(response) == "done"
        await wire.idle()


def test_a_question_is_no_answer() -> None:
    async def no() -> bool:
        return False

    question = Question(no)
    with pytest.raises(TypeError, match="await it"):
        bool(question)
    question.close()


@pytest.mark.parametrize("use", [str, "{}".format, "%s".__mod__, lambda question: f"{question:>3}"])
def test_a_question_is_no_text(use: Any) -> None:
    question = Question(anyio.sleep_forever, where=("shop.py", 7))
    with pytest.raises(TypeError, match="await it"):
        use(question)
    assert repr(question) == "<question made at shop.py:7, not awaited>"
    question.close()
    assert repr(question) == "<question made at shop.py:7, awaited>"


@pytest.mark.parametrize("name", ["unwrap", "value", "text", "contains"])
def test_what_only_an_answer_has(name: str) -> None:
    question = Question(anyio.sleep_forever)
    with pytest.raises(AttributeError, match=rf"await it first: \(await ctx.elicit\(...\)\).{name}, .*\.wait\(\)"):
        getattr(question, name)
    assert not hasattr(question, "cr_frame") and not hasattr(question, "__len__")
    question.close()


@both_eras
async def test_a_thread_of_ones_own_cannot_ask(version: str) -> None:
    """Neither make a question nor wait for one."""
    server, seen = Server("test"), list[str]()

    def tried(action: Any) -> None:
        try:
            action()
        except RuntimeError as error:
            seen.append(str(error))

    @server.tool
    def tool(ctx: Context) -> str:
        question = ctx.elicit("a", str)
        for action in (lambda: ctx.elicit("b", str), question.wait):
            thread = threading.Thread(target=tried, args=[action])
            thread.start()
            thread.join()
        return str(question.wait().unwrap())

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", named)) == "<a>"
        await wire.idle()
    assert len(seen) >= 2 and all("in a thread of your own you cannot ask" in one for one in seen)


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        (lambda ctx: ctx.elicit(5, str), "the text of a question comes first, .* not 5"),
        (lambda ctx: ctx.elicit(str, "Size?"), "the text of a question comes first"),
        (lambda ctx: ctx.confirm(None), "the text of a question is a str, not None"),
        (lambda ctx: ctx.ask("Size?"), "ctx.ask takes a question"),
        (lambda ctx: ctx.ask(Elicit), "ctx.ask takes a question"),
        (lambda ctx: ctx.elicit("a", str, timeout="5"), "timeout is a number of at least 0, not '5'"),
        (lambda ctx: ctx.elicit("a", str, timeout=float("nan")), "timeout is a number"),
        (lambda ctx: ctx.elicit("a", str, retries=-1), "retries is a whole number of at least 0"),
        (lambda ctx: ctx.elicit("a", str, key=5), "a key is a text, not 5"),
        (lambda ctx: ctx.elicit_url("https://a.example", "Sign in"), "the text comes first"),
        (lambda ctx: ctx.background("j", later()), "ctx.background takes the function to run, not its coroutine"),
        (lambda ctx: ctx.background(later, "j"), "takes a name first"),
        (lambda ctx: ctx.step("s", later()), "ctx.step takes the function to run, not its coroutine"),
        (lambda ctx: ctx.step("s", 5), "ctx.step takes the function to run, not its result"),
    ],
)
async def test_what_is_no_question_is_told_at_its_line(wrong: Any, wanted: str) -> None:
    server, seen = Server("test"), list[str]()

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            wrong(ctx)
        except (TypeError, ValueError, ConfigurationError) as error:
            seen.append(str(error))
        return "done"

    async with driver(server) as wire:
        assert text(await wire.call("tool")) == "done"
    assert len(seen) == 1 and re.search(wanted, seen[0])


async def later() -> None: ...
