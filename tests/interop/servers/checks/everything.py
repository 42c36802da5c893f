"""The cells of the reference server that has everything (@modelcontextprotocol/server-everything)."""

from __future__ import annotations

import json

from tests.interop.servers.line import Line

ALWAYS = {"echo", "get-sum", "get-structured-content", "trigger-long-running-operation"}
IF_DECLARED = {"trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"}
WEATHER = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}


async def lists(line: Line) -> None:
    """Some tools are there for clients that can answer."""
    assert ALWAYS | IF_DECLARED <= await line.names()
    assert {prompt.name async for prompt in line.client.prompts()} >= {"simple-prompt", "args-prompt"}


async def calls(line: Line) -> None:
    assert await line.text("echo", message="grüß dich") == "Echo: grüß dich"
    assert "5" in await line.text("get-sum", a=2, b=3)


async def structured_output(line: Line) -> None:
    result = await line.call("get-structured-content", location="Chicago")
    assert (result.structured_content, json.loads(result.text)) == (WEATHER, WEATHER)


async def errors(line: Line) -> None:
    """Of a tool, and of its arguments."""
    wanted = {"resourceType": "Text", "resourceId": -1}
    assert "Must be a finite positive integer" in await line.failure("get-resource-reference", **wanted)
    assert "Chicago" in await line.failure("get-structured-content", location="Oslo")


async def progress(line: Line) -> None:
    reports = await line.progress("trigger-long-running-operation", duration=0.1, steps=4)
    assert reports == [(number, 4, None) for number in (1, 2, 3, 4)]


async def cancel(line: Line) -> None:
    """The operation does not look whether it is cancelled; the connection goes on."""
    await line.cancelled("trigger-long-running-operation", duration=1, steps=20)
    assert await line.text("echo", message="on") == "Echo: on"


async def elicit(line: Line) -> None:
    """A form with every kind of field, most of them with defaults."""
    line.host.answer = {"name": "Ada", "integer": 7, "untitledMultipleSelectEnum": ["Piano", "Drums"]}
    said = await line.text("trigger-elicitation-request")
    assert "- Name: Ada\n" in said
    assert "- Favorite Integer: 7" in said
    result = json.loads(said.partition("Raw result: ")[2])
    assert result["action"] == "accept"
    assert result["content"] == {
        "name": "Ada",
        "firstLine": "It was a dark and stormy night.",
        "integer": 7,
        "number": 3.14,
        "untitledSingleSelectEnum": "Monica",
        "untitledMultipleSelectEnum": ["Piano", "Drums"],
        "titledSingleSelectEnum": "hero-1",
        "titledMultipleSelectEnum": ["fish-1"],
        "legacyTitledEnum": "pet-1",
    }
    (question,) = line.host.asked
    assert question.requested_schema["required"] == ["name"]


async def decline(line: Line) -> None:
    """And cancel, which is the other way to refuse."""
    for line.host.answer, outcome in ((False, "decline"), (None, "cancel")):
        said = await line.text("trigger-elicitation-request")
        assert json.loads(said.partition("Raw result: ")[2]) == {"action": outcome}


async def sample(line: Line) -> None:
    said = await line.text("trigger-sampling-request", prompt="rain", maxTokens=50)
    assert json.loads(said.partition("\n")[2])["content"] == {"type": "text", "text": line.host.text}
    (question,) = line.host.asked
    assert "rain" in question.messages[0].content.text
    assert (question.max_tokens, question.system_prompt) == (50, "You are a helpful test server.")


async def roots(line: Line) -> None:
    assert f"URI: {line.host.folder.as_uri()}\n" in await line.text("get-roots-list")


CHECKS = {
    "list": lists,
    "call": calls,
    "structured output": structured_output,
    "error": errors,
    "progress": progress,
    "cancel": cancel,
    "elicit (form)": elicit,
    "elicit (decline)": decline,
    "sample": sample,
    "roots": roots,
}
