"""The cells of the servers that are written here, which all have the same tools."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from backchannel import RemoteProtocolError
from tests.interop.servers.line import Line

PLAIN = {"echo", "add", "fail", "count", "hang", "heard"}
ASKING = ("order", "haiku", "roots")
names = (f"call {number}" for number in itertools.count(1))


async def lists(line: Line) -> None:
    assert line.client.server.info is not None
    assert line.client.server.instructions is not None
    assert line.client.server.instructions.startswith("Made with")
    tools = {tool.name: tool async for tool in line.client.tools()}
    assert PLAIN | {f"{kind}_{way}" for kind in ASKING for way in line.ways} <= set(tools)
    add: Any = tools["add"]
    assert (set(add.input_schema["properties"]), set(add.output_schema["properties"])) == ({"a", "b"}, {"sum"})


async def calls(line: Line) -> None:
    assert await line.text("echo", message="grüß dich") == "grüß dich"
    await line.client.ping()


async def structured_output(line: Line) -> None:
    assert (await line.call("add", a=2, b=3)).structured_content == {"sum": 5}


async def errors(line: Line) -> None:
    """Of a tool, of its arguments, and of the protocol."""
    assert "the milk is off" in await line.failure("fail", reason="the milk is off")
    assert await line.failure("add", a="two", b=3)
    with pytest.raises(RemoteProtocolError) as caught:
        await line.client.request("acme/thing")
    assert caught.value.code == -32601


async def progress(line: Line) -> None:
    assert await line.progress("count", to=3) == [(number, 3, f"step {number}") for number in (1, 2, 3)]


async def cancel(line: Line) -> None:
    """The server hears it."""
    name = next(names)
    await line.cancelled("hang", name=name)
    assert await line.text("heard", name=name) == f"{name} was cancelled"


async def elicit(line: Line) -> None:
    for way in line.ways:
        line.host.answer = {"size": "large"}
        assert await line.text(f"order_{way}", name="Ada") == "accept 1 large"
        question = line.host.asked.pop()
        assert question.message == "Which coffee for Ada?"
        assert question.requested_schema["properties"]["size"]["enum"] == ["small", "large"]
        assert question.requested_schema["required"] == ["size"]
        assert not line.host.asked


async def decline(line: Line) -> None:
    """And cancel, which is the other way to refuse."""
    for way in line.ways:
        for line.host.answer, outcome in ((False, "decline"), (None, "cancel")):
            assert await line.text(f"order_{way}", name="Ada") == outcome


async def sample(line: Line) -> None:
    for way in line.ways:
        assert await line.text(f"haiku_{way}", topic="rain") == line.host.text
        question = line.host.asked.pop()
        assert [message.content.text for message in question.messages] == ["A haiku about rain"]
        assert question.max_tokens == 50
        assert not line.host.asked


async def roots(line: Line) -> None:
    for way in line.ways:
        assert await line.text(f"roots_{way}") == line.host.folder.as_uri()


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
