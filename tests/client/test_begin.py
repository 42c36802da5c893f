"""Calls by hand: `begin` and `resume`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from backchannel import Context, Pending, RequestState, Server
from backchannel.client.client import Client
from backchannel.errors import LocalProtocolError, RemoteProtocolError
from backchannel.memory import MemoryTransport
from backchannel.protocol.types.content import TextContent
from backchannel.types import CallToolResult, CreateMessageResult, ElicitResult
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, Script, form, questions

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
ELICIT = "elicitation/create"
STATE = "SEALED-STATE"
KEY = "k" * 32
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def cafe() -> Server:
    """The same server in any process: its keys are the same."""
    server = Server("cafe", state=RequestState(keys=[KEY]))

    @server.tool
    async def order(ctx: Context, what: str) -> str:
        size, cups = await ctx.gather(
            ctx.elicit(f"Which size of {what}?", Literal["small", "large"], key="size"),
            ctx.elicit("How many?", int, key="cups"),
        )
        if not await ctx.confirm(f"Order {cups.unwrap()} {size.unwrap()} {what}?"):
            return "nothing"
        return f"{cups.unwrap()} {size.unwrap()} {what}"

    @server.prompt
    async def describe(ctx: Context) -> str:
        return f"Describe {(await ctx.elicit('What?', str)).unwrap()}"

    @server.resource("menu://today")
    async def menu(ctx: Context) -> str:
        return f"The menu in {(await ctx.elicit('Which language?', str)).unwrap()}"

    @server.tool
    async def summary(ctx: Context) -> str:
        where = await ctx.roots()
        return f"{(await ctx.sample('Summarise')).text} of {[root.uri for root in where]}"

    return server


@asynccontextmanager
async def client_of(server: Server | None = None, version: str = MODERN, **handlers: Any) -> AsyncIterator[Client]:
    async with Client(MemoryTransport(server or cafe()), version=version, **handlers) as client:
        yield client


ORDER: Json = {"name": "order", "arguments": {"what": "tea"}}


def key_of(pending: Any) -> str:
    [key] = pending.questions
    return str(key)


def sent(script: Script, method: str = "tools/call") -> list[Json]:
    return [{name: value for name, value in params.items() if name != "_meta"} for params in script.requests(method)]


@pytest.mark.rule("R116")
async def test_a_call_by_hand() -> None:
    async with client_of() as client:
        pending = await client.begin("tools/call", ORDER)
        assert isinstance(pending, Pending)
        assert [question.message for question in pending.questions.values()] == ["Which size of tea?", "How many?"]
        size, cups = pending.questions
        assert pending.questions[cups].schema is not None
        pending = await client.resume(pending, {size: {"value": "large"}, cups: {"value": 2}})
        assert isinstance(pending, Pending)
        assert pending.questions[key_of(pending)].message == "Order 2 large tea?"
        result = await client.resume(pending, {key_of(pending): {"value": True}})
    assert isinstance(result, CallToolResult)
    assert result.text == "2 large tea"


@pytest.mark.rule("R104", "R116")
async def test_each_round_in_another_process() -> None:
    async with client_of() as client:
        pending: Any = await client.begin("tools/call", ORDER)
        text = pending.to_json()
    answers: list[Any] = [{"value": "small"}, {"value": 1}, True]
    while True:
        async with client_of() as client:
            pending = Pending.from_json(text)
            came = await client.resume(pending, {key: answers.pop(0) for key in pending.questions})
            if not isinstance(came, Pending):
                break
            text = came.to_json()
    assert came.text == "1 small tea"


@pytest.mark.parametrize("no", [False, "decline", None, "cancel", ElicitResult("decline")])
async def test_a_no(no: Any) -> None:
    async with client_of() as client:
        pending: Any = await client.begin("tools/call", ORDER)
        size, cups = pending.questions
        pending = await client.resume(pending, {size: {"value": "large"}, cups: {"value": 2}})
        result: Any = await client.resume(pending, {key_of(pending): no})
    assert result.text == "nothing"


@pytest.mark.rule("R125")
async def test_what_is_left_out_is_asked_again() -> None:
    async with client_of() as client:
        pending: Any = await client.begin("tools/call", ORDER)
        size, cups = pending.questions
        pending = await client.resume(pending, {size: {"value": "large"}})
        assert [question.message for question in pending.questions.values()] == ["How many?"]
        pending = await client.resume(pending)
        pending = await client.resume(pending, {key_of(pending): {"value": 3}})
        result: Any = await client.resume(pending, {key_of(pending): True})
    assert result.text == "3 large tea"


@pytest.mark.rule("R122")
async def test_prompts_and_resources() -> None:
    async with client_of() as client:
        pending: Any = await client.begin("prompts/get", {"name": "describe"})
        prompt: Any = await client.resume(pending, {key_of(pending): {"value": "tea"}})
        assert prompt.messages[0].content.text == "Describe tea"
        pending = await client.begin("resources/read", {"uri": "menu://today"})
        read: Any = await client.resume(pending, {key_of(pending): {"value": "French"}})
        assert read.contents[0].text == "The menu in French"


async def test_sampling_and_roots_by_hand(tmp_path: Path) -> None:
    def never(question: Any) -> Any:
        raise AssertionError("the handlers are not called")

    def nowhere() -> Any:
        raise AssertionError("the handlers are not called")

    async with client_of(sample=never, roots=nowhere) as client:
        pending: Any = await client.begin("tools/call", {"name": "summary"})
        assert pending.questions[key_of(pending)].method == "roots/list"
        pending = await client.resume(pending, {key_of(pending): [tmp_path]})
        assert pending.questions[key_of(pending)].params.messages[0].content.text == "Summarise"
        message = CreateMessageResult("assistant", TextContent("A summary"), "model")
        result: Any = await client.resume(pending, {key_of(pending): message})
    assert result.text == f"A summary of {[tmp_path.as_uri()]}"


@pytest.mark.rule("R35")
async def test_by_hand_any_elicitation_can_be_answered_and_else_what_has_handlers() -> None:
    declared = []
    for handlers in ({}, {"roots": []}):
        script = Script(MODERN, {"tools/call": lambda params: DONE})
        async with Client(script, **handlers) as client:  # type: ignore[arg-type]
            await client.begin("tools/call", {"name": "t"})
            await client.call_tool("t")
        capabilities = "io.modelcontextprotocol/clientCapabilities"
        declared.append([params["_meta"][capabilities] for params in script.requests("tools/call")])
    both = {"elicitation": {"form": {}, "url": {}}}
    assert declared == [[both, {}], [{**both, "roots": {}}, {"roots": {}}]]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"b": {"n": 1}}, "no question 'b'; 'a' is asked"),
        ({"a": {"n": "x"}}, "n: expected integer"),
        ({"a": 5}, "the answer to an elicitation"),
    ],
)
async def test_what_is_no_answer_is_not_sent(answers: Json, why: str) -> None:
    script = Script(MODERN, {"tools/call": lambda params: questions(STATE, a=(ELICIT, form()))})
    async with Client(script) as client:
        pending: Any = await client.begin("tools/call", {"name": "t"})
        with pytest.raises(LocalProtocolError, match=why) as caught:
            await client.resume(pending, answers)
        assert STATE not in str(caught.value)
    assert len(sent(script)) == 1


@pytest.mark.rule("R118")
async def test_a_question_of_an_extension_by_hand() -> None:
    script = Script(MODERN, {"tools/call": lambda params: questions(STATE, a=("acme/ask", {"x": 1}))})
    async with Client(script) as client:
        pending: Any = await client.begin("tools/call", {"name": "t"})
        assert pending.questions["a"].params == {"x": 1}
        script.on["tools/call"] = lambda params: DONE
        await client.resume(pending, {"a": {"y": 2}})
    assert sent(script)[1]["inputResponses"] == {"a": {"y": 2}}


async def test_a_question_that_cannot_be_read() -> None:
    asks = questions(STATE, a=(ELICIT, {"message": 5}))
    async with Client(Script(MODERN, {"tools/call": lambda params: asks})) as client:
        with pytest.raises(RemoteProtocolError, match="Invalid params"):
            await client.begin("tools/call", {"name": "t"})


@pytest.mark.rule("R103")
async def test_a_round_in_which_nothing_is_asked() -> None:
    script = Script(MODERN, {"tools/call": lambda params: questions(STATE)})
    async with Client(script) as client:
        pending: Any = await client.begin("tools/call", {"name": "t"})
        assert (isinstance(pending, Pending), pending.questions) == (True, {})
        script.on["tools/call"] = lambda params: DONE
        assert (await client.resume(pending)).text == "done"
    assert sent(script) == [{"name": "t"}, {"name": "t", "requestState": STATE}]


async def test_structured_content_is_checked() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    done = {**DONE, "structuredContent": {"n": "one"}}
    listed = {"resultType": "complete", "tools": [tool]}
    script = Script(MODERN, {"tools/call": lambda params: done, "tools/list": lambda params: listed})
    async with Client(script) as client:
        async for _ in client.tools():
            pass
        with pytest.raises(RemoteProtocolError, match="'t' breaks its output schema"):
            await client.begin("tools/call", {"name": "t"})


async def test_other_methods_are_not_begun() -> None:
    for version in BOTH:
        async with Client(script := Script(version), version=version) as client:
            with pytest.raises(LocalProtocolError, match="tools/list cannot ask"):
                await client.begin("tools/list", {})  # type: ignore[call-overload]
        assert sent(script, "tools/list") == []


async def test_in_a_legacy_session_the_handlers_answer_and_the_call_completes() -> None:
    def answer(question: Any) -> Any:
        return (
            {"value": 2} if "many" in question.message else True if "Order" in question.message else {"value": "large"}
        )

    async with client_of(version=LEGACY, elicit=answer) as client:
        result = await client.begin("tools/call", ORDER)
    assert isinstance(result, CallToolResult)
    assert result.text == "2 large tea"


async def test_what_was_begun_on_one_era_is_not_sent_on_the_other() -> None:
    async with client_of() as client:
        pending: Any = await client.begin("tools/call", ORDER)
    async with Client(script := Script(LEGACY), version=LEGACY) as client:
        with pytest.raises(LocalProtocolError, match="begun on the stateless protocol; this server speaks 2025-11-25"):
            await client.resume(pending, {next(iter(pending.questions)): False})
    assert sent(script) == []


async def test_progress_and_clocks_of_a_round() -> None:
    script, seen = Script(MODERN), []
    async with Client(script) as client:

        async def call() -> None:
            await client.begin("tools/call", {"name": "t"}, progress=lambda p: seen.append(p.progress), timeout=5)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            request = await script.next("tools/call")
            token = request["params"]["_meta"]["progressToken"]
            for value in (1, 2):
                script.give({"method": "notifications/progress", "params": {"progressToken": token, "progress": value}})
            script.result(request, questions(STATE, a=(ELICIT, form())))
    assert seen == [1, 2]
