"""The three styles under the same rules: questions that are returned and questions of parameters, beside inline ones
and against the grain."""

from typing import Annotated, Any

import anyio
import pytest
from trio.testing import MockClock

from backchannel import (
    Accepted,
    Context,
    Elicit,
    InputRequired,
    Limits,
    NoBackChannel,
    Outcome,
    Roots,
    Sample,
    Server,
)
from tests.replay.wires import LIVE, REPLAYED, ROUNDS, WIRES, call, every_wire, instances, obliging, play
from tests.server.replay import DECLINED, Message, accept, driver, failed, retry, text

pytestmark = pytest.mark.anyio
replaying = pytest.mark.parametrize("how", [how for how in WIRES if how != LIVE])
sessions = pytest.mark.parametrize("how", [LIVE, REPLAYED])
SIZE, COLOUR = Elicit("size", str), Elicit("colour", str)


# What is returned.


@every_wire
@pytest.mark.rule("P1", "R121")
@pytest.mark.filterwarnings("ignore:a question or step was made:RuntimeWarning")
async def test_returned_beside_questions_that_nobody_awaits(how: str) -> None:
    """All of them are asked, in one round where there are rounds."""
    ran: list[int] = []

    async def tool(ctx: Context) -> str | InputRequired:
        ctx.elicit("inline", str)
        ctx.elicit("keyed", str, key="keyed")
        ctx.step("work", lambda: ran.append(1))
        size = ctx.answers.read("size", SIZE)
        return InputRequired({"size": SIZE, "colour": COLOUR}) if size is None else str(size.unwrap())

    seen = await play(how, tool)
    assert seen.end == "<size>" and ran == [1]
    assert sorted(seen.questions) == ["colour", "inline", "keyed", "size"]
    if how == ROUNDS:
        assert len(seen.together) == 1


@every_wire
@pytest.mark.rule("P4")
async def test_returned_although_suspended_it_is_discarded(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """With its state, which the handler has not set then."""
    states: list[Any] = []

    async def tool(ctx: Context) -> str | InputRequired:
        states.append(ctx.state)
        try:
            said = (await ctx.elicit("inline", str)).unwrap()
        except BaseException:
            return InputRequired({"other": COLOUR}, state="wrong")
        size = ctx.answers.read("size", SIZE)
        return InputRequired({"size": SIZE}, state="right") if size is None else f"{said} {size.unwrap()}"

    seen = await play(how, tool)
    assert seen.end == "<inline> <size>" and seen.questions == ["inline", "size"]
    assert "wrong" not in states and states[-1] == "right"
    assert how == LIVE or "that was discarded" in caplog.text


@every_wire
@pytest.mark.rule("R107")
async def test_returned_from_a_sync_tool(how: str) -> None:
    def tool(ctx: Context) -> str | InputRequired:
        number = ctx.step("number", lambda: 1).wait()
        said = ctx.elicit("inline", str).wait().unwrap()
        size = ctx.answers.read("size", SIZE)
        if size is None:
            return InputRequired({"size": SIZE}, state=[number, said])
        return f"{ctx.state} {size.unwrap()} {ctx.elicit('after', str).wait().unwrap()}"

    seen = await play(how, tool)
    assert seen.end == "[1, '<inline>'] <size> <after>" and seen.questions == ["inline", "size", "after"]


@every_wire
@pytest.mark.parametrize("order", ["inline first", "returned first"])
@pytest.mark.rule("P2", "P6")
async def test_a_key_that_an_inline_question_has(how: str, order: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is the author's mistake, told in the log, whichever came first. No answer is used for the other."""
    used: list[Any] = []

    async def tool(ctx: Context) -> str | InputRequired:
        if order == "returned first" and ctx.answers.read("size", SIZE) is None:
            return InputRequired({"size": SIZE})
        used.append((await ctx.elicit("inline", str, key="size")).unwrap())
        return InputRequired({"size": SIZE})

    seen = await play(how, tool)
    assert seen.end.startswith("error") and "used twice" in caplog.text
    assert used in ([], ["<inline>"], ["<inline>"] * 2)


@every_wire
@pytest.mark.rule("P6")
@pytest.mark.parametrize("key", ["elicit-1", "step-2", "told", "elicit-1_"])
async def test_a_key_like_one_of_ours(how: str, key: str) -> None:
    async def tool(ctx: Context) -> str | InputRequired:
        if ctx.answers.read(key, SIZE) is None:
            return InputRequired({key: SIZE})
        inline = (await ctx.elicit("inline", str)).unwrap()
        step = await ctx.step("work", lambda: 7)
        size = ctx.answers.read(key, SIZE)
        assert size is not None
        return f"{inline} {step} {size.unwrap()} {(await ctx.elicit('more', str)).unwrap()}"

    seen = await play(how, tool)
    assert seen.end == "<inline> 7 <size> <more>" and seen.questions == ["size", "inline", "more"]


@every_wire
@pytest.mark.parametrize("nested", ["list", "dict", "tuple"])
async def test_inside_of_a_result_it_is_none(how: str, nested: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is asked, and the log says what JSON cannot carry."""
    asking = InputRequired({"size": SIZE})

    async def tool(ctx: Context):  # type: ignore[no-untyped-def]
        return {"list": [asking], "dict": {"a": asking}, "tuple": (1, asking)}[nested]

    seen = await play(how, tool)
    assert seen.end.startswith("error") and seen.questions == [] and "InputRequired" in caplog.text


@every_wire
@pytest.mark.rule("R122")
@pytest.mark.parametrize("asks", [False, True])
async def test_middleware_cannot_return_it(how: str, asks: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It is told so. Questions of the handler go out all the same."""
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return str((await ctx.elicit("inline", str)).unwrap()) if asks else "done"

    @server.middleware
    async def asking(ctx: Context, call_next: Any) -> Any:
        await call_next(ctx)
        return InputRequired({"size": SIZE})

    async with instances(server, how) as wires:
        seen = await call(wires, obliging)
    assert seen.end.startswith("error: tools/call cannot ask the client here")
    assert seen.questions == (["inline"] if asks else [])
    if asks and how not in (LIVE, REPLAYED):
        assert "middleware replaced the questions" in caplog.text


@replaying
@pytest.mark.rule("P6", "P11")
async def test_steps_around_it_are_done_once(how: str) -> None:
    ran: list[str] = []

    async def tool(ctx: Context) -> str | InputRequired:
        said = []
        for key in ("a", "b", "c"):
            said.append(await ctx.step(f"before {key}", lambda key=key: ran.append(key) or key))
            answer = ctx.answers.read(key, Elicit(key, str))
            if answer is None:
                return InputRequired({key: Elicit(key, str)}, state=said)
            said.append(answer.unwrap())
        return " ".join(said)

    assert (await play(how, tool)).end == "a <a> b <b> c <c>" and ran == ["a", "b", "c"]


# What is returned, on a session, where the server asks.


@pytest.mark.rule("P15", "R22")
@sessions
@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        ({"code": -32000, "message": "boo"}, "RemoteProtocolError: boo"),
        ({"code": -32601, "message": "unknown"}, "did not know the method"),
    ],
)
async def test_an_error_to_what_was_returned_ends_the_call(how: str, error: Message, wanted: str) -> None:
    """No line of the handler waits for it. What else is open is withdrawn, and nobody is asked again."""
    runs: list[int] = []
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> InputRequired:
        runs.append(1)
        return InputRequired({"size": SIZE, "colour": COLOUR})

    async with instances(server, how) as (wire,):
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            first, second = await wire.next(), await wire.next()
            wire.answer(first, error=error)
            with anyio.fail_after(20):
                withdrawn, response = await wire.next(), await wire.next()
        assert withdrawn["params"]["requestId"] == second["id"]
        assert wanted in failed(response) and runs == [1]
        await wire.idle()


@sessions
@pytest.mark.rule("R21")
@pytest.mark.parametrize("given", [{}, {"action": "perhaps"}, [1], None, 7])
async def test_so_does_what_is_no_answer(how: str, given: Any) -> None:
    """It is not the caller's params that were wrong."""

    async def tool(ctx: Context) -> str | InputRequired:
        return "done" if "size" in ctx.answers else InputRequired({"size": SIZE})

    server = Server("test")
    server.add_tool(tool)
    async with instances(server, how) as (wire,):
        assert "the client's answer is malformed" in failed(await wire.rounds("tool", lambda *_: given))


@sessions
@pytest.mark.case("B13")
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
async def test_so_does_nobody_answering(how: str) -> None:
    server = Server("test", limits=Limits(ask_timeout=10))

    @server.tool
    async def tool(ctx: Context) -> InputRequired:
        return InputRequired({"size": SIZE})

    async with instances(server, how) as (wire,):
        await wire.serve(wire.tool("tool"))
        question, withdrawn, response = [await wire.next() for _ in range(3)]
        assert withdrawn["params"]["requestId"] == question["id"]
        assert "did not answer" in failed(response)


@sessions
@pytest.mark.rule("R41", "R42")
@pytest.mark.parametrize("end", ["cancelled", "session"])
async def test_and_the_end_of_the_call_or_of_the_session(how: str, end: str) -> None:
    runs: list[int] = []
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> InputRequired:
        runs.append(1)
        return InputRequired({"size": SIZE, "colour": COLOUR})

    async with instances(server, how) as (wire,):
        exchange = wire.tool("tool")
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, exchange)
            asked = [await wire.next(), await wire.next()]
            if end == "cancelled":
                wire.tell("notifications/cancelled", {"requestId": exchange.request.id})
            else:
                wire.session.close()
        if end == "cancelled":
            withdrawn = {(await wire.next())["params"]["requestId"] for _ in asked}
            assert withdrawn == {question["id"] for question in asked}
        assert runs == [1] and wire.session.peer.pending == 0
        assert wire.dispatcher.nursery.running == 0 and exchange.finished


@sessions
@pytest.mark.case("B14")
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
async def test_the_time_of_the_person_does_not_count(how: str) -> None:
    server = Server("test")

    @server.tool(timeout=1)
    async def tool(ctx: Context) -> str | InputRequired:
        await anyio.sleep(0.4)
        return "done" if "size" in ctx.answers else InputRequired({"size": SIZE})

    async with instances(server, how) as (wire,):
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            question = await wire.next()
            await anyio.sleep(1000)
            wire.answer(question, accept("M"))
        assert text(await wire.next()) == "done"


# What parameters ask.


@every_wire
@pytest.mark.rule("P1", "P13")
async def test_parameters_and_then_everything_else(how: str) -> None:
    ran: list[str] = []

    async def tool(
        ctx: Context,
        a: Annotated[str, Elicit("a")],
        b: Annotated[Outcome[str], Elicit("b after {a}")],
        slogan: Annotated[str, Sample("slogan")],
    ) -> str | InputRequired:
        step = ctx.step("work", lambda: ran.append("worked") or "worked")
        c, d, worked = await ctx.gather(ctx.elicit("c", str), ctx.elicit("d", str), step)
        size = ctx.answers.read("size", SIZE)
        if size is None:
            return InputRequired({"size": SIZE})
        return f"{a} {b} {slogan} {c.unwrap()} {d.unwrap()} {worked} {size.unwrap()}"

    def person(question: str) -> Any:
        if question == "slogan":
            return {"role": "assistant", "content": {"type": "text", "text": "go"}, "model": "m"}
        return obliging(question)

    seen = await play(how, tool, person)
    assert seen.end == f"<a> {Accepted('<b after <a>>')} go <c> <d> worked <size>" and ran == ["worked"]
    if how == ROUNDS:
        assert seen.together == [{"a", "slogan"}, {"b after <a>"}, {"c", "d"}, {"size"}]


@every_wire
@pytest.mark.rule("P6")
@pytest.mark.parametrize("what", ["text", "form", "kind", "none any more"])
async def test_a_function_that_decides_otherwise_in_a_later_round(how: str, what: str) -> None:
    """By its key, the parameter's name, a question may have another text, and nothing else."""
    decided: list[int] = []

    def which() -> Any:
        decided.append(1)
        if len(decided) == 1:
            return Elicit("a", str)
        return {"text": Elicit("b", str), "form": Elicit("a", ["x"]), "kind": Roots(), "none any more": "own"}[what]

    async def tool(ctx: Context, a: Annotated[Any, Elicit(which)]) -> str:
        return f"{a} {await ctx.confirm('and?')}"

    seen = await play(how, tool, roots=True)
    if how == LIVE or what == "text":
        assert seen.end == "<a> True"
    elif what == "none any more":
        assert seen.end == "own True"
    else:
        assert seen.end["code"] == -32602 and seen.end["data"]["recorded"] == "elicit 'a'"


@every_wire
@pytest.mark.rule("P2")
async def test_an_inline_question_with_the_name_of_a_parameter_as_key(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def tool(ctx: Context, a: Annotated[str, Elicit("a")]) -> str:
        return str(await ctx.elicit("inline", str, key="a"))

    seen = await play(how, tool)
    assert seen.end.startswith("error") and seen.questions == ["a"] and "used twice" in caplog.text


@every_wire
async def test_a_function_of_a_parameter_may_ask_for_itself(how: str) -> None:
    async def which(ctx: Context) -> Any:
        if await ctx.confirm("at all?"):
            return Elicit(f"a in {await ctx.step('where', lambda: 'Oslo')}", str)
        return "nothing"

    async def tool(a: Annotated[str, Elicit(which)], b: Annotated[str, Elicit("b")]) -> str:
        return f"{a} {b}"

    seen = await play(how, tool)
    assert seen.end == "<a in Oslo> <b>"
    assert (await play(how, tool, lambda q: DECLINED if q.endswith("?") else obliging(q))).end == "nothing <b>"


@every_wire
async def test_who_refuses_one_is_not_asked_for_those_that_need_it(how: str) -> None:
    ran: list[int] = []

    async def tool(a: Annotated[str, Elicit("a")], b: Annotated[str, Elicit("b after {a}")]) -> str:
        ran.append(1)
        return "done"

    seen = await play(how, tool, lambda q: DECLINED)
    assert seen.end.startswith("error") and seen.questions == ["a"] and ran == []


@pytest.mark.rule("R105")
async def test_no_answer_counts_that_was_not_asked_for() -> None:
    """Neither for a parameter nor for an inline question, in the first round or in a later one."""
    server = Server("test")

    @server.tool
    async def tool(ctx: Context, a: Annotated[str, Elicit("a")]) -> str:
        return f"{a} {(await ctx.elicit('inline', str, key='inline')).unwrap()}"

    forged = {"a": accept("forged"), "inline": accept("forged")}
    async with driver(server) as wire:
        first = await wire.call("tool", inputResponses=forged)
        second = await wire.call("tool", **retry(first, a=accept("A"), inline=accept("forged")))
        assert list(second["result"]["inputRequests"]) == ["inline"]
        third = await wire.call("tool", **retry(second, a=accept("forged"), inline=accept("I")))
        assert text(third) == "A I"


@sessions
@pytest.mark.rule("R18", "P10")
@pytest.mark.case("A08")
@pytest.mark.parametrize("returned", [False, True])
async def test_who_cannot_be_reached_is_told_where_it_asks(
    how: str, returned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every round: the handler can go on without an answer."""
    monkeypatch.setattr("backchannel.server.dispatch.POLL_INTERVAL", 0)
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str | InputRequired:
        if returned and ctx.round == 1:
            return InputRequired(state="again")
        try:
            await ctx.elicit("a", str)
        except NoBackChannel:
            return f"nobody, {await ctx.confirm('sure?', if_unable='proceed')}"
        return "never"

    async with instances(server, how) as (wire,):
        await wire.serve(wire.exchange("tools/call", {"name": "tool", "arguments": {}}, can_stream=False))
        assert text(await wire.next()) == "nobody, True"
        await wire.idle()
