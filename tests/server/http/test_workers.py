"""Several processes at one address."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.server.http.processes import Child, child
from tests.server.http.wire import ASKS, LEGACY, accept, call, request, text

pytestmark = pytest.mark.anyio


async def pids(process: Child, count: int) -> list[int]:
    """The workers, once that many have started."""
    return [int(await process.hear("start")) for _ in range(count)]


async def gone(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await anyio.sleep(0.01)


@pytest.mark.rule("R104")
async def test_each_round_of_a_call_may_come_to_another_worker() -> None:
    async with child(workers=3) as process:
        workers = await pids(process, 3)
        there = process.wire
        for _ in range(3):
            first = (await (await there.modern(call("ask"), ASKS)).json())["result"]
            [key] = first["inputRequests"]
            answer = {"requestState": first["requestState"], "inputResponses": {key: accept(value="Ada")}}
            again = call("ask", id=2)
            again["params"] |= answer
            while True:  # each connection is a new chance
                name, asked, went_on = text(await (await there.modern(again, ASKS)).json()).split()
                assert name == "Ada"
                assert {int(asked), int(went_on)} <= set(workers)
                if asked != went_on:
                    break


@pytest.mark.rule("R88")
async def test_legacy_clients_get_no_session_that_another_worker_would_not_know() -> None:
    async with child(workers=2) as process:
        await pids(process, 2)
        params = {"protocolVersion": LEGACY, "capabilities": ASKS, "clientInfo": {"name": "x", "version": "1"}}
        for _ in range(10):
            response = await process.wire.post(request("initialize", params))
            assert response.status == 200
            assert "mcp-session-id" not in response.headers
            response = await process.wire.post(call("ask"), mcp_protocol_version=LEGACY)
            assert (await response.json())["result"]["isError"] is True


@pytest.mark.case("G08")
@pytest.mark.parametrize("everybody", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_all(number: int, code: int, everybody: bool) -> None:
    async with child(workers=3) as process:
        workers = await pids(process, 3)
        response = await process.wire.modern(call("sleep", token="t"))
        await response.message()
        if everybody:  # as Ctrl-C does in a terminal
            os.killpg(process.process.pid, number)
        else:
            process.signal(number)
        assert (await response.messages())[-1]["error"]["code"] == -32603
        assert await process.end() == code
        for pid in workers:
            await gone(pid)
        assert sorted(line for line in process.said if line.startswith("end")) == sorted(
            f"end {pid}" for pid in workers
        )
        assert process.said.count("cancelled") == 1
        assert await process.errors() == ""


async def test_a_second_signal_kills_all() -> None:
    async with child(workers=2, grace=600) as process:
        workers = await pids(process, 2)
        response = await process.wire.modern(call("sleep", token="t"))
        await response.message()
        for _ in range(2):
            process.signal(signal.SIGTERM)
            await anyio.sleep(0.1)  # two signals at once would be one
        assert await process.end() == 143
        for pid in workers:
            await gone(pid)


async def test_a_worker_that_dies_is_replaced() -> None:
    async with child(workers=2) as process:
        first, second = await pids(process, 2)
        os.kill(first, signal.SIGKILL)
        [third] = await pids(process, 1)
        seen: set[str] = set()
        while seen != {str(second), str(third)}:
            seen.add(text(await (await process.wire.modern(call("pid"))).json()))
        process.signal(signal.SIGINT)
        assert await process.end() == 130
        assert f"worker {first} ended with code -9 and is replaced" in await process.errors()


async def test_a_replacement_that_cannot_start_is_tried_again_while_the_others_serve(tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    async with child(workers=2, fail=str(trouble)) as process:
        first, second = await pids(process, 2)
        trouble.touch()
        os.kill(first, signal.SIGKILL)
        await process.hear("failed")
        trouble.unlink()
        [third] = await pids(process, 1)
        assert third not in (first, second)
        process.signal(signal.SIGINT)
        assert await process.end() == 130
        assert f"end {second}" in process.said
        assert "ended with code 3 and is replaced" in await process.errors()


async def test_workers_end_when_their_parent_is_gone() -> None:
    async with child(workers=2) as process:
        workers = await pids(process, 2)
        process.signal(signal.SIGKILL)
        await process.hear("end")
        await process.hear("end")
        for pid in workers:
            await gone(pid)
