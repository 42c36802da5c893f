"""Messages that lie behind each other in what was read at once: a request and its cancellation, and the end."""

import json
from typing import Any

import anyio
import pytest

from backchannel import Context, Server
from backchannel.protocol.jsonrpc import Malformed, Message, decode
from backchannel.server.channel import serve
from backchannel.server.dispatch import start
from tests.server.replay import both_eras

pytestmark = pytest.mark.anyio
Json = dict[str, Any]


class Pipelined:
    """A channel whose messages are all there already."""

    def __init__(self, messages: list[Json]):
        self._messages = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
        self.sent: list[Json] = []
        self.go_on = anyio.Event()

    async def receive(self) -> list[Message | Malformed]:
        if not self._messages:
            await self.go_on.wait()
            raise anyio.EndOfStream
        messages, self._messages = self._messages, []
        return [decode(message) for message in messages]

    def write(self, messages: list[bytes]) -> bool:
        self.sent += map(json.loads, messages)
        if self.sent[-1].get("id") == "last":
            self.go_on.set()
        return True

    async def flush(self) -> None:
        """There is nothing left."""


def call(id: int | str, name: str, version: str) -> Json:
    capabilities = "io.modelcontextprotocol/clientCapabilities"
    meta = {"io.modelcontextprotocol/protocolVersion": version, capabilities: {"elicitation": {}}}
    modern = {"_meta": meta} if version == "2026-07-28" else {}
    return {"id": id, "method": "tools/call", "params": {"name": name, "arguments": {}, **modern}}


def cancel(id: int | str) -> Json:
    return {"method": "notifications/cancelled", "params": {"requestId": id}}


@both_eras
@pytest.mark.rule("R11", "R55", "R56", "R57", "R59", "R96")
@pytest.mark.case("C01")
async def test_a_cancellation_right_behind_its_request(version: str) -> None:
    server = Server("shop")
    ran: list[str] = []

    @server.tool
    async def wait(ctx: Context) -> str:
        ran.append("wait")
        await anyio.sleep_forever()
        return ""

    @server.tool
    async def ask(ctx: Context) -> str:
        ran.append("ask")
        return (await ctx.elicit("Who?", str)).unwrap()

    @server.tool
    async def quick() -> str:
        return "done"

    client = {"capabilities": {"elicitation": {}}, "clientInfo": {"name": "x", "version": "1"}}
    initialize = {"id": 0, "method": "initialize", "params": {"protocolVersion": version, **client}}
    channel = Pipelined(
        [
            *([initialize, cancel(0), {"method": "notifications/initialized"}] if version != "2026-07-28" else []),
            *(call(1, "wait", version), cancel(1)),
            *(call(1, "wait", version), call("1", "quick", version), cancel(1), cancel(1)),  # the id is free again
            *(call(2, "ask", version), cancel(2), cancel("2"), cancel("last")),
            call("last", "quick", version),
        ]
    )
    with anyio.fail_after(30):
        async with start(server) as dispatcher:
            await serve(dispatcher, channel)
    assert ran == [], "they do not even begin"
    answered = [message["id"] for message in channel.sent if "method" not in message]
    assert sorted(answered, key=str) == ([0] if version != "2026-07-28" else []) + ["1", "last"]
    assert server.gauges().calls == server.gauges().questions == 0
