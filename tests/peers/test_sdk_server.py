"""Our client against a server written with the official SDK (mcp 2.3.0): both eras, both transports."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from backchannel import Client, ProtocolError, RemoteProtocolError, StdioServer
from backchannel.types import ElicitParams
from tests.peers.launching import ServerFile

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WIRES = [
    pytest.param(transport, version, id=f"{transport}-{version}")
    for transport in ("stdio", "http")
    for version in (LEGACY, MODERN)
]
pytestmark = pytest.mark.anyio
everywhere = pytest.mark.parametrize(("transport", "version"), WIRES)
# Where the transport makes no difference; launching a process takes its time.
over_http = pytest.mark.parametrize(("transport", "version"), WIRES[2:])


class Person:
    """Answers with what it was given, and writes all of it down. answers: message of a question -> the answer."""

    def __init__(self, answers: dict[str, Any] | None = None):
        self.answers = answers or {}
        self.asked: list[str] = []
        self.questions: list[ElicitParams] = []
        self.progress: list[Any] = []

    def elicit(self, question: ElicitParams) -> Any:
        self.asked.append(question.message)
        self.questions.append(question)
        return self.answers[question.message]

    def sample(self, question: Any) -> str:
        self.asked.append(question.messages[0].content.text)
        return "Go!"

    def roots(self) -> list[str]:
        self.asked.append("roots")
        return ["file:///home/me"]

    def progressed(self, progress: Any) -> None:
        self.progress.append((progress.progress, progress.total, progress.message))


def connect(server: ServerFile, transport: str, version: str, person: Person | None = None, **options: Any) -> Client:
    target: Any = server.url if transport == "http" else StdioServer(*server.command, env=server.env)
    if person is not None:
        options = {"elicit": person.elicit, "sample": person.sample, "roots": person.roots, **options}
    return Client(target, version=version, **options)


ANSWERS = {"When in {}?": {"arrival": "2026-12-24", "board": "half"}, "Book {}?": {"ok": True}}


def booking(city: str) -> dict[str, Any]:
    return {message.format(city): answer for message, answer in ANSWERS.items()}


def booked(city: str) -> dict[str, Any]:
    return {
        "city": city,
        "outcome": "booked",
        "arrival": "2026-12-24",
        "board": "half",
        "slogan": "Go!",
        "roots": ["file:///home/me"],
    }


@everywhere
@pytest.mark.rule("R37")
async def test_questions_in_parameters(sdk: ServerFile, transport: str, version: str) -> None:
    """The SDK sends reverse calls on the legacy wire, and rounds on the modern one: the caller cannot tell."""
    city = f"Oslo-{transport}-{version}"
    person = Person(booking(city))
    with anyio.fail_after(20):
        async with connect(sdk, transport, version, person) as client:
            result = await client.call_tool("book_resolved", {"city": city}, progress=person.progressed)
    assert not result.is_error, result.text
    assert result.structured_content == booked(city)
    assert sorted(person.asked) == [f"A slogan for {city}", f"Book {city}?", f"When in {city}?", "roots"]
    assert person.progress == [(1, 2, "charged"), (2, 2, "booked")]
    assert sdk.recorded(f"charge {city}") == 1


@over_http
@pytest.mark.rule("R39")
async def test_an_answer_that_breaks_the_schema(sdk: ServerFile, transport: str, version: str) -> None:
    """It never leaves: the server learns that the host failed."""
    person = Person({"When in Voss?": {"arrival": 7}})
    with anyio.fail_after(20):
        async with connect(sdk, transport, version, person) as client:
            with pytest.raises(ProtocolError, match="breaks the schema"):
                await client.call_tool("book_resolved", {"city": "Voss"})


@over_http
@pytest.mark.rule("R35")
async def test_a_client_without_handlers(sdk: ServerFile, transport: str, version: str) -> None:
    with anyio.fail_after(20):
        async with connect(sdk, transport, version) as client:
            with pytest.raises(RemoteProtocolError) as caught:
                await client.call_tool("book_resolved", {"city": "Voss"})
            assert caught.value.code == -32021
            assert (await client.call_tool("divide", {"a": 6, "b": 4})).text == "1.5"


@over_http
async def test_a_page_to_open(sdk: ServerFile, transport: str, version: str) -> None:
    person = Person({"Sign in": True})
    with anyio.fail_after(20):
        async with connect(sdk, transport, version, elicit_url=person.elicit) as client:
            if version == MODERN:
                with pytest.raises(RemoteProtocolError, match="no back-channel"):
                    await client.call_tool("sign_in")
                return
            assert (await client.call_tool("sign_in")).text == "accept"
    (question,) = person.questions
    assert (question.mode, question.url, question.elicitation_id) == ("url", "https://example.com/login", "login-1")


@over_http
@pytest.mark.rule("R139")
async def test_log_messages(sdk: ServerFile, transport: str, version: str) -> None:
    """On the legacy wire the SDK sends all of them, whatever the level."""
    logged: list[Any] = []
    with anyio.fail_after(20):
        async with connect(
            sdk, transport, version, log_level=None if version == LEGACY else "info", log=logged.append
        ) as client:
            await client.call_tool("chatter")
    said = [(message.level, message.logger, message.data) for message in logged]
    everything = [(level, "chatter", {"level": level}) for level in ("debug", "info", "error")]
    assert said == (everything if version == LEGACY else everything[1:])


@everywhere
@pytest.mark.case("B16")
@pytest.mark.rule("R62")
async def test_cancelling_a_call_that_asks(sdk: ServerFile, transport: str, version: str) -> None:
    """The question is closed, and nothing is sent again."""
    city = f"Cancelled-{transport}-{version}"
    scope, withdrawn, asked = anyio.CancelScope(), anyio.Event(), 0

    async def never(question: ElicitParams) -> None:
        nonlocal asked
        asked += 1
        scope.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.set()

    with anyio.fail_after(20):
        async with connect(sdk, transport, version, elicit=never, sample=lambda _: "Go!", roots=[]) as client:
            with scope:
                await client.call_tool("book_resolved", {"city": city})
            assert scope.cancelled_caught
            with anyio.fail_after(3):
                await withdrawn.wait()
            assert (await client.call_tool("divide", {"a": 6, "b": 4})).text == "1.5"
    assert asked == 1


@over_http
@pytest.mark.rule("R9")
async def test_many_calls_at_once(sdk: ServerFile, transport: str, version: str) -> None:
    cities = [f"City{number}-{transport}-{version}" for number in range(8)]
    person = Person({message: answer for city in cities for message, answer in booking(city).items()})
    results: dict[str, Any] = {}

    async def book(client: Client, city: str) -> None:
        results[city] = (await client.call_tool("book_resolved", {"city": city})).structured_content

    with anyio.fail_after(20):
        async with connect(sdk, transport, version, person) as client, anyio.create_task_group() as group:
            for city in cities:
                group.start_soon(book, client, city)
    assert results == {city: booked(city) for city in cities}
