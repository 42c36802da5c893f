"""Batches on a channel: at 2025-03-26, and nowhere else."""

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Context, Server
from backchannel.protocol.jsonrpc import MOST_IN_BATCH, Batch, Malformed, decode
from tests.server.replay import LEGACY, MODERN
from tests.server.test_subscriptions import Line, serving

pytestmark = [pytest.mark.anyio, pytest.mark.rule("R89")]
BATCHES = "2025-03-26"


@pytest.fixture
def server() -> Server:
    server = Server("test")

    @server.tool
    async def double(n: int) -> str:
        for _ in range(5 - n):
            await anyio.lowlevel.checkpoint()
        return str(2 * n)

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("What?", max_tokens=5)).text

    @server.tool
    async def wait() -> None:
        await anyio.sleep_forever()

    return server


def raw(line: Line, data: Any) -> None:
    line.send.send_nowait(decode(data if isinstance(data, bytes) else json.dumps(data).encode()))


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", name=tool, arguments=arguments)


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def initialize(line: Line, version: str) -> None:
    client = {"name": "c", "version": "1"}
    raw(line, request(0, "initialize", protocolVersion=version, capabilities={"sampling": {}}, clientInfo=client))
    assert (await line.next())["result"]["protocolVersion"] == version
    raw(line, note("notifications/initialized"))


async def test_a_batch_is_answered_as_a_batch(server: Server) -> None:
    async with serving(server) as [line]:
        await initialize(line, BATCHES)
        raw(
            line,
            [
                call(1, "double", n=1),
                note("notifications/roots/list_changed"),
                call("two", "double", n=2),
                request(3, "ping"),
                request(4, "no/such"),
                5,
                [],
                {"jsonrpc": "2.0", "id": 6},
            ],
        )
        answers: Any = await line.next()
        by_id = {answer.get("id"): answer for answer in answers}
        assert len(answers) == 7
        assert [by_id[id]["result"]["content"][0]["text"] for id in (1, "two")] == ["2", "4"]
        assert by_id[3]["result"] == {}
        assert [by_id[id]["error"]["code"] for id in (4, None, 6)] == [-32601, -32600, -32600]
        raw(line, [call(1, "double", n=4)])
        assert [answer["id"] for answer in await line.next()] == [1]


async def test_initialize_has_no_place_in_a_batch(server: Server) -> None:
    async with serving(server) as [line]:
        client = {"name": "c", "version": "1"}
        start = request(0, "initialize", protocolVersion=BATCHES, capabilities={}, clientInfo=client)
        raw(line, [start, request(1, "ping")])
        assert (await line.next())["error"]["code"] == -32600
        await initialize(line, BATCHES)
        raw(line, [start, request(1, "ping")])
        answers: Any = await line.next()
        assert [answer["id"] for answer in answers] == [0, 1]
        assert "must not be part of a batch" in answers[0]["error"]["message"]


async def test_nothing_to_answer_gives_no_answer_and_an_empty_batch_an_error(server: Server) -> None:
    async with serving(server) as [line]:
        await initialize(line, BATCHES)
        raw(line, [note("notifications/roots/list_changed"), note("no/such")])
        raw(line, b" [ ] ")
        error = await line.next()
        assert (error["error"]["code"], "id" in error) == (-32600, False)
        raw(line, [call(1, "wait"), call(2, "wait")])
        raw(line, [note("notifications/cancelled", requestId=1), note("notifications/cancelled", requestId=2)])
        raw(line, request(3, "ping"))
        assert (await line.next())["id"] == 3
        assert line.quiet


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", LEGACY])
async def test_other_versions_have_none(server: Server, version: str) -> None:
    async with serving(server) as [line]:
        raw(line, [request(1, "ping")])
        assert (await line.next())["error"]["code"] == -32600
        await initialize(line, version)
        raw(line, [request(1, "ping")])
        assert (await line.next())["error"]["code"] == -32600
        raw(line, request(1, "ping"))
        assert (await line.next())["result"] == {}


async def test_a_modern_request_has_no_place_in_a_batch(server: Server) -> None:
    meta = {"protocolVersion": MODERN, "clientCapabilities": {}}
    envelope = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
    async with serving(server) as [line]:
        await initialize(line, BATCHES)
        raw(line, [request(1, "tools/list", _meta=envelope)])
        [answer] = await line.next()
        assert answer["error"] == {"code": -32600, "message": "Invalid Request: 2026-07-28 has no batches"}  # type: ignore[index]


async def test_a_tool_in_a_batch_asks_and_is_answered_in_one(server: Server) -> None:
    async with serving(server) as [line]:
        await initialize(line, BATCHES)
        raw(line, [call(1, "ask"), call(2, "ask")])
        questions = [await line.next(), await line.next()]
        said = {"role": "assistant", "content": {"type": "text", "text": "Hm."}, "model": "m"}
        raw(line, [{"jsonrpc": "2.0", "id": question["id"], "result": said} for question in questions])
        answers: Any = await line.next()
        assert [answer["result"]["content"][0]["text"] for answer in answers] == ["Hm.", "Hm."]


async def test_an_id_counts_once(server: Server) -> None:
    async with serving(server) as [line]:
        await initialize(line, BATCHES)
        raw(line, [call(1, "double", n=1), call(1, "double", n=2)])
        answers: Any = await line.next()
        assert [answer["id"] for answer in answers] == [1, 1]
        assert "in use" in answers[0]["error"]["message"]


def test_reading() -> None:
    found = decode(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
    assert isinstance(found, Batch) and found.code == -32600 and len(found.items) == 1
    for data, code in ((b"[]", -32600), (b"[1", -32700), (b"[" * 5000, -32700), (b"[\xff]", -32700)):
        other = decode(data)
        assert isinstance(other, Malformed) and not isinstance(other, Batch) and other.code == code
    assert isinstance(decode(b"[" + b",".join([b"1"] * MOST_IN_BATCH) + b"]"), Batch)
    assert not isinstance(decode(b"[" + b",".join([b"1"] * (MOST_IN_BATCH + 1)) + b"]"), Batch)
