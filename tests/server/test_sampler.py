"""The server's own model, where the client's cannot be asked: it runs once in a call, and later rounds see the same."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from trio.testing import MockClock

from backchannel import AskTimeout, Client, Context, MissingCapability, NoBackChannel, Server, StepError
from backchannel.protocol.types.content import TextContent, ToolUseContent
from backchannel.protocol.types.sampling import CreateMessageParams, CreateMessageResult
from backchannel.protocol.types.tools import Tool
from backchannel.testing import replaying
from backchannel.types import Image
from tests.server.replay import LEGACY, MODERN, SAMPLE, YES, both_eras, driver, failed, text

pytestmark = pytest.mark.anyio
FORMS_ONLY = {"elicitation": {}}


class Model:
    """A sampler that counts. asked: what it was asked."""

    def __init__(self, reply: Any = None):
        self.asked: list[CreateMessageParams] = []
        self.reply = reply

    async def __call__(self, params: CreateMessageParams) -> Any:
        self.asked.append(params)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply if self.reply is not None else f"answer {len(self.asked)}"


@both_eras
async def test_it_runs_once_and_every_round_sees_the_same(version: str) -> None:
    model, seen = Model(), []
    server = Server("test", sampler=model)

    @server.tool
    async def tool(ctx: Context) -> str:
        assert not ctx.can_ask("sampling")
        one = await ctx.sample("one", max_tokens=7, system="Be brief")
        assert await ctx.confirm("sure?")
        two = await ctx.sample(f"two after {one.text}", key="two")
        assert await ctx.confirm("really?")
        seen.append((one, two))
        return f"{one.text} {two.text} {one.source} {one.model} {one.stop_reason}"

    async with driver(server, version, FORMS_ONLY) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "answer 1 answer 2 server server endTurn"
        await wire.idle()
    assert [params.messages[0].blocks for params in model.asked] == [
        [TextContent("one")],
        [TextContent("two after answer 1")],
    ]
    assert (model.asked[0].max_tokens, model.asked[0].system_prompt) == (7, "Be brief")
    assert isinstance(seen[0][0], CreateMessageResult)


@both_eras
async def test_the_clients_model_comes_first(version: str) -> None:
    model = Model()
    server = Server("test", sampler=model)

    @server.tool
    async def tool(ctx: Context) -> str:
        assert ctx.can_ask("sampling")
        message = await ctx.sample("one")
        return f"{message.text} {message.source}"

    async with driver(server, version, {"sampling": {}}) as wire:
        assert text(await wire.rounds("tool", lambda *_: SAMPLE)) == "hello client"
    assert model.asked == []


@both_eras
async def test_a_client_cannot_pass_for_the_server(version: str) -> None:
    server = Server("test", sampler=Model())

    @server.tool
    async def tool(ctx: Context) -> str:
        return (await ctx.sample("one")).source

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", lambda *_: {**SAMPLE, "source": "server"})) == "client"


@both_eras
async def test_what_the_clients_model_lacks_the_servers_does(version: str) -> None:
    """Tools, here; the conversation goes on with what it said."""
    uses = CreateMessageResult("assistant", [ToolUseContent("a", "t", {})], "own", "toolUse")
    model = Model(uses)
    server = Server("test", sampler=model)

    @server.tool
    async def tool(ctx: Context) -> str:
        assert ctx.can_ask("sampling") and not ctx.can_ask("sampling.tools")
        turns: list[Any] = ["one", Image(data=b"\x89PNG\r\n\x1a\n")]
        message = await ctx.sample(turns, tools=[Tool("t", {"type": "object"})])
        model.reply = "done"
        last = await ctx.sample([*turns, message, message.tool_uses[0].result("x")])
        return f"{message.model} {last.text} {last.source}"

    async with driver(server, version, {"sampling": {}}) as wire:
        assert text(await wire.call("tool")) == "own done server"
    assert [len(params.messages) for params in model.asked] == [1, 3]
    assert len(model.asked[0].messages[0].blocks) == 2


async def test_who_cannot_be_reached_is_not_needed() -> None:
    server = Server("test", sampler=Model())

    @server.tool
    async def tool(ctx: Context) -> str:
        message = await ctx.sample("one")
        with pytest.raises(NoBackChannel):
            ctx.confirm("sure?")
        return message.text

    async with driver(server, LEGACY) as wire:
        await wire.serve(wire.exchange("tools/call", {"name": "tool"}, session=None))
        assert text(await wire.next()) == "answer 1"


@both_eras
async def test_other_questions_are_not_its_business(version: str) -> None:
    server = Server("test", sampler=Model())

    @server.tool
    async def tool(ctx: Context) -> str:
        for make in (lambda: ctx.roots(), lambda: ctx.confirm("sure?")):
            with pytest.raises(MissingCapability):
                make()
        return "done"

    async with driver(server, version, {}) as wire:
        assert text(await wire.call("tool")) == "done"


@both_eras
async def test_it_is_gathered_with_questions(version: str) -> None:
    model = Model()
    server = Server("test", sampler=model)

    @server.tool
    async def tool(ctx: Context) -> str:
        sure, message = await ctx.gather(ctx.confirm("sure?"), ctx.sample("one"))
        return f"{sure} {message.text}"

    async with driver(server, version, FORMS_ONLY) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "True answer 1"
        await wire.idle()
    assert len(model.asked) == 1


@both_eras
@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [(ValueError("no quota"), "ValueError", "no quota"), (7, "TypeError", "a text or a CreateMessageResult, not int")],
)
async def test_its_failure_is_that_of_a_step(reply: Any, kind: str, said: str, version: str) -> None:
    model, errors = Model(reply), []
    server = Server("test", sampler=model)

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await ctx.sample("one")
        except StepError as error:
            errors.append(error)
        await ctx.confirm("sure?")
        return "done"

    async with driver(server, version, FORMS_ONLY) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "done"
    assert {(error.kind, said in error.text) for error in errors} == {(kind, True)}
    assert len(model.asked) == 1


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
async def test_it_has_the_time_of_the_question(version: str) -> None:
    async def slow(params: CreateMessageParams) -> str:
        await anyio.sleep_forever()
        return "never"

    server = Server("test", sampler=slow)

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return (await ctx.sample("one", timeout=2)).text
        except AskTimeout as error:
            return str(error)

    async with driver(server, version, {}) as wire:
        assert text(await wire.call("tool")) == "the server's own model did not answer in time"
        await wire.idle()


async def test_another_text_is_another_question() -> None:
    texts = iter(["one", "other"])
    server = Server("test", sampler=Model())

    @server.tool
    async def tool(ctx: Context) -> str:
        message = await ctx.sample(next(texts))
        await ctx.confirm("sure?")
        return message.text

    async with driver(server, MODERN, FORMS_ONLY) as wire:
        response = await wire.rounds("tool", lambda *_: YES)
        assert response["error"]["code"] == -32602 and "'one'" in response["error"]["message"]


@both_eras
async def test_without_one_the_client_is_needed(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return (await ctx.sample("one")).text

    async with driver(server, version, {}) as wire:
        response = await wire.call("tool")
        if version == LEGACY:
            assert "'sampling'" in failed(response)
        else:
            assert response["error"]["code"] == -32021


@both_eras
async def test_over_a_client_and_replayed(version: str) -> None:
    model = Model()
    server = Server("test", sampler=model)

    @server.tool
    async def tool(ctx: Context) -> str:
        message = await ctx.sample("one")
        return f"{await ctx.confirm('sure?')} {message.text}"

    async with Client(replaying(server), elicit=lambda question: True, version=version) as client:
        assert (await client.call_tool("tool")).text == "True answer 1"
    assert len(model.asked) == 1
