"""P7: what an answer does, and what it does not."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from backchannel import Context, InvalidAnswer, MemoryStateStore, RequestState, Server
from tests.replay.wires import KEY, WIRES, every_wire, obliging, play
from tests.server.replay import DECLINED, ROOTS, SAMPLE, YES, accept, asked, driver, failed, retry, text

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P7")]
stored = pytest.mark.parametrize("store", [False, True])


class Age(BaseModel):
    age: Annotated[int, Field(ge=0, le=150)]


def server_of(store: bool, tool: Any) -> Server:
    server = Server("test", state=RequestState([KEY], store=MemoryStateStore() if store else None))
    server.add_tool(tool, name="tool")
    return server


async def three(ctx: Context) -> str:
    a, b, c = await ctx.gather(ctx.elicit("a", str), ctx.sample("b"), ctx.roots(key="the roots"))
    return f"{a.unwrap()} {b.text} {len(c)}"


@stored
@pytest.mark.rule("R125")
async def test_only_what_is_open_takes_an_answer_and_what_is_missing_is_asked_again(store: bool) -> None:
    async with driver(server_of(store, three)) as wire:
        response = await wire.call("tool")
        assert list(asked(response)) == ["elicit-1", "sample-2", "the roots"]
        response = await wire.call("tool", **retry(response, **{"the roots": ROOTS, "unknown": YES, "elicit-9": YES}))
        assert list(asked(response)) == ["elicit-1", "sample-2"]
        response = await wire.call("tool", **retry(response, **{"the roots": {"roots": []}, "sample-2": SAMPLE}))
        assert list(asked(response)) == ["elicit-1"]
        response = await wire.call("tool", **retry(response))
        assert list(asked(response)) == ["elicit-1"]
        late = {"elicit-1": accept("x"), "sample-2": {**SAMPLE, "model": "other"}, "the roots": {"roots": []}}
        assert text(await wire.call("tool", **retry(response, **late))) == "x hello 1"


WRONG: list[Any] = [
    None,
    1,
    "accept",
    [],
    {},
    {"action": "yes"},
    {"result": YES},
    {"error": {"code": -32000, "message": "no"}},
    SAMPLE,
    {"action": "accept", "content": "x"},
]


@pytest.mark.parametrize("given", WRONG)
@pytest.mark.rule("P15")
async def test_one_of_the_wrong_shape_is_refused_and_none_beside_it_is_taken(given: Any) -> None:
    """Nor is an error of the client's an answer. The state is as good as before."""
    runs: list[int] = []

    async def counted(ctx: Context) -> str:
        runs.append(ctx.round)
        return await three(ctx)

    async with driver(server_of(False, counted)) as wire:
        first = await wire.call("tool")
        again = retry(first, **{"sample-2": SAMPLE, "the roots": ROOTS, "elicit-1": given})
        response = await wire.call("tool", **again)
        assert response["error"]["code"] == -32602 and runs == [1]
        assert "inputResponses['elicit-1'] is no answer to elicitation/create" in response["error"]["message"]
        second = await wire.call("tool", **retry(first, **{"elicit-1": accept("x")}))
        assert list(asked(second)) == ["sample-2", "the roots"]


@every_wire
@pytest.mark.case("B21")
@pytest.mark.parametrize(("retries", "wanted"), [(0, "1 errors"), (1, "2 errors"), (2, "30")])
async def test_content_that_breaks_the_schema(how: str, retries: int, wanted: str) -> None:
    """It is recorded, asked again with the reason while there are retries, and then an error, on every wire alike."""
    shown: list[str] = []
    given = iter([{"age": "old"}, {"age": 200, "name": "x"}, {"age": 30}])

    async def tool(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("Age", Age, retries=retries)).unwrap().age)
        except InvalidAnswer as error:
            await ctx.confirm("pity?")
            return f"{len(shown) - 1} errors" if error.errors else "none"

    def person(question: str) -> Any:
        shown.append(question)
        return obliging(question) if question == "pity?" else {"action": "accept", "content": next(given)}

    seen = await play(how, tool, person)
    assert seen.end == wanted
    asked_for_age = [question for question in shown if question != "pity?"]
    assert len(asked_for_age) == retries + 1 and asked_for_age[0] == "Age"
    assert all(question.startswith("Age\n\nThe last answer would not do: age: ") for question in asked_for_age[1:])


@every_wire
@pytest.mark.case("B21")
@pytest.mark.parametrize("given", [DECLINED, {"action": "cancel"}, {"action": "cancel", "content": None}])
async def test_a_refusal_is_an_answer(how: str, given: Any) -> None:
    async def tool(ctx: Context) -> str:
        outcome = await ctx.elicit("Age", Age, retries=2)
        return f"{type(outcome).__name__} {await ctx.confirm('sure?')}"

    seen = await play(how, tool, lambda q: YES if q == "sure?" else given)
    assert seen.end == f"{'Declined' if given is DECLINED else 'Cancelled'} True"
    assert seen.questions == ["Age", "sure?"]


@pytest.mark.parametrize("how", [how for how in WIRES if how != "live"])
async def test_an_invalid_answer_that_nobody_catches_ends_the_call(how: str) -> None:
    async def tool(ctx: Context) -> str:
        return str(await ctx.elicit("Age", Age))

    seen = await play(how, tool, lambda q: {"action": "accept", "content": {"age": -1}})
    assert seen.end.startswith("error: ") and "age" in seen.end and seen.questions == ["Age"]


async def test_garbage_of_the_wire_is_an_error_to_the_handler_on_a_session() -> None:
    """There, an answer comes without having been checked as one of a round."""
    async with driver(server_of(False, three), "2025-11-25") as wire:
        assert "malformed" in failed(await wire.rounds("tool", lambda *_: {"action": 7}))
