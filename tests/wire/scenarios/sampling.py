"""The client's model and its directories (client/sampling, client/roots)."""

from __future__ import annotations

from typing import Any

from backchannel import Context, Server
from backchannel.errors import ProtocolError
from backchannel.types import (
    Audio,
    CreateMessageResult,
    Image,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)

from ..recorder import Recorder
from ..scenario import having, scenario
from .tools import PNG, WAV

SAMPLING_TOOLS = having(lambda features: features.sampling_tools)


@scenario(
    "sample", "A conversation for the client's model, with what else a request can say; and a client that refuses."
)
async def sample(wire: Recorder) -> None:
    server = Server("poet")

    @server.tool
    async def slogan(ctx: Context, city: str) -> str:
        message = await ctx.sample(
            f"A slogan for {city}.",
            max_tokens=40,
            system="Be brief.",
            temperature=0.7,
            stop_sequences=["!"],
            model_preferences=ModelPreferences([ModelHint("claude"), ModelHint("small")], 0.2, 0.9, 0.4),
            metadata={"com.example/team": "ads"},
        )
        return message.text

    @server.tool
    async def caption(ctx: Context) -> str:
        picture = SamplingMessage("user", Image(data=PNG, mime_type="image/png").block())
        words = SamplingMessage("user", TextContent("What is this?"))
        return (await ctx.sample([picture, words], max_tokens=10)).text

    def answer(question: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent("Sea and light."), "claude-small", "endTurn")

    async with wire.client(server, sample=answer) as client:
        await client.call_tool("slogan", {"city": "Oslo"})
        await client.call_tool("caption")
    wire.note("A client whose user says no.")
    async with wire.client(server, sample=lambda question: None) as client:
        try:
            await client.call_tool("slogan", {"city": "Oslo"})
        except ProtocolError:
            assert wire.modern


@scenario(
    "sample-tools",
    "The model may use a tool: it wants one called, is told what that gave, and answers. A sound travels in between.",
    SAMPLING_TOOLS,
)
async def sample_tools(wire: Recorder) -> None:
    server = Server("poet")
    clock = Tool("clock", {"type": "object", "properties": {"zone": {"type": "string"}}}, description="The time.")

    @server.tool
    async def greet(ctx: Context) -> str:
        talk = [SamplingMessage("user", TextContent("Greet me, as the time of day has it."))]
        first = await ctx.sample(
            talk, max_tokens=50, tools=[clock], tool_choice=ToolChoice("auto"), include_context="thisServer"
        )
        [use] = [block for block in first.blocks if isinstance(block, ToolUseContent)]
        result = ToolResultContent(use.id, [TextContent("08:00"), Audio(data=WAV, mime_type="audio/wav").block()])
        talk += [SamplingMessage("assistant", first.content), SamplingMessage("user", [result])]
        return (await ctx.sample(talk, max_tokens=50, tools=[clock], tool_choice=ToolChoice("none"))).text

    def answer(question: Any) -> CreateMessageResult:
        if len(question.messages) == 1:
            blocks: list[Any] = [TextContent("Let me see."), ToolUseContent("use-1", "clock", {"zone": "CET"})]
            return CreateMessageResult("assistant", blocks, "claude-small", "toolUse")
        return CreateMessageResult("assistant", TextContent("Good morning."), "claude-small", "endTurn")

    async with wire.client(server, sample=answer, sample_tools=True, sample_context=True) as client:
        await client.call_tool("greet")


@scenario("roots", "The directories of the client; in a session it tells when they have changed.")
async def roots(wire: Recorder) -> None:
    server = Server("files")

    @server.tool
    async def count(ctx: Context) -> int:
        return len(await ctx.roots())

    async with wire.client(server, roots=["file:///home/ada/project"]) as client:
        await client.call_tool("count")
        await client.set_roots(["file:///home/ada/project", "file:///srv/data"])
        await client.call_tool("count")
