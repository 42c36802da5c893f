"""The way of a call is short: at the user's function at most 8 frames of ours, in 8 modules, are on the stack
(docs/design.md)."""

import sys

import pytest

from backchannel import Client, Context, Server

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
