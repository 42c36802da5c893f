"""The parameter style: questions in annotations, asked before the function runs, on both eras."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from backchannel import (
    Accepted,
    ConfigurationError,
    Context,
    Declined,
    Elicit,
    ElicitUrl,
    InputRequired,
    Outcome,
    Roots,
    Sample,
    Server,
    ToolError,
)
from backchannel.server.roots import RootList
from backchannel.types import CreateMessageResult
from tests.server.replay import DECLINED, LEGACY, ROOTS, SAMPLE, accept, both_eras, driver, text

pytestmark = pytest.mark.anyio


@dataclass
class Size:
    size: Literal["S", "M", "L"]


class Person:
    """Answers by the text of the question, and notes which were asked together: on modern, in one round."""

    def __init__(self, **answers: Any):
        self.answers = {name.replace("_", " "): answer for name, answer in answers.items()}
        self.asked: list[str] = []

    def __call__(self, key: str, question: dict[str, Any]) -> Any:
        params = question.get("params") or {}
        message = params.get("message") or json.dumps(params.get("messages", "roots"))
        self.asked.append(f"{key}:{message}" if key else message)
        return next(answer for begin, answer in self.answers.items() if begin in message)


M = {"action": "accept", "content": {"size": "M"}}


@both_eras
async def test_a_parameter_asks_and_the_function_gets_the_value(version: str) -> None:
    server = Server("s")
    ran: list[Any] = []

    @server.tool
    async def order(
        item: str,
        size: Annotated[Size, Elicit("Which size for {item}?")],
        where: Annotated[RootList, Roots()],
        slogan: Annotated[str, Sample("A slogan for {item!r}")],
        message: Annotated[CreateMessageResult, Sample("Another")],
        gift: Annotated[Outcome[bool], Elicit("A gift?")],
        count: int = 2,
    ) -> str:
        ran.append(size)
        return f"{count} {item} {size.size} {where[0].uri} {slogan} {message.text} {gift}"

    tool = server.tools.handlers["order"].tool
    assert set(tool.input_schema["properties"]) == {"item", "count"}
    person = Person(Which_size=M, roots=ROOTS, A_slogan=SAMPLE, Another=SAMPLE, A_gift=DECLINED)
    async with driver(server, version) as client:
        response = await client.rounds("order", person, {"item": "shirt"})
        assert text(response) == f"2 shirt M file:///srv hello hello {Declined('A gift?')}"
        assert ran == [Size("M")] and len(person.asked) == 5
        assert any("Which size for shirt?" in question for question in person.asked)
        if client.modern:  # all in one round, under the names of the parameters
            assert [question.partition(":")[0] for question in person.asked] == [
                *("size", "where", "slogan", "message", "gift")
            ]
        await client.idle()


@both_eras
async def test_questions_that_need_an_answer_come_after_it_and_the_others_together(version: str) -> None:
    server = Server("s")

    @server.tool
    async def order(
        lining: Annotated[str, Elicit("Which lining for {colour} in {size.size}?")],
        size: Annotated[Size, Elicit("Which size?")],
        colour: Annotated[str, Elicit("Which colour?")],
        initials: Annotated[str, Elicit("Which initials?")],
    ) -> str:
        return f"{size.size} {colour} {lining} {initials}"

    person = Person(Which_size=M, Which_colour=accept("red"), Which_lining=accept("silk"), Which_in=accept("AL"))
    async with driver(server, version) as client:
        assert text(await client.rounds("order", person)) == "M red silk AL"
        assert person.asked[-1].endswith("Which lining for red in M?") and len(person.asked) == 4


@both_eras
async def test_a_function_decides_what_to_ask_or_answers_itself(version: str) -> None:
    server = Server("s")

    def which_size(item: str, ctx: Context) -> Any:
        return Size("L") if item == "tent" else Elicit(f"Size of the {item}, {ctx.target}?")

    async def which_colour(size: Size) -> Any:
        return Elicit("Colour?", ["red", "blue"]) if size.size == "M" else "grey"

    @server.tool
    async def order(
        item: str,
        colour: Annotated[Outcome[str], Elicit(which_colour)],
        size: Annotated[Size, Elicit(which_size)],
    ) -> str:
        return f"{item} {size.size} {colour}"

    person = Person(Size_of_the_shirt=M, Colour=accept("red"))
    async with driver(server, version) as client:
        assert text(await client.rounds("order", person, {"item": "tent"})) == f"tent L {Accepted('grey')}"
        assert person.asked == []
        assert text(await client.rounds("order", person, {"item": "shirt"})) == f"shirt M {Accepted('red')}"
        assert "Size of the shirt, order?" in person.asked[0] and len(person.asked) == 2


@both_eras
async def test_who_refuses_gets_no_function_unless_it_wants_to_know(version: str) -> None:
    server = Server("s")
    ran: list[int] = []

    @server.tool
    async def order(size: Annotated[Size, Elicit("Which size?")]) -> str:
        ran.append(1)
        return "done"

    async with driver(server, version) as client:
        response = await client.rounds("order", Person(Which_size=DECLINED))
        assert response["result"]["isError"] and "Which size?" in response["result"]["content"][0]["text"]
        assert ran == []
        await client.idle()


@both_eras
@pytest.mark.parametrize("supplied", [{"size": {"size": "M"}}, {"size": None}])
async def test_no_client_can_supply_the_answer(version: str, supplied: dict[str, Any]) -> None:
    server = Server("s")

    @server.tool
    async def order(size: Annotated[Size, Elicit("Which size?")]) -> str:
        return "done"

    @server.tool(input_schema={"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]})
    async def given(item: str, size: Annotated[Size, Elicit("Which size for {item}?")]) -> str:
        return f"{item} {size.size}"

    async with driver(server, version) as client:
        response = await client.rounds("order", Person(), supplied)
        assert response["result"]["isError"] and "size" in response["result"]["content"][0]["text"]
        response = await client.rounds("given", Person(), {"item": "shirt", **supplied})
        assert response["result"]["isError"] and "size" in response["result"]["content"][0]["text"]
        assert text(await client.rounds("given", Person(Which_size_for_shirt=M), {"item": "shirt"})) == "shirt M"
        if client.modern:  # nor without a state of ours
            response = await client.call("order", inputResponses={"size": M})
            assert response["result"]["resultType"] == "input_required"


@both_eras
async def test_the_three_styles_in_one_handler(version: str) -> None:
    server = Server("s")
    colour = Elicit("Which colour?", str)

    @server.tool
    async def order(ctx: Context, size: Annotated[Size, Elicit("Which size?")]) -> str | InputRequired:
        sure = await ctx.confirm("Sure?")
        if "colour" not in ctx.answers:
            return InputRequired({"colour": colour}, state=sure)
        answer = ctx.answers.read("colour", colour)
        return f"{size.size} {ctx.state} {answer}"

    person = Person(Which_size=M, Sure=accept(True), Which_colour=accept("red"))
    async with driver(server, version) as client:
        assert text(await client.rounds("order", person)) == f"M True {Accepted('red')}"
        assert len(person.asked) == 3
        await client.idle()


@both_eras
async def test_a_synchronous_function_a_prompt_and_a_template_have_such_parameters(version: str) -> None:
    server = Server("s")

    @server.tool
    def order(size: Annotated[Size, Elicit("Which size?")]) -> str:
        return size.size

    @server.prompt
    async def advise(item: str, size: Annotated[Size, Elicit("Which size for {item}?")]) -> str:
        return f"{item} in {size.size}"

    @server.resource("shop://{item}")
    async def page(item: str, size: Annotated[Size, Elicit("Which size for {item}?")]) -> str:
        return f"{item} in {size.size}"

    prompt = server.prompts.handlers["advise"].prompt
    assert [argument.name for argument in prompt.arguments or []] == ["item"]
    async with driver(server, version) as client:
        assert text(await client.rounds("order", Person(Which_size=M))) == "M"
        for method, params in (
            ("prompts/get", {"name": "advise", "arguments": {"item": "shirt"}}),
            ("resources/read", {"uri": "shop://shirt"}),
        ):
            client.tool = lambda _, __=None, m=method, p=params, **more: client.exchange(m, {**p, **more})  # type: ignore
            response = await client.rounds("", Person(Which_size_for_shirt=M))
            assert "shirt in M" in json.dumps(response["result"])


async def test_a_default_of_another_argument_is_mentioned_too() -> None:
    server = Server("s")

    @server.tool
    async def order(size: Annotated[Size, Elicit("Which size for {item}, {{really}}?")], item: str = "shirt") -> str:
        return size.size

    person = Person(Which_size=M)
    async with driver(server, LEGACY) as client:
        await client.rounds("order", person)
        assert person.asked == ["Which size for shirt, {really}?"]


async def test_what_the_function_of_a_parameter_raises_ends_the_call() -> None:
    server = Server("s")

    def which(item: str) -> Any:
        raise ToolError(f"there is no {item}")

    @server.tool
    async def order(item: str, size: Annotated[Size, Elicit(which)]) -> str:
        return "done"

    async with driver(server) as client:
        response = await client.call("order", {"item": "yak"})
        assert response["result"]["content"][0]["text"] == "there is no yak"


@dataclass
class Nested:
    inner: dict[str, int]


def needs_b(b: str) -> Any: ...


def needs_a(a: str) -> Any: ...


MEDIUM: Size = Size("M")
QUESTION: Any = Elicit("Which size?")


def mentions_nobody(size: Annotated[Size, Elicit("Which size for {item}?")]) -> None: ...
def mentions_a_place(size: Annotated[Size, Elicit("Which size for {}?")]) -> None: ...
def has_a_single_brace(size: Annotated[Size, Elicit("Which size {?")]) -> None: ...
def formats_by_another(size: Annotated[Size, Elicit("Which size for {item:>{width}}?")]) -> None: ...
def cannot_be_a_form(size: Annotated[Nested, Elicit("Which size?")]) -> None: ...
def has_a_default(size: Annotated[Size, Elicit("Which size?")] = MEDIUM) -> None: ...
def is_a_default(size: Size = QUESTION) -> None: ...
def is_inside(size: Annotated[Size, Elicit("Which size?")] | None) -> None: ...
def asks_twice(size: Annotated[Size, Elicit("Which size?"), Elicit("Which?")]) -> None: ...
def needs_itself(size: Annotated[Size, Elicit("Which size for {size}?")]) -> None: ...
def needs_in_a_circle(a: Annotated[str, Elicit(needs_b)], b: Annotated[str, Elicit(needs_a)]) -> None: ...
def needs_nobody(size: Annotated[Size, Elicit(needs_a)]) -> None: ...
def has_the_class(size: Annotated[str, Elicit]) -> None: ...
def says_another_type(size: Annotated[str, Elicit("a", int)]) -> None: ...
def says_another_outcome(size: Annotated[Outcome[str], Elicit("a", int)]) -> None: ...
def says_other_choices(size: Annotated[int, Elicit("a", ["S", "M"])]) -> None: ...
def says_no_page(size: Annotated[str, ElicitUrl("a", "https://a")]) -> None: ...
def says_no_roots(size: Annotated[list[str], Roots()]) -> None: ...
def says_no_message(size: Annotated[int, Sample("a")]) -> None: ...
def has_no_text(size: "Annotated[str, Elicit(5)]") -> None: ...
def has_no_url(size: "Annotated[None, ElicitUrl('a', 'ftp://a')]") -> None: ...


def agrees(
    a: Annotated[str, Elicit("a", str)],
    b: Annotated[float, Elicit("b", int)],
    c: Annotated[int | None, Elicit("c", int)],
    d: Annotated[Outcome[str], Elicit("d", ["x"])],
    e: Annotated[Any, Elicit("e", Size)],
    f: Annotated[Outcome[None], ElicitUrl("f", "https://a")],
    g: Annotated[str, Elicit("g", Literal["x"])],
    h: Annotated[RootList, Roots()],
    i: Annotated[list[str], Elicit("i", list[Literal["x"]])],
) -> None: ...


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (mentions_nobody, "mentions item"),
        (mentions_a_place, "no parameter"),
        (has_a_single_brace, "written twice"),
        (formats_by_another, "takes no parameters"),
        (cannot_be_a_form, "inner"),
        (has_a_default, "no default"),
        (is_a_default, "Annotated"),
        (is_inside, "Annotated"),
        (asks_twice, "once"),
        (needs_itself, "need each other"),
        (needs_in_a_circle, "a, b"),
        (needs_nobody, "mentions a"),
        (has_the_class, r"Elicit is the class, and no question yet: write Elicit\(...\)"),
        (says_another_type, "annotated with str, and its question gives int"),
        (says_another_outcome, "annotated with str, and its question gives int"),
        (says_other_choices, "annotated with int, and its question gives str"),
        (says_no_page, "its question gives NoneType"),
        (says_no_roots, "its question gives RootList"),
        (says_no_message, "its question gives CreateMessageResult or str"),
        (has_no_text, "the text of a question comes first"),
        (has_no_url, "this one has the scheme 'ftp'"),
    ],
)
def test_what_is_wrong_is_told_when_the_handler_is_registered(function: Any, wanted: str) -> None:
    server = Server("s")
    for register in (server.tool, server.prompt):
        with pytest.raises(ConfigurationError, match=wanted):
            register(function)
    assert not server.tools.handlers


def test_a_question_may_say_again_what_the_annotation_says() -> None:
    Server("s").tool(agrees)


async def test_a_function_is_for_annotations_only() -> None:
    server = Server("s", debug=True)

    @server.tool
    async def order(ctx: Context) -> str:
        return str(await ctx.ask(Elicit(lambda: "Which size?")))

    async with driver(server) as client:
        response = await client.call("order")
        assert "annotation" in response["result"]["content"][0]["text"]
