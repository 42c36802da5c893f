"""The stdio driver with our own client at the other end."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from backchannel.client.stdio import StdioServer
from backchannel.targets import Client
from tests.server.raw_child import write_server as write


@pytest.mark.anyio
@pytest.mark.rule("R28", "R76")
@pytest.mark.parametrize("version", ["legacy", "modern"])
@pytest.mark.parametrize("tool", ["ask", "ask_in_thread"])
async def test_our_client_answers_on_either_era(tmp_path: Path, version: str, tool: str) -> None:
    server = StdioServer(sys.executable, write(tmp_path), stderr="capture")
    with anyio.fail_after(30):
        async with Client(server, elicit=lambda question: {"value": True}, version=version) as client:
            results: list[Any] = []

            async def one() -> None:
                results.append(await client.call_tool(tool))

            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(one)
            assert [[block.text for block in result.content] for result in results] == [["Accepted"]] * 5
