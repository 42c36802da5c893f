"""People who answer by a script, and what they notice."""

import re
import traceback
from typing import Any, Literal

import pytest

from backchannel import Client, ConfigurationError, Context, InvalidAnswer, RemoteProtocolError, Server
from backchannel.testing import (
    People,
    ScriptError,
    accept,
    cancel,
    connect,
    decline,
    error,
    garbage,
    never,
    say,
)
from backchannel.types import CreateMessageResult, TextContent
from tests.testing.shop import Order, server

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "modern"])
M = accept({"size": "M"})


async def order(era: str, people: Any) -> str:
    async with connect(server, era=era, people=people) as client:
        return (await client.call_tool("order", {"name": "Ada"})).text


@eras
@pytest.mark.parametrize(
    ("people", "text"),
    [
        ([M, accept()], "Ada: M"),
        ([{"size": "L"}, True], "Ada: L"),
        ([M, decline()], "changed their mind"),
        ([M, False], "changed their mind"),
        ([cancel()], "Cancelled"),
        ([None], "Cancelled"),
        ([decline()], "Declined"),
        ([lambda question: {"size": question.message[-5] and "S"}, True], "Ada: S"),
        ({"Which size": M, re.compile(r"for \d+"): True}, "Ada: M"),
        ({"Which size": [M], "for 42?": [decline()]}, "changed their mind"),
    ],
    ids=repr,
)
async def test_answers(era: str, people: Any, text: str) -> None:
    assert await order(era, people) == text


@eras
async def test_each_kind_of_question_takes_the_answers_of_its_kind(era: str) -> None:
    async with connect(server, era=era, people=["Nice", ["/tmp", "/srv"], M]) as client:
        assert (await client.call_tool("describe")).text == "M Nice 2"
    message = CreateMessageResult("assistant", TextContent("Nicer"), "model")
    async with connect(server, era=era, people=[M, say(message)]) as client:
        assert (await client.call_tool("describe")).text == "M Nicer 0"


@eras
@pytest.mark.parametrize(
    ("people", "text"),
    [
        ([M], "no answer to elicitation/create '[M] for 42.'$"),
        ([M, "Nice"], "no answer to elicitation/create 'M for 42.'; what is left: say..Nice.."),
        ([], "no answer to elicitation/create 'Which size for Ada.'"),
        ({"Which": M}, "no answer to elicitation/create 'M for 42.'"),
        ({"Which": [M, M], "42": True}, r"nobody asked for: 'Which': accept\({'size': 'M'}\)"),
        ([M, True, decline(after=2)], r"nobody asked for: decline\(after=2\)"),
        (["M", True], r"size: is required; a text counts as say\(...\), for a model: for a form write accept\('M'\)"),
        (["M"], r"what is left: say\('M'\); a text counts as say\(...\), for a model: for a form write accept\('M'\)"),
        ([accept({"size": "XXL"})], r"accept\({'size': 'XXL'}\) is no answer to elicitation/create 'Which size"),
    ],
    ids=repr,
)
async def test_a_script_that_does_not_fit_fails_the_test(era: str, people: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        await order(era, people)


@eras
async def test_the_script_is_what_failed_also_where_the_test_notices_first(era: str) -> None:
    with pytest.raises(ScriptError, match="no answer to") as caught:
        assert await order(era, [M]) == "Ada: M"
    assert caught.value.__cause__ is None
    with pytest.raises(ScriptError, match="no answer to") as caught:
        async with connect(server, era="legacy", people=[M]) as client:
            assert (await client.call_tool("order", {"name": "Ada"})).text == "Ada: M"
    assert caught.value.__suppress_context__
    assert caught.value.__notes__[0].startswith("After that the test failed: AssertionError: ")


@eras
async def test_an_error_in_the_script_shows_the_test_and_little_else(era: str) -> None:
    with pytest.raises(ScriptError) as caught:
        async with connect(server, era=era, people=[M]) as client:
            assert (await client.call_tool("order", {"name": "Ada"})).text == "Ada: M"
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == __file__ and "call_tool" in (frames[-1].line or "")
    assert len(frames) < 8
    assert "Traceback (most recent call last)" in (shown := "".join(traceback.format_exception(caught.value)))
    assert shown.count("Traceback") == 1


async def test_a_failure_of_the_test_is_not_covered_by_answers_that_are_left() -> None:
    with pytest.raises(ZeroDivisionError):
        async with connect(server, people=[M]):
            raise ZeroDivisionError


asking = Server("asking")


@asking.tool
async def ask(ctx: Context, timeout: float | None = None) -> str:
    try:
        return (await ctx.elicit("Which?", Order, timeout=timeout)).unwrap().size
    except InvalidAnswer:
        return "invalid"
    except RemoteProtocolError as failure:
        return f"{failure.code}"


async def test_a_list_counts_as_roots() -> None:
    with pytest.raises(ScriptError, match=r"a list counts as roots: for a form write accept\(\['M'\]\)"):
        await order("modern", [["M"]])


@asking.tool
async def several(ctx: Context) -> str:
    one = (await ctx.elicit("A size?", Literal["S", "M"])).unwrap()
    two = (await ctx.elicit("Sizes?", list[Literal["S", "M"]])).unwrap()
    return f"{one} {two} {(await ctx.elicit('Yes?', bool)).unwrap()}"


@eras
async def test_a_form_for_one_value_takes_the_value(era: str) -> None:
    async with connect(asking, era=era, people=[accept("M"), accept(["S"]), accept(False)]) as client:
        assert (await client.call_tool("several")).text == "M ['S'] False"


@eras
async def test_garbage_gets_past_the_checks_of_the_client(era: str) -> None:
    async with connect(
        asking, era=era, people=[garbage({"action": "accept", "content": {"size": "XXL"}}), garbage()]
    ) as client:
        assert (await client.call_tool("ask")).text == "invalid"
        if era == "modern":
            with pytest.raises(RemoteProtocolError, match="is no answer to elicitation/create"):
                await client.call_tool("ask")
        else:
            assert (await client.call_tool("ask")).text == "-32603"


@pytest.mark.rule("P15")
async def test_an_error_reaches_a_legacy_handler_and_ends_a_modern_call() -> None:
    async with connect(asking, era="legacy", people=[error(-32001)]) as client:
        assert (await client.call_tool("ask")).text == "-32001"
    async with connect(asking, era="modern", people=[error(-32001, "no")]) as client:
        with pytest.raises(Exception, match="no") as caught:
            await client.call_tool("ask")
        assert caught.value.code == -32001  # type: ignore[attr-defined]


async def test_an_answer_is_a_handler_by_itself() -> None:
    async with Client(server, elicit=accept({"size": "M", "value": True}), sample=say("Nice")) as client:
        assert (await client.call_tool("describe")).text == "M Nice 0"
        assert (await client.call_tool("order_in_a_thread")).text == "M"


async def test_people_serve_any_client() -> None:
    with People([M]) as people:
        async with Client(server, **people.handlers()) as client:
            assert (await client.call_tool("order_in_a_thread")).text == "M"
    with pytest.raises(ScriptError), People([M]):
        pass


async def test_garbage_is_no_handler() -> None:
    with pytest.raises(Exception, match="people="):
        await garbage()()


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (accept({"a": 1}), "accept({'a': 1})"),
        (accept(after=1.5), "accept(after=1.5)"),
        (say("Hi", after=2), "say('Hi', after=2)"),
        (error(-1, after=3), "error(-1, after=3)"),
        (never(), "never()"),
    ],
)
def test_answers_look_as_they_were_written(answer: Any, shown: str) -> None:
    assert repr(answer) == shown


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: accept(after=-1), "at least 0"),
        (lambda: People([3]), "3 is no answer"),
        (lambda: People(M), r"people is a list of answers.*write people=\[accept\({'size': 'M'}\)\]"),  # type: ignore[arg-type]
        (lambda: People("M"), r"write people=\['M'\]"),
    ],
)
def test_what_is_no_answer(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()
