"""P6: what was answered or done has to be asked or done again at its place, or the call ends. Nothing is used for
another question."""

from collections.abc import Callable
from typing import Any

import pytest

from backchannel import Context, Server
from tests.replay.wires import LIVE, WIRES, every_wire, obliging, play
from tests.server.replay import YES, accept, asked, driver, retry, text

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P6")]
replaying = pytest.mark.parametrize("how", [how for how in WIRES if how != LIVE])


@replaying
@pytest.mark.case("A22")
@pytest.mark.parametrize("sync", [False, True])
async def test_a_branch_that_flips_ends_the_call(how: str, sync: bool) -> None:
    runs: list[int] = []
    used: list[Any] = []

    def order() -> list[str]:
        runs.append(1)
        return ["keep?", "delete?"] if len(runs) == 1 else ["delete?", "keep?"]

    async def asynchronous(ctx: Context) -> str:
        used.extend([(name, await ctx.confirm(name)) for name in order()])
        return "done"

    def synchronous(ctx: Context) -> str:
        for name in order():
            used.append((name, ctx.confirm(name).wait()))
        return "done"

    seen = await play(how, synchronous if sync else asynchronous)
    assert seen.end["code"] == -32602 and seen.questions == ["keep?"] and used == []
    assert seen.end["data"] == {"recorded": "elicit 'keep?'", "asked": "elicit 'delete?'"}
    assert "'keep?'" in seen.end["message"] and "'delete?'" in seen.end["message"]


@every_wire
async def test_a_branch_that_flips_does_no_harm_with_keys(how: str) -> None:
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        runs.append(1)
        names = ["a", "b", "c"]
        for name in names if len(runs) % 2 else reversed(names):
            assert (await ctx.elicit(name, str, key=name)).unwrap() == f"<{name}>"
        return "done"

    seen = await play(how, tool)
    assert seen.end == "done" and sorted(seen.questions) == ["a", "b", "c"]


CLOCKS: dict[str, Callable[[Context, int], Any]] = {
    "elicit": lambda ctx, now: ctx.elicit(f"at {now}", str, key="k"),
    "confirm": lambda ctx, now: ctx.confirm(f"at {now}?", key="k"),
    "sample": lambda ctx, now: ctx.sample(f"at {now}", system=f"it is {now}", key="k"),
    "url": lambda ctx, now: ctx.elicit_url(f"at {now}", f"https://example.test/{now}", key="k"),
    "step": lambda ctx, now: ctx.step(f"at {now}", lambda: "done", key="k"),
}


@every_wire
@pytest.mark.case("A16")
@pytest.mark.parametrize("kind", CLOCKS)
async def test_a_clock_in_the_text_does_no_harm_with_a_key(how: str, kind: str) -> None:
    ticks: list[int] = []

    async def tool(ctx: Context) -> str:
        ticks.append(1)
        got = await CLOCKS[kind](ctx, len(ticks))
        await ctx.confirm("and?")
        return repr(got)

    def person(question: str) -> Any:
        if kind == "sample" and question != "and?":
            return {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
        return {"action": "accept"} if kind == "url" and question != "and?" else obliging(question)

    seen = await play(how, tool, person)
    assert not str(seen.end).startswith("error") and "code" not in seen.end, seen
    assert seen.questions == ([] if kind == "step" else ["at 1" + "?" * (kind == "confirm")]) + ["and?"]


@replaying
@pytest.mark.case("A16")
async def test_a_clock_in_the_text_ends_the_call_without_one(how: str) -> None:
    ticks: list[int] = []

    async def tool(ctx: Context) -> str:
        ticks.append(1)
        return repr(await ctx.confirm(f"Pay at {len(ticks)}?"))

    seen = await play(how, tool)
    assert seen.end["code"] == -32602 and seen.questions == ["Pay at 1?"] and len(ticks) == 2
    assert "'Pay at 1?'" in seen.end["message"] and "'Pay at 2?'" in seen.end["message"]


CHANGES: dict[str, tuple[Callable[[Context], Any], Callable[[Context], Any]]] = {
    "another name": (lambda ctx: ctx.step("one", int), lambda ctx: ctx.step("two", int)),
    "a question": (lambda ctx: ctx.step("one", int), lambda ctx: ctx.confirm("one?")),
    "a failed one": (lambda ctx: ctx.step("one", lambda: 1 / 0), lambda ctx: ctx.step("two", int)),
    "a question by key": (lambda ctx: ctx.step("one", int, key="k"), lambda ctx: ctx.confirm("one?", key="k")),
}


@replaying
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("swallow", [False, True])
async def test_a_step_that_was_done_is_not_taken_for_another(how: str, change: str, swallow: bool) -> None:
    """Also if the handler catches the error."""
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        runs.append(1)
        try:
            try:
                await CHANGES[change][min(len(runs), 2) - 1](ctx)
            except ZeroDivisionError:
                raise AssertionError from None
        except Exception as error:
            if len(runs) > 1 and not swallow:
                raise
            assert runs == [1] * len(runs), error
        await ctx.confirm("and?")
        return "done"

    seen = await play(how, tool)
    assert seen.end["code"] == -32602 and seen.questions == ["and?"]
    assert seen.end["data"]["recorded"] == "step 'one'"


@pytest.mark.parametrize("answered", [True, False])
async def test_what_is_open_gives_way_and_its_answer_comes_too_late(answered: bool) -> None:
    """An answer to the question that went is not taken for one to the question in its place, not even rounds later."""
    server, texts = Server("test"), iter(["red?", "blue?", "blue?", "blue?"])

    @server.tool
    async def tool(ctx: Context) -> str:
        text = next(texts)
        other = ctx.elicit("other", str, key="other")
        return f"{text} {await ctx.confirm(text)} {(await other).unwrap()}"

    async with driver(server) as wire:
        first = await wire.call("tool")
        second = await wire.call("tool", **retry(first, other=accept("o")))
        (new,) = asked(second)
        assert new not in asked(first)
        old = {"elicit-1": YES} if answered else {}
        third = await wire.call("tool", **retry(second, **old))
        assert list(asked(third)) == [new]
        final = await wire.call("tool", **retry(third, **old, **{new: accept(False)}))
        assert text(final) == "blue? False o"


@replaying
@pytest.mark.parametrize("where", ["before", "between"])
async def test_a_question_that_comes_in_between_is_found(how: str, where: str) -> None:
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        runs.append(1)
        names = ["a", "b", "c"]
        if len(runs) == 3:
            names.insert(0 if where == "before" else 1, "new")
        return " ".join([(await ctx.elicit(name, str)).unwrap() for name in names])

    seen = await play(how, tool)
    assert seen.end["code"] == -32602 and seen.end["data"]["asked"] == "elicit 'new'"
    assert seen.end["data"]["recorded"] == ("elicit 'a'" if where == "before" else "elicit 'b'")


@replaying
async def test_what_falls_away_at_the_end_does_no_harm(how: str) -> None:
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        runs.append(1)
        names = ["a", "b", "c"][: 3 if len(runs) < 3 else 1]
        return " ".join([(await ctx.elicit(name, str)).unwrap() for name in names])

    assert (await play(how, tool)).end == "<a>"
