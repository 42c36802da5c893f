"""FastMCP's client (4.2.3) against our server: both eras, both transports."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError

from tests.peers.launching import ServerFile

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WIRES = [
    pytest.param(transport, version, id=f"{transport}-{version}")
    for transport in ("stdio", "http")
    for version in (LEGACY, MODERN)
]
pytestmark = pytest.mark.anyio
everywhere = pytest.mark.parametrize(("transport", "version"), WIRES)


def connect(server: ServerFile, transport: str, version: str, **options: Any) -> Client[Any]:
    command, *args = server.command
    target: Any = (
        server.url
        if transport == "http"
        else StdioTransport(command, args, env=server.env, keep_alive=False, log_file=server.errors)
    )
    return Client(target, mode="legacy" if version == LEGACY else version, **options)


@everywhere
async def test_lists_calls_and_errors(ours: ServerFile, transport: str, version: str) -> None:
    with anyio.fail_after(20):
        async with connect(ours, transport, version) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert {"book", "register", "divide"} <= set(tools)
            divided = await client.call_tool("divide", {"a": 6, "b": 4})
            assert divided.content[0].text == "1.5"
            assert divided.data == (None if version == LEGACY else 1.5)
            with pytest.raises(ToolError, match="cannot divide by zero"):
                await client.call_tool("divide", {"a": 6, "b": 0})
            with pytest.raises(ToolError, match="a: expected integer"):
                await client.call_tool("divide", {"a": "six", "b": 3})
            with pytest.raises(MCPError, match="Unknown tool: no_such_tool"):
                await client.call_tool("no_such_tool")


@everywhere
async def test_one_handler_asks_in_the_middle(ours: ServerFile, transport: str, version: str) -> None:
    city = f"Fast-{transport}-{version}"
    asked: list[str] = []
    progress: list[Any] = []

    async def elicit(message: str, kind: Any, params: Any, context: Any) -> Any:
        asked.append(message)
        return kind(value=True) if message.startswith("Book") else kind(arrival="2026-12-24", nights=2)

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    handlers = {
        "elicitation_handler": elicit,
        "sampling_handler": lambda messages, params, context: "Go!",
        "roots": ["file:///home/me"],
        "progress_handler": progressed,
    }
    with anyio.fail_after(20):
        async with connect(ours, transport, version, **handlers) as client:
            result = await client.call_tool("book", {"city": city})
    assert result.structured_content == {
        "city": city,
        "outcome": "booked",
        "arrival": "2026-12-24",
        "slogan": "Go!",
        "roots": ["file:///home/me"],
    }
    assert asked == [f"When in {city}?", f"Book {city} for 80?"]
    assert progress == [(1, 2, "charged"), (2, 2, "booked")]
    assert ours.recorded(f"charge {city}") == 1


@pytest.mark.parametrize(("transport", "version"), WIRES[2:])
async def test_a_person_may_close_a_question(ours: ServerFile, transport: str, version: str) -> None:
    async def elicit(message: str, kind: Any, params: Any, context: Any) -> Any:
        return ElicitResult(action="cancel")

    handlers = {"elicitation_handler": elicit, "sampling_handler": lambda messages, params, context: "Go!"}
    with anyio.fail_after(20):
        async with connect(ours, transport, version, **handlers) as client:
            result = await client.call_tool("book", {"city": "Bergen"})
    assert result.structured_content is not None
    assert result.structured_content["outcome"] == "Cancelled"
