"""Handlers from a small language, and clients that do what clients do: a call gives the same on every wire, and no step
is done twice.

How it works: a program is a tree of operations. It runs as a generator that yields what it waits for, so that one
interpreter serves asynchronous and synchronous handlers. What it returns tells of everything that it saw.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Annotated, Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backchannel import (
    AskError,
    Context,
    Elicit,
    InputRequired,
    MemoryStateStore,
    Outcome,
    RequestState,
    Server,
    StepError,
)
from tests.replay.wires import KEY, LIVE, REPLAYED, call, ended, instances, text_of
from tests.server.replay import DECLINED, Driver, Message, accept, driver, retry

pytestmark = [
    pytest.mark.rule("P1", "P4", "P5", "P6", "P7", "P8", "P10", "P11", "P13", "R104", "R105", "R106", "R107", "R125"),
    pytest.mark.filterwarnings("ignore:a question or step was made:RuntimeWarning"),
]
Op = tuple[Any, ...]
Program = list[Op]


# The language.

leaf = st.one_of(
    st.just(("ask",)),
    st.just(("keyed",)),
    st.just(("step",)),
)
simple = st.one_of(
    leaf,
    st.tuples(st.just("number"), st.integers(0, 2)),
    st.just(("raising",)),
    st.just(("unawaited",)),
    st.tuples(st.just("gather"), st.lists(leaf, min_size=1, max_size=3)),
)


def nested(inner: st.SearchStrategy[Op]) -> st.SearchStrategy[Op]:
    program = st.lists(inner, max_size=3)
    return st.one_of(
        st.tuples(st.just("branch"), program, program),
        st.tuples(st.just("loop"), st.integers(1, 2), program),
        st.tuples(st.just("swallow"), program),
        st.tuples(st.just("finally"), program, program),
    )


operation = st.recursive(simple, nested, max_leaves=5)
programs = st.lists(st.one_of(operation, operation, st.just(("returned",))), max_size=5)


class Run:
    """One run of a program: what it saw, the names that it gave, and what it does in the world."""

    def __init__(self, ctx: Context, worked: list[str]):
        self.ctx = ctx
        self.saw: list[str] = []
        self._worked = worked

    def work(self, where: str) -> str:
        self._worked.append(where)
        return f"worked {where}"

    def fail(self, where: str) -> str:
        self._worked.append(where)
        raise ValueError(where)

    def all(self, program: Program, where: str = "") -> Generator[Any, Any, None]:
        for place, op in enumerate(program):
            yield from self.one(op, f"{where}.{place}")

    def one(self, op: Op, where: str) -> Generator[Any, Any, None]:
        kind, *rest = op
        yield from getattr(self, f"op_{kind}")(where, *rest)

    def leaf(self, op: Op, where: str) -> Any:
        if op[0] == "step":
            return self.ctx.step("work", self.work, where)
        return self.ctx.elicit(f"what {where}", str, key=f"key {where}" if op[0] == "keyed" else None)

    def op_ask(self, where: str) -> Generator[Any, Any, None]:
        self.saw.append(repr((yield self.leaf(("ask",), where))))

    def op_keyed(self, where: str) -> Generator[Any, Any, None]:
        self.saw.append(repr((yield self.leaf(("keyed",), where))))

    def op_step(self, where: str) -> Generator[Any, Any, None]:
        self.saw.append(repr((yield self.leaf(("step",), where))))

    def op_unawaited(self, where: str) -> Iterator[Any]:
        self.ctx.elicit(f"what {where}", str)
        self.ctx.step("aside", self.work, where)
        return iter(())

    def op_raising(self, where: str) -> Generator[Any, Any, None]:
        try:
            yield self.ctx.step("fail", self.fail, where)
        except StepError as error:
            self.saw.append(str(error))

    def op_number(self, where: str, retries: int) -> Generator[Any, Any, None]:
        try:
            self.saw.append(repr((yield self.ctx.elicit(f"number {where}", int, retries=retries))))
        except AskError as error:
            self.saw.append(f"{type(error).__name__} {error}")

    def op_gather(self, where: str, ops: list[Op]) -> Generator[Any, Any, None]:
        questions = [self.leaf(op, f"{where}.{place}") for place, op in enumerate(ops)]
        self.saw.append(repr((yield self.ctx.gather(*questions))))

    def op_branch(self, where: str, yes: Program, no: Program) -> Generator[Any, Any, None]:
        if (yield self.ctx.confirm(f"branch {where}")):
            yield from self.all(yes, f"{where}.y")
        else:
            yield from self.all(no, f"{where}.n")

    def op_loop(self, where: str, turns: int, program: Program) -> Generator[Any, Any, None]:
        for turn in range(turns):
            yield from self.all(program, f"{where}.{turn}")

    def op_swallow(self, where: str, program: Program) -> Generator[Any, Any, None]:
        try:
            yield from self.all(program, where)
        except BaseException as error:
            self.saw.append(f"swallowed {type(error).__name__}")

    def op_finally(self, where: str, program: Program, last: Program) -> Generator[Any, Any, None]:
        try:
            yield from self.all(program, where)
        finally:
            yield from self.all(last, f"{where}.f")

    def top(self, program: Program) -> Generator[Any, Any, Any]:
        for place, op in enumerate(program):
            if op[0] != "returned":
                yield from self.one(op, f"{place}")
                continue
            question, key = Elicit(f"what {place}", str), f"returned {place}"
            answer = self.ctx.answers.read(key, question)
            if answer is None:
                return InputRequired({key: question}, state={"at": place})
            self.saw.append(f"{answer!r} {self.ctx.state}")
        return " | ".join([self.ctx.call_id[:0], *self.saw])


async def drive(steps: Generator[Any, Any, Any]) -> Any:
    try:
        question = next(steps)
        while True:
            try:
                answer = await question
            except BaseException as error:
                question = steps.throw(error)
            else:
                question = steps.send(answer)
    except StopIteration as end:
        return end.value


def drive_in_a_thread(steps: Generator[Any, Any, Any]) -> Any:
    try:
        question = next(steps)
        while True:
            try:
                answer = question.wait()
            except BaseException as error:
                question = steps.throw(error)
            else:
                question = steps.send(answer)
    except StopIteration as end:
        return end.value


def server_of(program: Program, how: str, worked: list[str]) -> Server:
    """A server with the program as its tool. how: plain, sync, or with questions in its parameters."""
    server = Server("test", state=RequestState([KEY]))

    async def plain(ctx: Context) -> Any:
        return await drive(Run(ctx, worked).top(program))

    def sync(ctx: Context) -> Any:
        return drive_in_a_thread(Run(ctx, worked).top(program))

    async def parameters(
        ctx: Context,
        one: Annotated[Outcome[str], Elicit("what one")],
        two: Annotated[Outcome[str], Elicit("what two after {one}")],
    ) -> Any:
        said = await drive(Run(ctx, worked).top(program))
        return said if isinstance(said, InputRequired) else f"{one} {two} {said}"

    server.add_tool({"plain": plain, "sync": sync, "parameters": parameters}[how], name="tool")
    return server


# The person and the client.


def person(choices: int) -> Callable[[str], Any]:
    """The answer is a function of the question, so that it is the same on every wire."""

    def answer(question: str) -> Any:
        first = question.split("\n")[0]
        chosen = (sum(map(ord, first)) * 31 + choices) % 5
        if question.startswith("branch"):
            return [accept(True), accept(False), DECLINED, accept(True), {"action": "cancel"}][chosen]
        if question.startswith("number"):
            again = question != first
            return [accept(1), accept("bad"), accept(2 if again else "bad"), DECLINED, accept(1.0)][chosen]
        return DECLINED if chosen == 3 else accept(f"<{chosen}>")

    return answer


BEHAVIOURS = ["all", "some", "none", "unknown keys", "twice", "again from the start", "stale", "wrong shape"]


async def rounds(
    wires: list[Driver], answer: Callable[[str], Any], behaviours: list[str], store: bool
) -> tuple[Any, set[str], bool]:
    """A whole call by a client that misbehaves. Returns how it ended, what was asked, and whether each state was
    presented once."""
    asked: set[str] = set()
    once, earlier, again, count = True, [], {}, 0
    while True:
        wire = wires[count % len(wires)]
        behaviour = behaviours[count] if count < len(behaviours) else "all"
        count += 1
        if behaviour == "wrong shape" and again.get("inputResponses") and not store:
            bad = {key: {"action": "shrug"} for key in again["inputResponses"]}
            refused = await wire.call("tool", **{**again, "inputResponses": bad})
            assert refused["error"]["code"] == -32602
        response = await wire.call("tool", **again)
        if behaviour == "twice" and again:
            other = await wires[(count + 1) % len(wires)].call("tool", **again)
            once = False
            assert_alike(response, other, store)
        if behaviour == "stale" and earlier:
            before, result = earlier[0]
            once = False
            assert_alike(result, await wire.call("tool", **before), store)
        if again:
            earlier.append((again, response))
        result = response.get("result", {})
        if result.get("resultType") != "input_required":
            return ended(response), asked, once
        requests = result.get("inputRequests", {})
        asked |= {text_of(question) for question in requests.values()}
        given = {key: answer(text_of(question)) for key, question in requests.items()}
        if behaviour == "some":
            given = dict(list(given.items())[:1])
        if behaviour == "none":
            given = {}
        if behaviour == "unknown keys":
            given = {**given, "elicit-99": accept("forged"), "key unknown": accept("forged"), "\ntold": {}}
        if behaviour == "again from the start" and count < 3:
            once = False
            response = await wire.call("tool")
            result = response["result"]
            if result.get("resultType") != "input_required":
                return ended(response), asked, once
            given = {key: answer(text_of(question)) for key, question in result.get("inputRequests", {}).items()}
        again = retry({"result": result}, **given)


def assert_alike(one: Message, two: Message, store: bool) -> None:
    """Two responses to one state: with a store one and the same, without one they ask or say the same."""
    if store:
        assert {**one, "id": 0} == {**two, "id": 0}
        return
    drop = {"requestState"}
    first, second = (
        {name: value for name, value in response.get("result", response.get("error")).items() if name not in drop}
        for response in (one, two)
    )
    assert first == second


async def check(program: Program, how: str, choices: int, behaviours: list[str]) -> None:
    answer = person(choices)
    live_worked: list[str] = []
    async with instances(server_of(program, how, live_worked), LIVE) as wires:
        live = await call(wires, answer)
    assert not str(live.end).startswith("error"), live.end
    assert max(Counter(live_worked).values(), default=1) == 1

    worked: list[str] = []
    async with instances(server_of(program, how, worked), REPLAYED, max_rounds=500) as wires:
        seen = await call(wires, answer)
    assert seen.end == live.end
    assert sorted(seen.questions) == sorted(live.questions)
    assert sorted(worked) == sorted(live_worked)

    for store in (False, True):
        worked = []
        state = RequestState([KEY], store=MemoryStateStore() if store else None, store_above=500, max_rounds=500)
        one, two = server_of(program, how, worked), server_of(program, how, worked)
        one.state, two.state = state, state.twin()
        async with driver(one) as a, driver(two) as b:
            end, asked, once = await rounds([a, b], answer, behaviours, store)
        assert end == live.end
        assert asked == set(live.questions)
        assert set(worked) == set(live_worked)
        if once or (store and "again from the start" not in behaviours):
            assert sorted(worked) == sorted(live_worked)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    programs,
    st.sampled_from(["plain", "plain", "sync", "parameters"]),
    st.integers(0, 4),
    st.lists(st.sampled_from(BEHAVIOURS), max_size=6),
)
@example([("returned",), ("unawaited",), ("returned",)], "plain", 0, ["some", "twice", "stale"])
@example([("unawaited",), ("returned",), ("step",)], "sync", 1, ["none", "some", "twice"])
@example(
    [("swallow", [("finally", [("number", 1)], [("step",), ("ask",)])]), ("raising",)], "plain", 2, ["wrong shape"] * 4
)
@example(
    [("gather", [("step",), ("ask",), ("keyed",)]), ("branch", [("step",)], [("ask",)])], "parameters", 3, BEHAVIOURS
)
def test_a_call_gives_the_same_on_every_wire_and_no_step_is_done_twice(
    backend: str, program: Program, how: str, choices: int, behaviours: list[str]
) -> None:
    anyio.run(check, program, how, choices, behaviours, backend=backend)
