"""The explicit style: InputRequired returned, ctx.answers and ctx.state read, on both eras."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from backchannel import (
    Accepted,
    Context,
    Declined,
    Elicit,
    InputRequired,
    InvalidAnswer,
    RequestState,
    Roots,
    Sample,
    Server,
)
from tests.server.replay import DECLINED, LEGACY, ROOTS, SAMPLE, accept, both_eras, driver, text

pytestmark = pytest.mark.anyio


@dataclass
class Size:
    size: Annotated[str, Field(max_length=2)]


SIZE, COLOUR = Elicit("Which size?", Size), Elicit("Which colour?", str)


def form(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def by_text(answers: dict[str, Any]) -> Any:
    """Answers by the text of the question, which both eras have."""

    def answer(key: str, question: dict[str, Any]) -> Any:
        return answers[question.get("params", {}).get("message", question["method"])]

    return answer


@both_eras
@pytest.mark.rule("R100", "R107", "R121")
async def test_questions_that_are_returned_and_read_in_the_next_round(version: str) -> None:
    server = Server("s")
    rounds: list[tuple[int, Any, list[str]]] = []

    @server.tool
    async def order(ctx: Context, item: str) -> str | InputRequired:
        rounds.append((ctx.round, ctx.state, list(ctx.answers)))
        size = ctx.answers.read("size", SIZE)
        if size is None:
            return InputRequired({"size": SIZE, "dir": Roots(), "slogan": Sample("A slogan")}, state={"seen": (1, 2)})
        if "colour" not in ctx.answers:
            return InputRequired({"colour": COLOUR}, state={**ctx.state, "more": True})
        return (
            f"{item}: {size.unwrap().size}, {ctx.answers['colour']}, {ctx.answers['dir'][0].uri}, "
            f"{ctx.answers['slogan'].text}, {ctx.answers['size']}"
        )

    answers = {"Which size?": form(size="M"), "Which colour?": accept("red"), "roots/list": ROOTS} | {
        "sampling/createMessage": SAMPLE
    }
    async with driver(server, version) as client:
        response = await client.rounds("order", by_text(answers), {"item": "shirt"})
        assert text(response) == (
            "shirt: M, Accepted(value={'value': 'red'}), file:///srv, hello, Accepted(value={'size': 'M'})"
        )
        assert rounds == [
            (1, None, []),
            (2, {"seen": [1, 2]}, ["size", "dir", "slogan"]),
            (3, {"seen": [1, 2], "more": True}, ["size", "dir", "slogan", "colour"]),
        ]
        await client.idle()
        if client.modern:
            return
        asked = [m["method"] for m in client.sent if "method" in m and "id" in m]
        assert asked == ["elicitation/create", "roots/list", "sampling/createMessage", "elicitation/create"]


@pytest.mark.rule("R101")
async def test_the_keys_are_the_authors_and_no_schema_mentions_the_questions() -> None:
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> Size | InputRequired:
        return InputRequired({"the size ✓": SIZE})

    async with driver(server) as client:
        response = await client.call("order")
        assert list(response["result"]["inputRequests"]) == ["the size ✓"]
        assert server.tools.handlers["order"].tool.output_schema == {
            "type": "object",
            "properties": {"size": {"type": "string", "maxLength": 2}},
            "required": ["size"],
        }


@both_eras
@pytest.mark.rule("R121", "R106")
async def test_inline_questions_and_steps_beside_those_returned_are_asked_and_run_once(version: str) -> None:
    server = Server("s")
    steps: list[int] = []
    told: list[str] = []

    @server.tool
    async def order(ctx: Context) -> str | InputRequired:
        name = (await ctx.elicit("Your name?", str)).unwrap()
        await ctx.log("info", f"hello {name}")
        number = await ctx.step("count", lambda: steps.append(1) or len(steps))
        sizes = ctx.answers.read("size", SIZE)
        if sizes is None:
            return InputRequired({"size": SIZE}, state=number)
        sure = await ctx.confirm("Sure?")
        again = ctx.answers.read("colour", COLOUR)
        return InputRequired({"colour": COLOUR}) if again is None else f"{name} {number} {sure} {again.unwrap()}"

    answers = {"Your name?": accept("Ada"), "Which size?": form(size="M"), "Sure?": accept(True)} | {
        "Which colour?": accept("red")
    }

    def answer(key: str, question: dict[str, Any]) -> Any:
        told.append(question["params"]["message"])
        return by_text(answers)(key, question)

    async with driver(server, version) as client:
        meta = {"io.modelcontextprotocol/logLevel": "info"} if client.modern else {}
        if not client.modern:
            await client.serve(client.exchange("logging/setLevel", {"level": "info"}))
        response = await client.rounds("order", answer, _meta=meta)
        assert text(response) == "Ada 1 True red"
        assert told == ["Your name?", "Which size?", "Sure?", "Which colour?"]
        assert client.logged == ["hello Ada"] and steps == [1]
        await client.idle()


@both_eras
@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "template"])
@pytest.mark.rule("R122")
async def test_prompts_and_resources_return_questions_too(method: str, version: str) -> None:
    server = Server("s")

    @server.prompt
    async def greet(ctx: Context) -> str | InputRequired:
        colour = ctx.answers.read("colour", COLOUR)
        return InputRequired({"colour": COLOUR}) if colour is None else f"It is {colour.unwrap()}"

    server.resource("note://1")(greet)

    @server.resource("note://all/{id}")
    async def one(ctx: Context, id: str) -> str | InputRequired:
        return await greet(ctx)

    params: dict[str, Any] = {
        "prompts/get": {"name": "greet"},
        "resources/read": {"uri": "note://1"},
        "template": {"uri": "note://all/7"},
    }[method]
    name = "resources/read" if method == "template" else method
    async with driver(server, version) as client:
        client.tool = lambda _, __=None, **more: client.exchange(name, {**params, **more})  # type: ignore[method-assign]
        response = await client.rounds("", by_text({"Which colour?": accept("red")}))
        assert "It is red" in json.dumps(response["result"])


@pytest.mark.rule("R105", "R125")
async def test_answers_without_a_state_are_seen_and_are_kept_once_they_were_read() -> None:
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> str | InputRequired:
        inline = await ctx.elicit("Inline?", str, key="inline")
        size = ctx.answers.read("size", SIZE)
        return InputRequired({"size": SIZE}) if size is None else f"{inline.unwrap()} {size.unwrap().size}"

    @server.tool
    async def loose(ctx: Context) -> str | InputRequired:
        size, other = ctx.answers.read("size", SIZE), ctx.answers.get("other")
        if ctx.round == 1:
            return InputRequired({"colour": COLOUR})
        return f"{size} {other} {sorted(ctx.answers)}"

    async with driver(server) as client:
        given = {"inline": accept("forged"), "size": form(size="L"), "unread": accept(1)}
        response = await client.call("order", inputResponses=given)
        assert list(response["result"]["inputRequests"]) == ["inline"]  # which is replayed, and trusts nobody
        response = await client.call("loose", inputResponses={**given, "other": DECLINED})
        state = response["result"]["requestState"]
        response = await client.call("loose", requestState=state, inputResponses={"colour": DECLINED, "x": DECLINED})
        assert text(response) == f"{Accepted(Size('L'))} {Declined()} ['colour', 'other', 'size']"


@pytest.mark.rule("R105")
@pytest.mark.parametrize("given", [12345, "text", None, [], {}, {"action": "agree"}, {"content": {"size": "L"}}])
async def test_what_is_no_answer_is_refused_wherever_it_comes_from(given: Any) -> None:
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> str | InputRequired:
        size = ctx.answers.read("size", SIZE)
        return InputRequired({"size": SIZE}) if size is None else "done"

    @server.tool
    async def plain(ctx: Context) -> str:
        return str(ctx.answers["size"])

    async with driver(server) as client:
        state = (await client.call("order"))["result"]["requestState"]
        for name, more in (("order", {}), ("plain", {}), ("order", {"requestState": state})):
            response = await client.call(name, inputResponses={"size": given}, **more)
            assert response["error"]["code"] == -32602 and "inputResponses['size']" in response["error"]["message"]


@pytest.mark.rule("R124")
async def test_an_earlier_answer_can_be_corrected_by_sending_it_again() -> None:
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> str | InputRequired:
        for key, ask in (("size", SIZE), ("colour", COLOUR)):
            if key not in ctx.answers:
                return InputRequired({key: ask})
        return f"{ctx.answers['size'].unwrap()} {ctx.answers['colour'].unwrap()}"

    async with driver(server) as client:
        state = (await client.call("order"))["result"]["requestState"]
        response = await client.call("order", requestState=state, inputResponses={"size": form(size="M")})
        state = response["result"]["requestState"]
        given = {"colour": accept("red"), "size": form(size="XL")}
        assert text(await client.call("order", requestState=state, inputResponses=given)) == (
            "{'size': 'XL'} {'value': 'red'}"
        )


@both_eras
async def test_an_answer_that_breaks_the_schema_is_the_handlers_to_see_and_to_ask_again(version: str) -> None:
    server = Server("s")
    sizes = iter(["much too long", "M"])

    @server.tool
    async def order(ctx: Context) -> str | InputRequired:
        try:
            size = ctx.answers.read("size", SIZE)
        except InvalidAnswer as error:
            return InputRequired({"size": Elicit(f"Again: {error.errors[0]}", Size)})
        return InputRequired({"size": SIZE}) if size is None else size.unwrap().size

    async with driver(server, version) as client:
        assert text(await client.rounds("order", lambda key, question: form(size=next(sizes)))) == "M"


@both_eras
async def test_a_state_alone_comes_back_without_a_question(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.dispatch.POLL_INTERVAL", 0)
    server = Server("s")

    @server.tool
    async def slow(ctx: Context) -> str | InputRequired:
        return InputRequired(state=ctx.round) if ctx.round < 3 else f"{ctx.state} {len(ctx.answers)}"

    async with driver(server, version) as client:
        assert text(await client.rounds("slow", lambda key, question: None)) == "2 0"


@both_eras
@pytest.mark.rule("R114")
async def test_rounds_have_an_end(version: str) -> None:
    server = Server("s", state=RequestState(max_rounds=3))
    runs: list[int] = []

    @server.tool
    async def order(ctx: Context) -> InputRequired:
        runs.append(ctx.round)
        return InputRequired({"size": SIZE})

    async with driver(server, version) as client:
        response = await client.rounds("order", lambda key, question: form(size="M"))
        assert "limit 3" in response["error"]["message"] and runs == [1, 2, 3, 4]
        await client.idle()


@both_eras
@pytest.mark.rule("R15", "R16")
async def test_nothing_is_asked_that_the_client_did_not_declare(version: str) -> None:
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> InputRequired:
        return InputRequired({"size": SIZE, "slogan": Sample("A slogan")})

    async with driver(server, version, {"elicitation": {}}) as client:
        response = await client.call("order")
        if client.modern:
            assert response["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
        else:
            assert response["result"]["isError"] and "sampling" in response["result"]["content"][0]["text"]
        assert not [m for m in client.sent if "method" in m and "id" in m]


@both_eras
async def test_a_key_has_one_meaning(version: str) -> None:
    server = Server("s", debug=True)

    @server.tool
    async def both(ctx: Context) -> InputRequired:
        ctx.elicit("Inline?", str, key="size").close()
        return InputRequired({"size": SIZE})

    @server.tool
    async def unprintable(ctx: Context) -> InputRequired:
        return InputRequired({"a\nb": SIZE})

    async with driver(server, version) as client:
        for name, wanted in (("both", "used twice"), ("unprintable", "not printable")):
            response = await client.rounds(name, lambda key, question: accept("x"))
            assert response["result"]["isError"] and wanted in response["result"]["content"][0]["text"]
        await client.idle()


async def test_reading_another_question_than_was_asked_is_a_mismatch() -> None:
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> str | InputRequired:
        if ctx.round == 1:
            return InputRequired({"size": SIZE})
        return str(ctx.answers.read("size", COLOUR))

    async with driver(server) as client:
        response = await client.rounds("order", lambda key, question: form(size="M"))
        assert response["error"]["code"] == -32602 and "Which size?" in response["error"]["message"]


def test_what_is_no_input_required() -> None:
    with pytest.raises(ValueError, match="takes questions, a state"):
        InputRequired()
    with pytest.raises(TypeError, match="under the key 'size'"):
        InputRequired({"size": "Which size?"})  # type: ignore[dict-item]
    for wrong in (SIZE, [SIZE], "size"):
        with pytest.raises(TypeError, match="takes questions by key, such as"):
            InputRequired(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a key is a text, not 5"):
        InputRequired({5: SIZE})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="under the key 'size'"):
        InputRequired({"size": Elicit})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="JSON"):
        InputRequired(state=float("nan"))


async def test_a_handler_called_by_hand_has_no_answers_and_no_state() -> None:
    ctx = Context()
    assert (len(ctx.answers), ctx.state, ctx.answers.read("size", SIZE)) == (0, None, None)


@pytest.mark.parametrize("ends", ["cancel", "close"])
async def test_a_call_that_ends_while_a_returned_question_is_open_withdraws_it(ends: str) -> None:
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> InputRequired:
        return InputRequired({"size": SIZE, "colour": COLOUR})

    import anyio

    async with driver(server, LEGACY) as client:
        exchange = client.tool("order")
        async with anyio.create_task_group() as group:
            group.start_soon(client.serve, exchange)
            ids = [(await client.next())["id"] for _ in range(2)]
            if ends == "cancel":
                client.tell("notifications/cancelled", {"requestId": exchange.request.id})
            else:
                group.cancel_scope.cancel()
        await client.idle()
        withdrawn = [(await client.next())["params"]["requestId"] for _ in ids]
        assert sorted(withdrawn) == sorted(ids)
