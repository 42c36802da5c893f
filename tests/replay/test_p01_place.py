"""P1: a question takes its place when it is called, whatever the code around it looks like, and is asked on every
wire."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from backchannel import Context
from backchannel.server.question import Question, caller
from tests.replay.wires import LIVE, ROUNDS, asyncio_only, every_wire, obliging, play, trio_only

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P1")]


async def value(question: Question[Any]) -> str:
    return str((await question).unwrap())


async def in_a_helper(ctx: Context) -> str:
    async def both(first: str, second: str) -> str:
        return await value(ctx.elicit(first, str)) + await value(ctx.elicit(second, str))

    return await both("a", "b") + await both("c", "d")


async def in_a_loop(ctx: Context) -> str:
    answers = []
    for name in "abcd":
        answers.append(await value(ctx.elicit(name, str)))
        if len(answers) == 2:
            answers.append(str(await ctx.step("count", lambda: len(answers))))
    return " ".join(answers)


async def in_a_loop_that_an_answer_ends(ctx: Context) -> str:
    turn = 0
    while not await ctx.confirm(f"enough after {turn}{'?' * (turn > 2)}"):
        turn += 1
    return str(turn)


async def in_a_comprehension(ctx: Context) -> str:
    questions = [ctx.elicit(name, str) for name in "ab"]
    first = [await value(question) for question in questions]
    second = {name: await value(ctx.elicit(name, str)) for name in "cd"}
    return f"{first} {second}"


async def in_an_asynchronous_generator(ctx: Context) -> str:
    async def answers() -> AsyncIterator[str]:
        try:
            for name in "abc":
                yield await value(ctx.elicit(name, str))
        finally:
            await anyio.lowlevel.checkpoint()

    return " ".join([answer async for answer in answers()])


async def made_by_a_generator(ctx: Context) -> str:
    def questions() -> Iterator[Question[Any]]:
        for name in "abc":
            yield ctx.elicit(name, str)

    return " ".join([await value(question) for question in questions()])


async def in_a_finally_block(ctx: Context) -> str:
    try:
        first = await value(ctx.elicit("a", str))
        raise ValueError(first)
    except ValueError as error:
        said = str(error)
    finally:
        last = await value(ctx.elicit("b", str))
    return said + last


async def in_an_exit(ctx: Context) -> str:
    said = []

    @contextlib.asynccontextmanager
    async def asking() -> AsyncIterator[None]:
        said.append(await value(ctx.elicit("enter", str)))
        try:
            yield
        finally:
            said.append(await value(ctx.elicit("exit", str)))

    async with asking(), asking():
        said.append(await value(ctx.elicit("inside", str)))
    return " ".join(said)


async def in_an_exit_after_an_error(ctx: Context) -> str:
    class Asking:
        async def __aenter__(self) -> None:
            pass

        async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool:
            return kind is ValueError and await ctx.confirm(f"ignore {error}?")

    async with Asking():
        raise ValueError(await value(ctx.elicit("a", str)))
    return "ignored"


async def awaited_backwards(ctx: Context) -> str:
    questions = [ctx.elicit(name, str) for name in "abc"]
    return " ".join([await value(question) for question in reversed(questions)])


async def gathered_and_gathered_again(ctx: Context) -> str:
    inner = ctx.gather(ctx.elicit("a", str), ctx.step("one", lambda: 1))
    both = await ctx.gather(inner, ctx.elicit("b", str))
    return repr((both, await ctx.gather()))


async def under_a_timeout(ctx: Context) -> str:
    with anyio.fail_after(1000):
        first = await value(ctx.elicit("a", str))
    with anyio.move_on_after(1000):
        return first + await value(ctx.elicit("b", str))
    return "late"


async def in_a_nursery(ctx: Context) -> str:
    answers: dict[str, str] = {}

    async def keep(question: Question[Any], name: str) -> None:
        answers[name] = await value(question)

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(keep, ctx.elicit(name, str), name)
        answers["own"] = await value(ctx.elicit("own", str))
    return repr(sorted(answers.items()))


def in_a_thread(ctx: Context) -> str:
    def ask(name: str) -> str:
        return str(ctx.elicit(name, str).wait().unwrap())

    first, second = ctx.elicit("a", str), ctx.elicit("b", str)
    said = [str(second.wait().unwrap()), str(first.wait().unwrap())]
    try:
        said += [ask(name) for name in "cd"]
    finally:
        said.append(ask("e"))
    said.append(str(ctx.step("count", lambda: len(said)).wait()))
    return " ".join([*said, str(ctx.gather(ctx.elicit("f", str), ctx.elicit("g", str)).wait())])


async def by_asyncio_gather(ctx: Context) -> str:
    return repr(await asyncio.gather(*(ctx.elicit(name, str) for name in "abc")))


async def by_a_task_group(ctx: Context) -> str:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(value(ctx.elicit(name, str))) for name in "abc"]
    return repr([task.result() for task in tasks])


async def by_wait_for(ctx: Context) -> str:
    first = await asyncio.wait_for(ctx.elicit("a", str), 1000)
    async with asyncio.timeout(1000):
        second = await ctx.elicit("b", str)
    return repr((first, second))


async def as_they_come(ctx: Context) -> str:
    questions = [ctx.elicit(name, str) for name in "abc"]
    return repr(sorted([(await each).unwrap() for each in asyncio.as_completed(questions)]))


async def by_wait(ctx: Context) -> str:
    tasks = [asyncio.create_task(value(ctx.elicit(name, str))) for name in "abc"]
    await asyncio.wait(tasks)
    return repr([task.result() for task in tasks])


async def by_a_trio_nursery(ctx: Context) -> str:
    import trio

    answers: dict[str, str] = {}

    async def keep(question: Question[Any], name: str) -> None:
        answers[name] = await value(question)

    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(keep, ctx.elicit(name, str), name)
    return repr(sorted(answers.items()))


ABC = [{"a", "b", "c"}]
ANYWHERE: list[tuple[Any, list[set[str]]]] = [
    (in_a_helper, [{"a"}, {"b"}, {"c"}, {"d"}]),
    (in_a_loop, [{"a"}, {"b"}, {"c"}, {"d"}]),
    (in_a_loop_that_an_answer_ends, [{"enough after 0"}, {"enough after 1"}, {"enough after 2"}, {"enough after 3?"}]),
    (in_a_comprehension, [{"a", "b"}, {"c"}, {"d"}]),
    (in_an_asynchronous_generator, [{"a"}, {"b"}, {"c"}]),
    (made_by_a_generator, [{"a"}, {"b"}, {"c"}]),
    (in_a_finally_block, [{"a"}, {"b"}]),
    (in_an_exit, [{"enter"}, {"enter"}, {"inside"}, {"exit"}, {"exit"}]),
    (in_an_exit_after_an_error, [{"a"}, {"ignore <a>?"}]),
    (awaited_backwards, ABC),
    (gathered_and_gathered_again, [{"a", "b"}]),
    (under_a_timeout, [{"a"}, {"b"}]),
    (in_a_nursery, [{"a", "b", "c", "own"}]),
    (in_a_thread, [{"a", "b"}, {"c"}, {"d"}, {"e"}, {"f", "g"}]),
]
ON_ASYNCIO: list[tuple[Any, list[set[str]]]] = [
    (by_asyncio_gather, ABC),
    (by_a_task_group, ABC),
    (by_wait_for, [{"a"}, {"b"}]),
    (as_they_come, ABC),
    (by_wait, ABC),
]


def person(question: str) -> Any:
    if question.startswith("enough") and not question.endswith("?"):
        return {"action": "decline"}
    return obliging(question)


async def alike(handler: Any, together: list[set[str]]) -> None:
    """The same on every wire as live, and what was made together goes out together."""
    live = await play(LIVE, handler, person)
    assert not str(live.end).startswith("error"), live
    for how in ("replayed", "rounds", "replicas", "stored"):
        seen = await play(how, handler, person)
        assert seen.end == live.end, how
        assert sorted(seen.questions) == sorted(live.questions), how
        if how != "replayed":
            assert seen.together == together and seen.rounds == len(together) + 1, how


@pytest.mark.parametrize(("handler", "together"), ANYWHERE)
async def test_code_of_every_shape_is_replayed(handler: Any, together: list[set[str]]) -> None:
    await alike(handler, together)


@asyncio_only
@pytest.mark.parametrize(("handler", "together"), ON_ASYNCIO)
async def test_code_of_every_shape_is_replayed_on_asyncio(handler: Any, together: list[set[str]]) -> None:
    await alike(handler, together)


@trio_only
async def test_code_of_every_shape_is_replayed_on_trio() -> None:
    await alike(by_a_trio_nursery, ABC)


@every_wire
@pytest.mark.parametrize("sync", [False, True])
async def test_what_was_made_is_asked_even_if_nobody_waits_and_its_line_is_named(how: str, sync: bool) -> None:
    lines: list[int] = []
    ran: list[str] = []

    def make(ctx: Context) -> None:
        lines.append(caller()[1] + 1)
        ctx.elicit("a", str)
        ctx.sample("b")
        ctx.step("work", lambda: ran.append("worked"))

    async def asynchronous(ctx: Context) -> str:
        make(ctx)
        return "done"

    def synchronous(ctx: Context) -> str:
        make(ctx)
        return "done"

    def person(question: str) -> Any:
        return (
            {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"} if question == "b" else None
        )

    with pytest.warns(RuntimeWarning, match="never awaited") as caught:
        seen = await play(how, synchronous if sync else asynchronous, lambda q: obliging(q) if q == "a" else person(q))
    assert seen.end == "done" and sorted(seen.questions) == ["a", "b"] and ran == ["worked"]
    assert {(one.filename, one.lineno) for one in caught} == {(__file__, lines[0] + n) for n in range(3)}
    if how == ROUNDS:
        assert seen.together == [{"a", "b"}]


@every_wire
@pytest.mark.parametrize("step", [False, True])
async def test_a_question_whose_waiter_was_cancelled_is_withdrawn(how: str, step: bool) -> None:
    """Live, the client is told so. With rounds it is not asked in the first place."""

    async def tool(ctx: Context) -> str:
        async def fail() -> None:
            raise ValueError

        async def wait(question: Question[Any]) -> None:
            await question

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(wait, ctx.elicit("a", str))
                group.start_soon(fail)
        except* ValueError:
            pass
        after = await ctx.step("after", lambda: "stepped") if step else ""
        return str(after) + await value(ctx.elicit("b", str))

    seen = await play(how, tool)
    assert seen.end == ("stepped" if step else "") + "<b>"
    assert seen.questions == (["a", "b"] if how == LIVE else ["b"])


@every_wire
async def test_a_time_that_is_over_before_the_question_is_over_on_every_wire(how: str) -> None:
    """What the handler does then takes the places after it."""

    async def tool(ctx: Context) -> str:
        with anyio.move_on_after(0):
            return await value(ctx.elicit("a", str))
        late = await ctx.step("late", lambda: "late")
        return str(late) + await value(ctx.elicit("b", str))

    assert (await play(how, tool)).end == "late<b>"
