"""P5: what is seen live is what is seen on replay."""

import dataclasses
import datetime
import enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from backchannel import Context, Elicit, InputRequired, InvalidAnswer, StepError, ToolError
from tests.replay.wires import LIVE, every_wire, obliging, play
from tests.server.replay import ROOTS, SAMPLE, accept

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P5")]


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Person(BaseModel):
    name: Annotated[str, Field(min_length=1)]
    born: datetime.date | None = None


class Options(TypedDict):
    gift: bool
    count: int


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.5


KINDS: list[tuple[Any, Any]] = [
    (str, accept("é✓")),
    (int, accept(7.0)),
    (float, accept(7)),
    (bool, accept(False)),
    (datetime.date, accept("2026-07-28")),
    (datetime.datetime, accept("2026-07-28T10:00:00Z")),
    (Size, accept("l")),
    (Literal["a", "b"], accept("b")),
    (list[Literal["a", "b"]], accept(["a", "b"])),
    (["red", "blue"], accept("red")),
    (None, {"action": "accept", "content": {}}),
    (Person, {"action": "accept", "content": {"name": "Ada", "born": "1815-12-10"}}),
    (Options, {"action": "accept", "content": {"gift": True, "count": 2}}),
    (Point, {"action": "accept", "content": {"x": 1}}),
    (str, {"action": "decline"}),
    (str, {"action": "cancel", "content": None}),
]


@every_wire
@pytest.mark.parametrize(("kind", "given"), KINDS)
async def test_answers_to_forms(how: str, kind: Any, given: Any) -> None:
    await alike(how, lambda ctx: ctx.elicit("what", kind), given)


@every_wire
@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda ctx: ctx.confirm("what"), accept(True)),
        (lambda ctx: ctx.sample("what"), {**SAMPLE, "stopReason": "endTurn", "_meta": {"a": [1]}}),
        (lambda ctx: ctx.roots(), {"roots": [{"uri": "file:///a%20b", "name": "A"}, *ROOTS["roots"]]}),
        (lambda ctx: ctx.elicit_url("what", "https://example.test"), {"action": "accept"}),
    ],
)
async def test_answers_to_all_else(how: str, make: Any, given: Any) -> None:
    await alike(how, make, given)


async def alike(how: str, make: Any, given: Any) -> None:
    """An answer as it is seen when it comes, and in the round after."""
    seen: list[Any] = []

    async def tool(ctx: Context) -> str:
        seen.append(await make(ctx))
        await ctx.confirm("and?")
        return "done"

    answers = {"and?": accept(True)}
    for each in (LIVE, how):
        result = await play(each, tool, lambda q: answers.get(q, given), roots=True)
        assert result.end == "done"
    first = seen[0]
    for other in seen[1:]:
        assert (type(other), repr(other)) == (type(first), repr(first))
        assert type(getattr(other, "value", None)) is type(getattr(first, "value", None))


def three() -> tuple[int, ...]:
    return (1, 2, 3)


def loose() -> Any:
    return {"when": datetime.date(2026, 7, 28), 1: {2, 3} - {3}}


def size() -> Size:
    return Size.LARGE


def lost() -> Person:
    raise ToolError("out of stock")


def wrong() -> Person:
    return {"name": ""}  # type: ignore[return-value]


def a_group() -> None:
    raise ExceptionGroup("many", [ValueError("a"), KeyError("b")])


def in_time() -> None:
    raise TimeoutError("too slow")


@every_wire
@pytest.mark.parametrize("work", [three, loose, size, lost, wrong, a_group, in_time, dict, Person.model_json_schema])
@pytest.mark.parametrize("sync", [False, True])
async def test_values_and_failures_of_steps(how: str, work: Any, sync: bool) -> None:
    """Failures are StepError with a name and a text, whatever it was, and in the round in which it happened too."""
    seen: list[Any] = []

    def look(value: Any) -> None:
        if isinstance(value, StepError):
            assert type(value) is StepError
            value = (value.kind, value.text, str(value))
        seen.append(value)

    async def asynchronous(ctx: Context) -> str:
        try:
            look(await ctx.step("work", work))
        except StepError as error:
            look(error)
        await ctx.confirm("and?")
        return "done"

    def synchronous(ctx: Context) -> str:
        try:
            look(ctx.step("work", work).wait())
        except StepError as error:
            look(error)
        ctx.confirm("and?").wait()
        return "done"

    for each in (LIVE, how):
        assert (await play(each, synchronous if sync else asynchronous)).end == "done"
    for other in seen[1:]:
        assert (type(other), repr(other)) == (type(seen[0]), repr(seen[0]))


@every_wire
async def test_an_answer_that_breaks_the_schema_is_the_same_error(how: str) -> None:
    errors: list[Any] = []

    async def tool(ctx: Context) -> str:
        try:
            await ctx.elicit("who", Person)
        except InvalidAnswer as error:
            errors.append((str(error), error.errors))
        await ctx.confirm("and?")
        return "done"

    bad = {"action": "accept", "content": {"name": "", "born": "yesterday"}}
    for each in (LIVE, how):
        assert (await play(each, tool, lambda q: obliging(q) if q == "and?" else bad)).end == "done"
    assert len({repr(error) for error in errors}) == 1 and len(errors[0][1]) == 2


@every_wire
async def test_what_is_kept_for_a_later_round_is_plain_json_at_once(how: str) -> None:
    seen: list[Any] = []
    question = Elicit("a", str)

    async def tool(ctx: Context) -> str | InputRequired:
        seen.append(ctx.state)
        if "a" not in ctx.answers:
            return InputRequired(
                {"a": question}, state={"point": Point(1), "pair": (1, 2), 3: datetime.date(2026, 7, 1)}
            )
        return f"{ctx.answers['a']} {ctx.answers.read('a', question)}"

    live = await play(LIVE, tool)
    assert (await play(how, tool)).end == live.end
    assert seen == [None, {"point": {"x": 1, "y": 0.5}, "pair": [1, 2], "3": "2026-07-01"}] * 2
