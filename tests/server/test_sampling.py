"""Sampling on each era and version: what is sent, what comes back, and who may be asked for what."""

from typing import Any

import pytest

from backchannel import Client, Context, MissingCapability, Sample, Server
from backchannel.protocol.types.content import TextContent, ToolUseContent
from backchannel.protocol.types.sampling import CreateMessageParams, CreateMessageResult, ModelPreferences, ToolChoice
from backchannel.protocol.types.tools import Tool
from backchannel.types import Audio, Image
from tests.server.replay import LEGACY, MODERN, SAMPLE, Message, both_eras, driver, failed, text

pytestmark = pytest.mark.anyio
WEATHER = Tool("weather", {"type": "object", "properties": {"city": {"type": "string"}}})
PNG, WAV = b"\x89PNG\r\n\x1a\n", b"RIFF0000WAVE"


@pytest.mark.rule("R15")
@both_eras
async def test_a_model_that_uses_tools(version: str) -> None:
    """The loop that an agent is made of, over a client."""
    server, ran = Server("test"), list[str]()

    def weather(city: str) -> str:
        ran.append(city)
        return f"rain in {city}"

    @server.tool
    async def umbrella(ctx: Context) -> str:
        turns: list[Any] = ["Do I need an umbrella?", Image(data=PNG)]
        while True:
            message = await ctx.sample(turns, tools=[WEATHER], tool_choice="auto", system="Be brief")
            if not message.tool_uses:
                return f"{message.text} {message.stop_reason} {message.source}"
            turns.append(message)
            for use in message.tool_uses:
                turns.append(use.result(await ctx.step("weather", weather, use.input["city"])))

    asked: list[CreateMessageParams] = []

    def model(question: CreateMessageParams) -> CreateMessageResult:
        asked.append(question)
        if len(question.messages) == 1:
            uses = [ToolUseContent(city, "weather", {"city": city}) for city in ("Paris", "Oslo")]
            return CreateMessageResult("assistant", [TextContent("Let me see."), *uses], "m", "toolUse")
        return CreateMessageResult("assistant", [TextContent("Yes,"), TextContent("take one.")], "m", "endTurn")

    async with Client(server, sample=model, sample_tools=True, version=version) as client:
        assert (await client.call_tool("umbrella")).text == "Yes,\ntake one. endTurn client"
    assert ran == ["Paris", "Oslo"] and len(asked) == 2
    assert [message.role for message in asked[1].messages] == ["user", "assistant", "user"]
    assert [block.tool_use_id for block in asked[1].messages[2].blocks] == ["Paris", "Oslo"]  # type: ignore[union-attr]
    assert asked[0].tool_choice == ToolChoice("auto") and asked[0].tools == [WEATHER]


CONTINUED = CreateMessageResult("assistant", ToolUseContent("a", "weather", {}), "m")


@pytest.mark.rule("R15")
@pytest.mark.case("A14")
@pytest.mark.parametrize("version", ["2025-06-18", LEGACY, MODERN])
@pytest.mark.parametrize(
    "make",
    [
        lambda ctx: ctx.sample("a", tools=[WEATHER]),
        lambda ctx: ctx.sample("a", tools=[]),
        lambda ctx: ctx.sample("a", tool_choice="none"),
        lambda ctx: ctx.sample(["a", CONTINUED, CONTINUED.tool_uses[0].result("no")]),
    ],
)
async def test_tools_need_a_client_that_has_them(make: Any, version: str) -> None:
    """Before 2025-11-25 nobody has, whatever the client says."""
    server, missing = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            return str((await make(ctx)).text)
        except MissingCapability as error:
            missing.append(error.capability)
            raise

    async with driver(server, version, {"sampling": {}}) as wire:
        await wire.call("tool")
        assert not [message for message in wire.sent if "method" in message]
    async with driver(server, version, {"sampling": {"tools": {}}}) as wire:
        if version == "2025-06-18":
            assert "2025-06-18 has no tools in sampling" in failed(await wire.call("tool"))
        else:
            assert text(await wire.rounds("tool", lambda *_: SAMPLE)) == "hello"
    assert missing == ["sampling.tools"] * (2 if version == "2025-06-18" else 1)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN])
async def test_messages_of_several_blocks_are_one_where_the_version_has_them(version: str) -> None:
    server, sent = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.sample(["What is it?", Image(data=PNG)], model_preferences=["sonnet", "claude"])
        if ctx.version != "2024-11-05":
            await ctx.sample(Audio(data=WAV))
        return "done"

    def answer(key: str, question: Message) -> Message:
        sent.append(question["params"])
        return SAMPLE

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", answer)) == "done"
    kinds = [
        [block["type"] for block in (content if isinstance(content, list) else [content])]
        for content in (message["content"] for message in sent[0]["messages"])
    ]
    assert kinds == ([["text", "image"]] if version in (LEGACY, MODERN) else [["text"], ["image"]])
    assert {message["role"] for message in sent[0]["messages"]} == {"user"}
    assert sent[0]["modelPreferences"] == {"hints": [{"name": "sonnet"}, {"name": "claude"}]}
    assert version == "2024-11-05" or sent[1]["messages"][0]["content"]["type"] == "audio"


async def test_a_version_without_audio_is_not_sent_any() -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return (await ctx.sample(Audio(data=WAV))).text

    async with driver(server, "2024-11-05") as wire:
        assert "protocol version 2024-11-05 has no audio" in failed(await wire.call("tool"))
        assert not [message for message in wire.sent if "method" in message]


@both_eras
@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ({"type": "text", "text": "a"}, "a"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([], ""),
        ({"type": "image", "data": "", "mimeType": "image/png"}, ""),
    ],
)
async def test_an_answer_is_one_block_or_several(content: Any, wanted: str, version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        message = await ctx.sample("a")
        return repr((message.text, len(message.blocks), message.stop_reason))

    async with driver(server, version) as wire:
        reply = {"role": "assistant", "model": "m", "content": content, "stopReason": "ours"}
        count = len(content) if isinstance(content, list) else 1
        assert text(await wire.rounds("tool", lambda *_: reply)) == repr((wanted, count, "ours"))


@both_eras
async def test_a_conversation_that_breaks_the_rules_is_not_sent(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return (await ctx.sample(["a", CONTINUED, "b"], tools=[WEATHER])).text

    async with driver(server, version) as wire:
        error = (await wire.call("tool"))["error"]
        assert error["message"] == "message 3 of the conversation comes where the results of tool calls are missing: a"
        assert not [message for message in wire.sent if "method" in message]


def test_which_model_is_wanted() -> None:
    def params(given: Any) -> ModelPreferences | None:
        return Sample("a", model_preferences=given).params("2026-07-28", "id").model_preferences  # type: ignore[arg-type]

    assert params(None) is None
    assert params("sonnet") == params(["sonnet"])
    kept = ModelPreferences(speed_priority=1.0, cost_priority=0)
    assert params(kept) is kept
    with pytest.raises(ValueError, match="between 0 and 1, and not 2"):
        params(ModelPreferences(intelligence_priority=2))


def test_options_that_there_are_not() -> None:
    with pytest.raises(TypeError, match="sampling has no prompt, top_k"):
        Sample("a", top_k=1, prompt="x")  # type: ignore[call-arg]
