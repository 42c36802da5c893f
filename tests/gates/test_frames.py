"""The way of a call is short: at the user's function at most 8 frames of ours, in 8 modules, are on the stack
(docs/design.md)."""

import asyncio
import json
import sys
from typing import Any

import pytest

from backchannel import Client, Context, Server, http_app

FRAMES = MODULES = 8


def ours() -> list[tuple[str, str]]:
    """The frames of this package on the stack, innermost first, as module and function."""
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "backchannel":
            found.append((module, frame.f_code.co_qualname))
        frame = frame.f_back  # type: ignore[assignment]
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_few_frames_lie_between_the_loop_and_a_tool_in_process(version: str) -> None:
    server = Server("test")
    stacks: list[list[tuple[str, str]]] = []

    @server.tool
    async def before(ctx: Context) -> str:
        stacks.append(ours())
        await ctx.confirm("sure?")
        stacks.append(ours())
        return "done"

    async with Client(server, elicit=lambda question: {"value": True}, version=version) as client:
        assert (await client.call_tool("before")).text == "done"
    for stack in stacks:
        assert stack and len(stack) <= FRAMES, stack
        assert len({module for module, _ in stack}) <= MODULES, stack


def test_few_frames_lie_between_the_asgi_server_and_a_tool() -> None:
    """One coroutine goes from the ASGI entry to the tool and back."""
    server = Server("test")
    stack: list[tuple[str, str]] = []

    @server.tool
    async def look() -> str:
        stack.extend(ours())
        return "done"

    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "look", "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"mcp-protocol-version", b"2026-07-28"),
        (b"mcp-method", b"tools/call"),
        (b"mcp-name", b"look"),
    ]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        app = http_app(server)
        async with app.running():
            await app(scope, receive, send)

    asyncio.run(main())
    assert sent[0]["status"] == 200
    assert stack and len(stack) <= FRAMES, stack
    assert stack[-1][1] == "HttpApp.__call__"
    assert len({module for module, _ in stack}) <= MODULES, stack
