"""Our client against a server written with FastMCP 4.2.3: both eras, both transports."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from backchannel import Client, StdioServer
from tests.peers.launching import ServerFile

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WIRES = [
    pytest.param(transport, version, id=f"{transport}-{version}")
    for transport in ("stdio", "http")
    for version in (LEGACY, MODERN)
]
pytestmark = pytest.mark.anyio


def connect(server: ServerFile, transport: str, version: str, **options: Any) -> Client:
    target: Any = server.url if transport == "http" else StdioServer(*server.command, env=server.env)
    return Client(target, version=version, **options)


@pytest.mark.parametrize(("transport", "version"), WIRES)
async def test_lists_calls_and_errors(fast: ServerFile, transport: str, version: str) -> None:
    progress: list[Any] = []
    logged: list[Any] = []
    with anyio.fail_after(20):
        async with connect(
            fast, transport, "auto" if version == MODERN else "legacy", log_level="info", log=logged.append
        ) as client:
            assert client.version == version
            assert client.server.info is not None
            assert (client.server.info.name, client.server.info.version) == ("fast", "4.2.3")
            assert client.server.instructions == "Made with FastMCP."
            await client.ping()

            tools = {tool.name: tool async for tool in client.tools()}
            assert set(tools) == {"divide", "count"}
            assert set(tools["divide"].input_schema["properties"]) == {"a", "b"}

            divided = await client.call_tool("divide", {"a": 6, "b": 4})
            assert (divided.text, divided.structured_content) == ("1.5", {"result": 1.5})
            failed = await client.call_tool("divide", {"a": 6, "b": 0})
            assert (failed.is_error, failed.text) == (True, "cannot divide by zero")
            wrong = await client.call_tool("divide", {"a": "six", "b": 3})
            assert wrong.is_error
            assert "integer" in wrong.text
            unknown = await client.call_tool("no_such_tool")
            assert unknown.is_error
            assert "no_such_tool" in unknown.text

            await client.call_tool("count", progress=lambda report: progress.append((report.progress, report.total)))
    assert progress == [(1, 3), (2, 3), (3, 3)]
    assert [(message.level, message.logger) for message in logged] == [("info", "count")]
