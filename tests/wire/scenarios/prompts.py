"""Prompts and completion (server/prompts, server/utilities/completion)."""

from __future__ import annotations

from backchannel import Limits, Server
from backchannel.errors import ProtocolError
from backchannel.types import Audio, Completion, Icon, Image, PromptMessage, TextContent, link

from ..recorder import Recorder
from ..scenario import having, scenario
from .tools import PNG, WAV

CITIES = {"no": ["Oslo", "Bergen"], "se": ["Stockholm"]}


def _travel() -> Server:
    server = Server("travel", limits=Limits(page=1))

    @server.prompt(title="Plan a trip", icons=[Icon("https://travel.example/trip.png", "image/png")])
    async def trip(country: str, city: str, season: str = "summer") -> list[PromptMessage]:
        """A plan for a few days."""
        return [
            PromptMessage("user", TextContent(f"Plan a trip to {city} in {season}.")),
            PromptMessage("user", Image(data=PNG, mime_type="image/png").block()),
            PromptMessage("user", Audio(data=WAV, mime_type="audio/wav").block()),
            PromptMessage("user", link("https://travel.example/oslo.html", title="A guide")),
            PromptMessage("assistant", TextContent("With pleasure.")),
        ]

    @server.prompt
    async def hello() -> str:
        return "Say hello."

    @server.resource("city://{name}")
    async def city_of(name: str) -> str:
        return name

    @server.completion("trip", "city")
    def cities(value: str, known: dict[str, str]) -> list[str]:
        found = CITIES.get(known.get("country", ""), [city for some in CITIES.values() for city in some])
        return [city for city in found if city.startswith(value)]

    @server.completion("city://{name}", "name")
    async def names(value: str) -> Completion:
        return Completion([f"{value}slo", f"{value}ttawa"], total=12)

    return server


@scenario("prompts-list", "Two prompts on two pages, the first with arguments.")
async def prompts_list(wire: Recorder) -> None:
    async with wire.client(_travel()) as client:
        assert [prompt.name async for prompt in client.prompts()] == ["trip", "hello"]


@scenario(
    "prompts-get",
    """A prompt of several messages, where a version's missing types are texts; a text; a missing argument; a prompt
    that nobody knows.""",
)
async def prompts_get(wire: Recorder) -> None:
    async with wire.client(_travel()) as client:
        await client.get_prompt("trip", {"country": "no", "city": "Oslo"})
        await client.get_prompt("hello")
        for name in ("trip", "goodbye"):
            try:
                await client.get_prompt(name)
            except ProtocolError:
                continue
            raise AssertionError(f"{name} was given")


@scenario("completion", "What an argument of a prompt could be, and a variable of a template, of which there are many.")
async def completion(wire: Recorder) -> None:
    async with wire.client(_travel()) as client:
        await client.complete(prompt="trip", argument="city", value="")
        found = await client.complete(template="city://{name}", argument="name", value="O")
        assert found.has_more


@scenario(
    "completion-context",
    "What an argument could be, given the other arguments that are known.",
    having(lambda features: features.resource_links),  # they came with the same version
)
async def completion_context(wire: Recorder) -> None:
    async with wire.client(_travel()) as client:
        found = await client.complete(prompt="trip", argument="city", value="", context={"country": "se"})
        assert found.values == ["Stockholm"]
