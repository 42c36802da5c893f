"""The server that the official conformance suite talks to: its tools, resources and prompts are the suite's.

    python conformance/server.py --port 8000

Written with the public API only.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from backchannel import Context, Elicit, InputRequired, Server, ToolError, run
from backchannel.types import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQAAAAA="
PAUSE = 0.05  # seconds between two notifications

server = Server("backchannel-conformance", version="1.0.0")


# What a tool returns.


@server.tool
async def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@server.tool
async def test_image_content() -> ImageContent:
    """Returns an image."""
    return ImageContent(PNG, "image/png")


@server.tool
async def test_audio_content() -> AudioContent:
    """Returns a sound."""
    return AudioContent(WAV, "audio/wav")


@server.tool
async def test_embedded_resource() -> EmbeddedResource:
    """Returns a resource inside the result."""
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@server.tool
async def test_multiple_content_types() -> list[ContentBlock]:
    """Returns text, an image and a resource."""
    return [
        TextContent("Multiple content types test:"),
        ImageContent(PNG, "image/png"),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ]


@server.tool
async def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(ResourceContents(uri, text=text, mime_type=mime_type))


# What a tool tells while it runs.


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Sends three log messages."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.log("info", text)
        await asyncio.sleep(PAUSE)
    return "Logged."


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, total=100, message=f"Completed step {done} of 100")
        await asyncio.sleep(PAUSE)
    return "Done."


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs, which a client that asked for no level never hears."""
    await ctx.log("info", "Nobody asked for this.")
    return "Logged to nobody."


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Frees the connection, and takes a moment."""
    await ctx.disconnect(retry=PAUSE)
    await asyncio.sleep(PAUSE)
    return "The result came."


# What a tool asks, by a call to the client or in another round, as the wire has it.


@dataclass
class Person:
    username: Annotated[str, Field(description="User's response")]
    email: Annotated[str, Field(description="User's email address")]


@dataclass
class Defaults:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


class Option(Enum):
    """The titles that people see are the names: "First option"."""

    FIRST_OPTION = "value1"
    SECOND_OPTION = "value2"
    THIRD_OPTION = "value3"


@dataclass
class Enums:
    untitledSingle: Literal["option1", "option2", "option3"]
    titledSingle: Option
    legacyEnum: Annotated[
        Literal["opt1", "opt2", "opt3"],
        Field(json_schema_extra={"enumNames": ["Option One", "Option Two", "Option Three"]}),
    ]
    untitledMulti: list[Literal["option1", "option2", "option3"]]
    titledMulti: list[Option]


@dataclass
class Name:
    name: str


@dataclass
class Colour:
    color: str


@dataclass
class Background:
    context: str


@dataclass
class Ok:
    ok: bool


@server.tool
async def test_sampling(ctx: Context, prompt: str) -> str:
    """Has the client's model complete a prompt."""
    message = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {message.text}"


@server.tool
async def test_elicitation(ctx: Context, message: str) -> str:
    """Asks the person a question."""
    return f"User response: {await ctx.elicit(message, Person)}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with a form whose fields have defaults."""
    return f"Elicitation completed: {await ctx.elicit('Please review and update the form fields', Defaults)}"


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with a form of every kind of choice."""
    return f"Elicitation completed: {await ctx.elicit('Please select options from the enum fields', Enums)}"


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Needs sampling; without it the call is an error that says so."""
    return (await ctx.sample("Say hello.")).text


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Asks for a name."""
    return f"Hello, {(await ctx.elicit('What is your name?', Name)).unwrap().name}!"


NAME = Elicit("What is your name?", Name)


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequired:
    """Asks for a name, and takes one that comes unasked."""
    name = ctx.answers.read("user_name", NAME)
    if name is None:
        return InputRequired({"user_name": NAME})
    return f"Hello, {name.unwrap().name}!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the client's model for a capital."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")).text


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the client's roots."""
    return "\n".join(root.uri for root in await ctx.roots(key="client_roots"))


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks for an OK, which is taken with the state alone."""
    await ctx.elicit("Please confirm", Ok, key="confirm")
    return "state-ok"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks a person, a model and for roots, in one round."""
    name, greeting, roots = await ctx.gather(
        ctx.elicit("What is your name?", Name, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"{greeting.text} {name.unwrap().name}, you have {len(roots)} roots."


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks two questions, one after the other."""
    name = (await ctx.elicit("Step 1: What is your name?", Name, key="step1")).unwrap().name
    colour = (await ctx.elicit("Step 2: What is your favorite color?", Colour, key="step2")).unwrap().color
    return f"{name} likes {colour}."


@server.tool
async def test_input_required_result_tampered_state(confirm: Annotated[Ok, Elicit("Please confirm")]) -> str:
    """Asks for an OK, with a state that the client must not change."""
    return f"Confirmed: {confirm.ok}"


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks what this client can answer, and nothing else."""
    answers: list[Any] = []
    if ctx.can_ask("form"):
        answers.append((await ctx.elicit("What is your name?", Name, key="user_name")).unwrap().name)
    if ctx.can_ask("sampling"):
        answers.append((await ctx.sample("Say hello.", max_tokens=50, key="hello")).text)
    return " ".join(answers) or "There was nothing that this client can answer."


# How a tool is listed.

SCHEMA_2020_12: dict[str, Any] = json.loads(Path(__file__).with_name("schema_2020_12.json").read_text(encoding="utf-8"))


@server.tool(input_schema=SCHEMA_2020_12)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Has a schema that no annotation gives."""
    return f"Called with {sorted(arguments)}"


@server.tool
async def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Has an argument that clients also send as a header."""
    return f"Region: {region}"


# What changes.

numbers = itertools.count(1)


async def temporary() -> str:
    """Comes and goes."""
    return "Here."


@server.tool
async def test_trigger_tool_change() -> str:
    """Changes the list of tools."""
    server.add_tool(temporary, name=f"temporary_{next(numbers)}")
    return f"Told {await server.notify.tools_changed()} listeners."


@server.tool
async def test_trigger_prompt_change() -> str:
    """Changes the list of prompts."""
    server.prompt(name=f"temporary_{next(numbers)}")(temporary)
    return f"Told {await server.notify.prompts_changed()} listeners."


# Resources.


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """An image."""
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text to subscribe to."""
    return "Watched."


@server.resource("test://template/{id}/data", name="template-data", mime_type="application/json")
async def template_data(id: str) -> dict[str, Any]:
    """The data of one id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# Prompts.


@server.prompt
async def test_simple_prompt() -> str:
    """One message."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A message made of two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """A resource and a text."""
    return [embedded(resourceUri, "Embedded resource content for testing."), "Please process the resource above."]


@server.prompt
async def test_prompt_with_image() -> list[Any]:
    """An image and a text."""
    return [ImageContent(PNG, "image/png"), "Please analyze the image above."]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Asks before it gives its message."""
    answer = await ctx.elicit("What context should the prompt use?", Background, key="user_context")
    return f"Use this context: {answer.unwrap().context}"


@server.completion("test_prompt_with_arguments", "arg1")
async def complete_arg1(value: str) -> list[str]:
    return [word for word in ("test", "testing", "testValue1") if word.startswith(value)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    run(server, http=f"127.0.0.1:{parser.parse_args().port}")


if __name__ == "__main__":
    main()
