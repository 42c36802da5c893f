"""Cases from the field that are about many calls, or about what lies around one."""

import random
import threading
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
from trio.testing import MockClock

from backchannel import AskTimeout, Context, Limits, MemoryStateStore, Principal, RequestState, Server
from backchannel.server.dispatch import start
from tests.replay.wires import LIVE, ROUNDS, WIRES, call, every_wire, instances, obliging, play
from tests.server.replay import ALL, LEGACY, MODERN, YES, Driver, accept, both_eras, driver, message_of, retry, text

pytestmark = pytest.mark.anyio


@every_wire
@pytest.mark.case("A03")
@pytest.mark.parametrize("depth", [3, 10])
async def test_a_chain_in_which_each_question_holds_the_last_answer(how: str, depth: int) -> None:
    async def tool(ctx: Context) -> str:
        said = ["start"]
        for _ in range(depth):
            said.append((await ctx.elicit(f"after {said[-1]}", str)).unwrap())
        return " ".join(said[1:])

    answers = [f"answer {place}" for place in range(depth)]
    given = iter(answers)
    seen = await play(how, tool, lambda question: accept(next(given)))
    assert seen.end == " ".join(answers)
    assert seen.questions == [f"after {before}" for before in ["start", *answers[:-1]]]
    assert seen.rounds == (depth + 1 if how in WIRES[2:] else 1)


@every_wire
@pytest.mark.case("A09")
@pytest.mark.rule("P1", "P10")
async def test_one_body_asks_the_same_three_questions_on_every_wire(how: str) -> None:
    async def tool(ctx: Context) -> str:
        answer = (await ctx.elicit("A", str)).unwrap()
        sampled = await ctx.sample(f"about {answer}")
        return f"{answer} {sampled.text} {(await ctx.elicit(f'after {sampled.text}', str)).unwrap()}"

    def person(question: str) -> Any:
        if question.startswith("about"):
            return {"role": "assistant", "content": {"type": "text", "text": "text"}, "model": "m"}
        return obliging(question)

    seen = await play(how, tool, person)
    assert seen.end == "<A> text <after text>"
    assert seen.questions == ["A", "about <A>", "after text"]


@pytest.mark.case("A14")
@pytest.mark.rule("R122")
async def test_a_resource_and_a_prompt_that_ask_give_their_questions_as_they_are() -> None:
    """Not formatted as contents or messages, and with nothing on it that a cache would take."""
    server = Server("test")

    @server.prompt
    async def greet(ctx: Context) -> str:
        return f"Hello {(await ctx.elicit('name', str)).unwrap()}"

    @server.resource("note://{id}")
    async def note(ctx: Context, id: str) -> str:
        return f"{id} {(await ctx.elicit('name', str)).unwrap()}"

    async with driver(server) as wire:
        for method, params in (("prompts/get", {"name": "greet"}), ("resources/read", {"uri": "note://1"})):
            exchange = wire.exchange(method, params)
            await wire.serve(exchange)
            response = await wire.next()
            result = response["result"]
            assert result["resultType"] == "input_required"
            assert set(result) <= {"resultType", "inputRequests", "requestState", "_meta"}
            exchange = wire.exchange(method, {**params, **retry(response, **{"elicit-1": accept("Ada")})})
            await wire.serve(exchange)
            assert "Ada" in str(await wire.next())


@pytest.mark.case("A11")
async def test_what_wraps_results_finds_the_answers_in_the_second_round() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> dict[str, Any]:
        return {"answer": (await ctx.elicit("a", str)).unwrap(), "round": ctx.round}

    @server.middleware
    async def wrap(ctx: Context, call_next: Any) -> Any:
        result = await call_next(ctx)
        return result if ctx.round == 1 else {"wrapped": result.content[0].text}

    async with instances(server, ROUNDS) as wires:
        assert (await call(wires, obliging)).end == r'{"wrapped":"{\"answer\":\"<a>\",\"round\":2}"}'


@pytest.mark.case("A21")
@pytest.mark.rule("P5", "P11", "P13")
@every_wire
async def test_an_order_is_created_once(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Outside of a step it is created in each round, and the author is told so, once."""
    created: list[str] = []

    def create_order() -> str:
        created.append(f"order-{len(created) + 1}")
        return created[-1]

    async def careful(ctx: Context) -> str:
        id = await ctx.step("create", create_order)
        await ctx.confirm("a?")
        await ctx.confirm("b?")
        return str(id)

    async def careless(ctx: Context) -> str:
        create_order()
        await ctx.confirm("a?")
        await ctx.confirm("b?")
        return "done"

    assert (await play(how, careful)).end == "order-1" and created == ["order-1"]
    assert "create_order" not in caplog.text
    for _ in range(2):
        await play(how, careless)
    told = [one for one in caplog.records if "create_order(...) runs again" in one.getMessage()]
    assert len(told) == (0 if how == LIVE else 1)


# Many users at once.


@both_eras
@pytest.mark.case("B09")
async def test_each_user_gets_the_answer_of_its_own(version: str) -> None:
    """200 pairs of calls that overlap, answered in whatever order, under the same request ids."""
    server, chance = Server("test"), random.Random(9)

    @server.tool
    async def ask_name(ctx: Context, delay: int) -> str:
        for _ in range(delay):
            await anyio.lowlevel.checkpoint()
        assert ctx.principal is not None
        return f"{ctx.principal.subject}={(await ctx.elicit(f'name of {ctx.principal.subject}', str)).unwrap()}"

    async with start(server) as dispatcher:
        users = [Driver(dispatcher, version, {"elicitation": {}}, Principal(f"u{number}")) for number in (1, 2)]
        for user in users:
            await user.bring_up()

        async def one(user: Driver, name: str) -> None:
            def answer(key: str, question: Any) -> Any:
                assert message_of(question) == f"name of {name}"
                return accept(name)

            response = await user.rounds("ask_name", answer, {"delay": chance.randrange(4)})
            assert text(response) == f"{name}={name}"

        for _ in range(200):
            order = [(users[0], "u1"), (users[1], "u2")]
            chance.shuffle(order)
            async with anyio.create_task_group() as group:
                for user, name in order:
                    group.start_soon(one, user, name)


@pytest.mark.case("B09")
async def test_an_answer_from_another_session_is_nobodys() -> None:
    server = Server("test")

    @server.tool
    async def ask_name(ctx: Context) -> str:
        return str((await ctx.elicit("name", str)).unwrap())

    async with start(server) as dispatcher:
        first, second = (Driver(dispatcher, LEGACY, {"elicitation": {}}, Principal(name)) for name in ("u1", "u2"))
        for user in (first, second):
            await user.bring_up()
        async with anyio.create_task_group() as group:
            group.start_soon(first.serve, first.tool("ask_name"))
            question = await first.next()
            second.answer(question, accept("forged"))
            await anyio.wait_all_tasks_blocked()
            assert len(first.session.stream) == 0
            first.answer(question, accept("u1"))
        assert text(await first.next()) == "u1"


@pytest.mark.case("B09")
async def test_nor_is_a_state_of_another_user() -> None:
    server = Server("test")

    @server.tool
    async def ask_name(ctx: Context) -> str:
        return str((await ctx.elicit("name", str)).unwrap())

    async with start(server) as dispatcher:
        first, second = (Driver(dispatcher, MODERN, ALL, Principal(name)) for name in ("u1", "u2"))
        response = await first.call("ask_name")
        again = retry(response, **{"elicit-1": accept("u1")})
        assert (await second.call("ask_name", **again))["error"]["code"] == -32602
        assert text(await first.call("ask_name", **again)) == "u1"


@pytest.mark.case("B13")
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock()})])
@pytest.mark.parametrize("sync", [False, True])
async def test_clients_that_never_answer_take_no_threads_and_hold_nobody_up(sync: bool) -> None:
    """Every question has an end, and the threads of those who wait for one have a bound. The clock goes on when all
    have asked."""
    clients, pool = (20, 30) if sync else (200, 4)
    server = Server("test", limits=Limits(ask_timeout=1, threads=pool, in_flight=1000))
    seen: list[str] = []

    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("anybody", str)
        except AskTimeout:
            seen.append("late")
        return "nobody"

    def ask_in_a_thread(ctx: Context) -> str:
        try:
            ctx.elicit("anybody", str).wait()
        except AskTimeout:
            seen.append("late")
        return "nobody"

    server.add_tool(ask_in_a_thread if sync else ask, name="ask")

    @server.tool
    async def plain() -> str:
        return "plain"

    threads = threading.active_count()
    async with instances(server, LIVE) as (wire,):
        async with anyio.create_task_group() as group:
            for _ in range(clients):
                group.start_soon(wire.serve, wire.tool("ask"))
            asked = 0
            while asked < clients:
                asked += (await wire.next())["method"] == "elicitation/create"
            assert text(await wire.call("plain")) == "plain"
            assert threading.active_count() <= threads + pool
            assert seen == []
            clock = trio.lowlevel.current_clock()
            assert isinstance(clock, MockClock)
            clock.jump(1)
        assert seen == ["late"] * clients
        await wire.idle()


@pytest.mark.case("A13")
async def test_a_confirmed_payment_is_made_once_however_often_it_is_presented_at_once() -> None:
    paid: list[int] = []
    server = Server("test", state=RequestState(store=MemoryStateStore()))

    @server.tool
    async def pay(ctx: Context, amount: int) -> str:
        if await ctx.confirm("sure?"):
            await anyio.lowlevel.checkpoint()
            paid.append(amount)
        return f"paid {amount}"

    async with driver(server) as wire:
        again = retry(await wire.call("pay", {"amount": 10}), **{"elicit-1": YES})
        responses: list[Any] = []

        async def present() -> None:
            responses.append(await wire.dispatcher(wire.tool("pay", {"amount": 10}, **again)))

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(present)
    assert paid == [10] and len(responses) == 10
