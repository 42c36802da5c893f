"""Replay: what a later round recognises, takes, refuses, and does not say again."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel, Field

from backchannel import AskTimeout, Context, InvalidAnswer, JournalMismatch, RequestState, Server
from tests.server.replay import (
    DECLINED,
    MODERN,
    ROOTS,
    SAMPLE,
    YES,
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


# P6: what is compared.


@pytest.mark.rule("P6")
@pytest.mark.case("A22")
@pytest.mark.parametrize("swallow", [False, True])
async def test_a_branch_that_flips_is_refused_and_no_answer_is_misused(swallow: bool) -> None:
    server, answers = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        order = ["keep the files?", "delete the files?"]
        try:
            for text in order if ctx.round == 1 else reversed(order):
                answers.append(await ctx.confirm(text))
        except Exception:
            if not swallow:
                raise
        return "done"

    async with driver(server) as wire:
        first = await wire.call("tool")
        assert message_of(asked(first)["elicit-1"]) == "keep the files?"
        error = (await wire.call("tool", **retry(first, **{"elicit-1": YES})))["error"]
    assert error["code"] == -32602
    assert "'keep the files?'" in error["message"] and "'delete the files?'" in error["message"]
    assert error["data"] == {"recorded": "elicit 'keep the files?'", "asked": "elicit 'delete the files?'"}
    assert answers == []


@pytest.mark.rule("P6")
async def test_after_a_mismatch_nothing_else_works(caplog: pytest.LogCaptureFixture) -> None:
    server, errors = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        operations: list[Callable[[], Any]] = [
            lambda: ctx.confirm(f"sure in round {ctx.round}?"),
            lambda: ctx.confirm("other?"),
            lambda: ctx.progress(1),
            lambda: ctx.step("work", lambda: errors.append("ran")),
        ]
        ctx.confirm("made?", key="made")  # and never awaited
        for operation in operations if ctx.round > 1 else operations[:1]:
            try:
                await operation()
            except Exception as error:
                errors.append(type(error))
        return "done"

    async with driver(server) as wire:
        first = await wire.call("tool")
        response = await wire.call("tool", **retry(first, **{"elicit-1": YES}), _meta={"progressToken": 1})
        assert response["error"]["code"] == -32602
        assert wire.told == []
    assert errors == [JournalMismatch] * 4
    assert "sure in round 1?" in caplog.text


CHANGES: dict[str, tuple[Callable[[Context], Any], Callable[[Context], Any], Any]] = {
    "the text": (lambda c: c.elicit("a", str), lambda c: c.elicit("b", str), accept("x")),
    "the form": (lambda c: c.elicit("a", str), lambda c: c.elicit("a", int), accept("x")),
    "the kind": (lambda c: c.elicit("a", str), lambda c: c.sample("a"), accept("x")),
    "the mode": (lambda c: c.elicit("a", None), lambda c: c.elicit_url("a", "https://a"), {"action": "accept"}),
    "to a step": (lambda c: c.elicit("a", str), lambda c: c.step("a", str), accept("x")),
    "a long text": (lambda c: c.elicit("a" * 300, str), lambda c: c.elicit("a" * 299 + "b", str), accept("x")),
    "the conversation": (lambda c: c.sample("a"), lambda c: c.sample("b"), SAMPLE),
    "the options of sampling": (lambda c: c.sample("a"), lambda c: c.sample("a", temperature=1.0), SAMPLE),
    "the form, by key": (lambda c: c.elicit("a", str, key="k"), lambda c: c.elicit("a", int, key="k"), accept("x")),
    "the kind, by key": (lambda c: c.elicit("a", str, key="k"), lambda c: c.roots(key="k"), accept("x")),
}


@pytest.mark.rule("P6")
@pytest.mark.parametrize(("before", "after", "given"), CHANGES.values(), ids=list(CHANGES))
async def test_an_answered_question_has_to_be_the_same_again(before: Any, after: Any, given: Any) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await (before if ctx.round == 1 else after)(ctx))

    async with driver(server) as wire:
        first = await wire.call("tool")
        (key,) = asked(first)
        assert (await wire.call("tool", **retry(first, **{key: given})))["error"]["code"] == -32602


@pytest.mark.rule("P6")
@pytest.mark.parametrize(("before", "after", "given"), CHANGES.values(), ids=list(CHANGES))
async def test_an_open_question_gives_way_to_what_is_asked_now(before: Any, after: Any, given: Any) -> None:
    """Only the answer of the second round can be for the second question."""
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        await (before if ctx.round == 1 else after)(ctx)
        return f"round {ctx.round}"

    async with driver(server) as wire:
        first = await wire.call("tool")
        asked(first)
        second = await wire.call("tool", **retry(first))
        if after is CHANGES["to a step"][1]:
            assert text(second) == "round 2"
            return
        ((key, again),) = asked(second).items()
        number = "integer" in str(again)
        answers = {"roots/list": ROOTS, "sampling/createMessage": SAMPLE}
        given = answers.get(again["method"], {"action": "accept", "content": {"value": 7 if number else "x"}})
        assert text(await wire.call("tool", **retry(second, **{key: given}))) == "round 3"


@pytest.mark.rule("P6")
@pytest.mark.case("A16")
async def test_with_a_key_the_text_may_change() -> None:
    server, clock, shown = Server("test"), iter(range(100)), []

    @server.tool
    async def pay(ctx: Context) -> str:
        return repr(await ctx.confirm(f"Pay at {next(clock)}?", key="pay"))

    @server.tool
    async def ask(ctx: Context) -> str:
        message = await ctx.sample(f"The time is {next(clock)}", system=f"Be quick, {next(clock)}", key="s")
        return message.text

    async with driver(server) as wire:

        def answer(key: str, question: dict[str, Any]) -> Any:
            shown.append(key)
            return YES if key == "pay" else SAMPLE

        assert text(await wire.rounds("pay", answer)) == "True"
        assert text(await wire.rounds("ask", answer)) == "hello"
    assert shown == ["pay", "s"]


@pytest.mark.rule("P6")
@pytest.mark.case("A16")
async def test_without_a_key_a_text_that_changes_fails_in_the_second_round() -> None:
    server, clock = Server("test"), iter(range(100))

    @server.tool
    async def pay(ctx: Context) -> str:
        return repr(await ctx.confirm(f"Pay at {next(clock)}?"))

    async with driver(server) as wire:
        first = await wire.call("pay")
        error = (await wire.call("pay", **retry(first, **{"elicit-1": YES})))["error"]
    assert error["code"] == -32602
    assert "'Pay at 0?'" in error["message"] and "'Pay at 1?'" in error["message"]
    assert "give the question a key" in error["message"]


@both_eras
async def test_a_key_is_used_once(version: str) -> None:
    server, errors = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.confirm("a?", key="same")
        for make in (lambda: ctx.confirm("b?", key="same"), lambda: ctx.step("c", str, key="same")):
            try:
                make()
            except ValueError as error:
                errors.append(str(error))
        return "done"

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "done"
    assert errors == ["the key 'same' is used twice in one call"] * 2


@both_eras
@pytest.mark.parametrize("key", ["", "a~2", "\n", "a\x00"])
async def test_what_is_no_key(key: str, version: str) -> None:
    server = Server("test", debug=True)

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(ctx.confirm("a?", key=key))

    async with driver(server, version) as wire:
        assert "is not printable text without '~'" in failed(await wire.call("tool"))


# P7: what answers do.


@pytest.mark.rule("P7", "R125", "R101")
async def test_unknown_keys_are_ignored_and_missing_answers_asked_again() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        a, b = await ctx.gather(ctx.elicit("a", str), ctx.elicit("b", str, key="odd key/é"))
        return a.unwrap() + b.unwrap()

    async with driver(server) as wire:
        first = await wire.call("tool")
        assert list(asked(first)) == ["elicit-1", "odd key/é"]
        second = await wire.call(
            "tool", **retry(first, **{"odd key/é": accept("B"), "elicit-2": 1, "": None, "\ntold": 2})
        )
        assert list(asked(second)) == ["elicit-1"]
        again = retry(second, **{"elicit-1": accept("A"), "odd key/é": accept("changed")})
        assert text(await wire.call("tool", **again)) == "AB"


@pytest.mark.rule("P7")
async def test_a_retry_without_any_answers_asks_the_same_again() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server) as wire:
        first = await wire.call("tool")
        second = await wire.call("tool", requestState=first["result"]["requestState"])
        assert asked(second) == asked(first)
        assert text(await wire.call("tool", **retry(second, **{"elicit-1": YES}))) == "True"


SHAPES: list[tuple[str, Any]] = [
    ("elicit", None),
    ("elicit", "accept"),
    ("elicit", []),
    ("elicit", {}),
    ("elicit", {"action": "maybe"}),
    ("elicit", {"action": "accept", "content": [1]}),
    ("elicit", SAMPLE),
    ("sample", {"role": "assistant", "content": "text", "model": "m"}),
    ("sample", {**SAMPLE, "role": "robot"}),
    ("sample", YES),
    ("roots", {}),
    ("roots", {"roots": [{"name": "no uri"}]}),
    ("roots", {"roots": {}}),
]


@pytest.mark.rule("P7", "R21")
@pytest.mark.parametrize(("kind", "given"), SHAPES)
async def test_an_answer_of_the_wrong_shape_is_refused_before_the_handler_runs(kind: str, given: Any) -> None:
    server, rounds = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        rounds.append(ctx.round)
        return repr(await {"elicit": ctx.confirm, "sample": ctx.sample, "roots": lambda _: ctx.roots()}[kind]("a"))

    async with driver(server) as wire:
        first = await wire.call("tool")
        error = (await wire.call("tool", **retry(first, **{f"{kind}-1": given})))["error"]
    assert error["code"] == -32602
    assert f"inputResponses['{kind}-1'] is no answer" in error["message"]
    assert rounds == [1]


class Age(BaseModel):
    age: int = Field(ge=0, le=150)


@pytest.mark.rule("P7", "R39")
@pytest.mark.case("B21")
@both_eras
async def test_an_invalid_answer_is_asked_again_with_the_reason(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        outcome = await ctx.elicit("Your age?", Age, retries=2)
        return str(outcome.unwrap().age)

    shown: list[str] = []
    given = iter([{"age": "old"}, {"age": 200}, {"age": 30}])

    def answer(key: str, question: dict[str, Any]) -> Any:
        shown.append(message_of(question))
        return {"action": "accept", "content": next(given)}

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", answer)) == "30"
        await wire.idle()
    assert shown[0] == "Your age?"
    assert all(message.startswith("Your age?\n\nThe last answer would not do: age: ") for message in shown[1:])
    assert '"old"' in shown[1] and "150" in shown[2]


@pytest.mark.rule("P7")
@pytest.mark.case("B21")
@both_eras
async def test_too_many_invalid_answers_are_a_typed_error_with_all_fields(version: str) -> None:
    server, errors = Server("test"), []

    class Both(BaseModel):
        age: int
        name: str

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await ctx.elicit("Who?", Both, retries=2)
        except InvalidAnswer as error:
            errors.append(error.errors)
            raise
        return "never"

    shown = []

    def answer(key: str, question: dict[str, Any]) -> Any:
        shown.append(key)
        return {"action": "accept", "content": {"age": "x", "name": 1}}

    async with driver(server, version) as wire:
        assert "age" in failed(await wire.rounds("tool", answer))
    assert len(shown) == 3
    if version == MODERN:
        assert shown == ["elicit-1", "elicit-1~2", "elicit-1~3"]
    assert [[error.split(":")[0] for error in one] for one in errors] == [["age", "name"]]


@pytest.mark.case("B21")
@both_eras
@pytest.mark.parametrize(
    ("given", "wanted"), [({"action": "cancel", "content": None}, "Cancelled"), (DECLINED, "Declined")]
)
async def test_refusals_parse(given: Any, wanted: str, version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return type(await ctx.elicit("Your age?", Age, retries=2)).__name__

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: given)) == wanted


@pytest.mark.rule("P7")
async def test_several_invalid_answers_are_asked_again_in_one_round() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        a, b = await ctx.gather(ctx.elicit("a", int, retries=1), ctx.elicit("b", int, retries=1))
        return f"{a.unwrap()} {b.unwrap()}"

    async with driver(server) as wire:
        first = await wire.call("tool")
        second = await wire.call("tool", **retry(first, **{"elicit-1": accept("x"), "elicit-2": accept("y")}))
        assert set(asked(second)) == {"elicit-1~2", "elicit-2~2"}
        answers = {"elicit-1~2": accept(1), "elicit-2~2": accept(2)}
        assert text(await wire.call("tool", **retry(second, **answers))) == "1 2"


# P9: what is not said again.

TELL = {"_meta": {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}}


async def tell(ctx: Context, value: float) -> None:
    await ctx.progress(value)
    await ctx.log("info", value)


async def say(ctx: Context, value: float) -> None:
    """As `tell`, from lines of its own."""
    await ctx.progress(value)
    await ctx.log("info", value)


async def in_sequence(ctx: Context) -> str:
    await tell(ctx, 1)
    await ctx.confirm("a?")
    await tell(ctx, 2)
    await tell(ctx, 3)
    await ctx.confirm("b?")
    await tell(ctx, 4)
    return "done"


async def made_together(ctx: Context) -> str:
    await tell(ctx, 1)
    a, b = ctx.confirm("a?"), ctx.confirm("b?")
    await tell(ctx, 2)
    await a
    await tell(ctx, 3)
    await b
    await tell(ctx, 4)
    return "done"


async def made_together_awaited_backwards(ctx: Context) -> str:
    a, b = ctx.confirm("a?"), ctx.confirm("b?")
    await tell(ctx, 1)
    await b
    await tell(ctx, 2)
    await a
    await tell(ctx, 3)
    await tell(ctx, 4)
    return "done"


async def in_tasks(ctx: Context) -> str:
    async def one(key: str, value: float) -> None:
        await tell(ctx, value)
        await ctx.confirm(f"{key}?", key=key)
        await say(ctx, value + 2)

    async with anyio.create_task_group() as group:
        group.start_soon(one, "elicit-1", 1)
        group.start_soon(one, "elicit-2", 2)
    return "done"


async def never_awaited(ctx: Context) -> str:
    await tell(ctx, 1)
    ctx.confirm("a?")
    await tell(ctx, 2)
    ctx.confirm("b?")
    await tell(ctx, 3)
    await tell(ctx, 4)
    return "done"


@pytest.mark.rule("P9", "R140", "R60")
@pytest.mark.filterwarnings("ignore:a question or step was made:RuntimeWarning")
@pytest.mark.parametrize(
    "handler", [in_sequence, made_together, made_together_awaited_backwards, in_tasks, never_awaited]
)
@pytest.mark.parametrize("first", ["both", "elicit-1", "elicit-2", "none"])
async def test_nothing_is_told_twice_and_progress_never_goes_back(handler: Any, first: str) -> None:
    """Whichever of the questions is answered first."""
    server = Server("test")
    server.add_tool(handler, name="tool")
    round = 0

    async with driver(server) as wire:
        retrying: dict[str, Any] = {}
        while True:
            round += 1
            response = await wire.call("tool", **TELL, **retrying)
            if response["result"]["resultType"] == "complete":
                break
            given = {key: YES for key in asked(response) if round > 1 or first in ("both", key)}
            retrying = retry(response, **given)
        assert text(response) == "done"
        assert wire.progress == sorted(set(wire.progress)) and wire.progress[-1] == 4
        assert sorted(wire.logged) == [1, 2, 3, 4]
        if handler is not in_tasks:
            assert wire.progress == wire.logged == [1, 2, 3, 4]


@pytest.mark.rule("P9")
async def test_what_is_told_in_one_round_only_hides_nothing_in_the_next() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        if ctx.round == 1:
            await ctx.log("info", "starting")
        await ctx.confirm("a?")
        if ctx.round == 2:
            await ctx.log("info", "going on")
        await ctx.confirm("b?")
        await ctx.log("info", "ending")
        return "done"

    async with driver(server) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES, **TELL)) == "done"
        assert wire.logged == ["starting", "going on", "ending"]


@pytest.mark.rule("P9")
async def test_what_a_round_did_not_come_to_stays_told() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        if ctx.round == 2:
            await ctx.log("info", "even")
        else:
            await ctx.log("info", "odd")
        await ctx.confirm("a?")
        await ctx.confirm("b?")
        return "done"

    async with driver(server) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES, **TELL)) == "done"
        assert wire.logged == ["odd", "even"]


@pytest.mark.rule("P9")
async def test_rounds_that_run_in_one_task_know_nothing_of_each_other() -> None:
    """As under an ASGI client in the process: what a context variable was set to stays."""
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        await tell(ctx, 1)
        await ctx.confirm("a?", key="a")
        await tell(ctx, 2)
        await ctx.confirm("b?", key="b")
        return "done"

    async with driver(server) as wire:
        for _ in range(2):
            assert text(await wire.rounds("tool", lambda *_: YES, **TELL)) == "done"
        assert wire.logged == wire.progress == [1, 2] * 2


# P14: deadlines.


@pytest.mark.rule("P14")
@pytest.mark.parametrize("given", [{"elicit-1": YES}, {}])
async def test_an_answer_that_comes_too_late_is_a_timeout_in_every_later_round(given: dict[str, Any]) -> None:
    """So is none at all: there is no use in asking again."""
    now, seen = [1000.0], []
    server = Server("test", state=RequestState(clock=lambda: now[0]))

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await ctx.confirm("in time?", timeout=60)
        except AskTimeout as error:
            seen.append(str(error))
        await ctx.confirm("and now?")
        return "done"

    async with driver(server) as wire:
        first = await wire.call("tool")
        now[0] += 61
        second = await wire.call("tool", **retry(first, **given))
        assert list(asked(second)) == ["elicit-2"]
        now[0] -= 30
        assert text(await wire.call("tool", **retry(second, **{"elicit-1": YES, "elicit-2": YES}))) == "done"
    assert seen == ["the client did not answer elicitation/create in time"] * 2


@pytest.mark.rule("P14")
async def test_the_deadline_of_a_question_does_not_move() -> None:
    now = [1000.0]
    server = Server("test", state=RequestState(clock=lambda: now[0]))

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("in time?", timeout=60))

    async with driver(server) as wire:
        response = await wire.call("tool")
        for _ in range(2):
            now[0] += 25
            response = await wire.call("tool", **retry(response))
            asked(response)
        now[0] += 25
        assert "in time" in failed(await wire.call("tool", **retry(response, **{"elicit-1": YES})))


# Chains, and what the journal costs.


@pytest.mark.rule("R106", "P11")
@pytest.mark.case("A03")
@pytest.mark.parametrize("depth", [3, 10])
async def test_a_chain_of_questions_asks_each_once(depth: int) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        given = "start"
        for _ in range(depth):
            given += (await ctx.elicit(f"after {given}?", str)).unwrap()
        return given

    shown: list[str] = []
    exchanges = set()

    def answer(key: str, question: dict[str, Any]) -> Any:
        shown.append(message_of(question))
        exchanges.add(id(wire.last))
        return accept(str(len(shown) % 10))

    async with driver(server) as wire:
        response = await wire.rounds("tool", answer)
    digits = "".join(str(n % 10) for n in range(1, depth + 1))
    assert text(response) == f"start{digits}"
    assert shown == [f"after start{digits[:n]}?" for n in range(depth)]
    assert response["id"] == 100 + depth + 1


async def test_a_long_text_costs_little_state() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return (await ctx.sample("a long document " * 10_000)).text

    async with driver(server) as wire:
        first = await wire.call("tool")
        assert len(first["result"]["requestState"]) < 2000
        assert text(await wire.call("tool", **retry(first, **{"sample-1": SAMPLE}))) == "hello"


async def test_a_journal_that_another_release_wrote_is_a_state_that_does_not_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from backchannel.server.state import Flow

    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return repr(await ctx.confirm("sure?"))

    async with driver(server) as wire:
        await wire.call("tool")
        assert wire.last is not None
        binding = wire.dispatcher._binding(wire.last)
        for journal in (b"[]", b"{", b'["x"]'):
            token = server.state.seal(Flow("id", 1, server.state.clock(), journal), binding, server.name)
            with caplog.at_level(logging.ERROR):
                error = (await wire.call("tool", requestState=token))["error"]
            assert error == {"code": -32602, "message": "Invalid or expired requestState"}
    assert not caplog.records
