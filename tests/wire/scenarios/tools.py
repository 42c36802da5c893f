"""Tools (server/tools)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from backchannel import Limits, Server, ToolError
from backchannel.errors import ProtocolError
from backchannel.types import Annotations, Audio, File, Icon, Image, ToolAnnotations, link

from ..recorder import Recorder
from ..scenario import scenario

PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x00\x00\x00\x00WAVE"


@dataclass
class Forecast:
    """What the weather will be."""

    city: str
    degrees: float
    sky: Literal["clear", "cloudy"] = "clear"


def _weather() -> Server:
    server = Server("weather", limits=Limits(page=2), ttl=300, public=True)

    @server.tool(
        title="Forecast",
        annotations=ToolAnnotations("Forecast", read_only_hint=True, open_world_hint=True),
        icons=[Icon("https://weather.example/sun.svg", "image/svg+xml", ["any"], "light")],
        meta={"com.example/cost": 1},
    )
    async def forecast(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1) -> Forecast:
        """The weather of the next days."""
        return Forecast(city, 21.5)

    @server.tool
    async def measure(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], station: int | None = None
    ) -> float:
        """A temperature, measured now."""
        return 21.5

    @server.tool
    async def reset() -> None:
        """Forget everything."""

    return server


@scenario(
    "tools-list",
    """Three tools on two pages: one with a title, annotations, an icon and an output schema, one with an argument that
    is mirrored into an HTTP header and a result that is a number, one with nothing.""",
)
async def tools_list(wire: Recorder) -> None:
    async with wire.client(_weather()) as client:
        assert [tool.name async for tool in client.tools()] == ["forecast", "measure", "reset"]


@scenario(
    "tools-call",
    """A text, structured content, a number, nothing, and failures: of the tool, of the arguments, and a tool that
    nobody knows.""",
)
async def tools_call(wire: Recorder) -> None:
    server = _weather()

    @server.tool
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    @server.tool
    async def fail() -> str:
        raise ToolError("The barometer is broken.")

    async with wire.client(server) as client:
        wire.note("A text.")
        await client.call_tool("greet", {"name": "Ada"})
        wire.note("Structured content, and its JSON as text beside it.")
        await client.call_tool("forecast", {"city": "Oslo"})
        wire.note("A number: structured content that is no object.")
        await client.call_tool("measure", {"region": "north"})
        wire.note("Nothing.")
        await client.call_tool("reset")
        wire.note("The tool failed.")
        await client.call_tool("fail")
        wire.note("The arguments break the schema: what the model needs to correct them.")
        await client.call_tool("forecast", {"city": 5, "days": 9, "unit": "C"})
        wire.note("There is no such tool.")
        await _refused(client.call_tool("guess"))


async def _refused(call: Any) -> None:
    try:
        await call
    except ProtocolError:
        return
    raise AssertionError("the call went through")


@scenario(
    "tools-content",
    "One result with a block of every type. Where a version lacks a type, a text stands in its place.",
)
async def tools_content(wire: Recorder) -> None:
    server = Server("museum")

    @server.tool
    async def show() -> list[Any]:
        return [
            "A bell, cast in 1790.",
            Image(data=PNG, mime_type="image/png", annotations=Annotations(["user"], 0.9)),
            Audio(data=WAV, mime_type="audio/wav"),
            File(data="cast,1790", uri="museum://bell.csv", mime_type="text/csv"),
            File(data=b"\x00\x01", uri="museum://bell.bin", annotations=Annotations(["assistant"])),
            link("https://museum.example/bell.html", title="The bell", description="All about it.", size=2048),
        ]

    async with wire.client(server) as client:
        await client.call_tool("show")
