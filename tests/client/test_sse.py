"""HTTP+SSE, the transport of 2024-11-05, and when the client falls back to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from backchannel import Client
from backchannel.client.http import HttpTransport
from backchannel.client.sse import Fallback, SseTransport
from backchannel.errors import (
    AuthRequired,
    ConfigurationError,
    ConnectionFailed,
    ConnectionLost,
    RemoteProtocolError,
    RequestTimeout,
    UnsupportedVersion,
)
from backchannel.protocol.jsonrpc import Request
from backchannel.targets import resolve
from tests.client.scripted import LEGACY, Json, conversation
from tests.client.test_http_transport import Got, Server, serving

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
OLD = "2024-11-05"


class OldServer:
    """A server of 2024-11-05: an event stream at /sse, messages to /messages. It answers what `results` has.

    post: how it refuses a POST to its stream: status and body.  endpoint: the data of its first event, or None.
    """

    def __init__(self, post: tuple[int, Any] = (405, b""), endpoint: str | None = "/messages?session=1"):
        self.post, self.endpoint = post, endpoint
        self.stream: Got | None = None
        self.received: list[Json] = []
        self.results: dict[str, Any] = {
            "initialize": {"protocolVersion": OLD, "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
            "ping": {},
        }
        self.arrived = asyncio.Event()

    async def __call__(self, got: Got) -> None:
        if got.method == "GET":
            return await self._open(got)
        if got.path.startswith("/mcp"):
            return await got.reply(*self.post)
        message = got.json
        self.received.append(message)
        self.arrived.set()
        await got.reply(202, b"Accepted")
        if "method" in message and message["method"] in self.results:
            result = self.results[message["method"]]
            await self.say({"id": message["id"], "result": result})
        return None

    async def _open(self, got: Got) -> None:
        self.stream = got
        assert got.headers["accept"] == "text/event-stream"
        await got.stream()
        await got.raw(": hello\n\n")
        if self.endpoint is not None:
            await got.raw(f"event: endpoint\ndata: {self.endpoint}\n\n")
        await got.wait()

    async def say(self, message: Json) -> None:
        assert self.stream is not None
        await self.stream.event({"jsonrpc": "2.0", **message}, event="message")

    async def until(self, method: str | None, count: int = 1) -> list[Json]:
        """What has arrived of this method; None: responses."""
        while len(found := [one for one in self.received if one.get("method") == method]) < count:
            self.arrived.clear()
            await self.arrived.wait()
        return found


@contextlib.asynccontextmanager
async def old(server: OldServer | None = None) -> AsyncIterator[tuple[OldServer, Server]]:
    script = server or OldServer()
    async with serving(script) as listener:
        yield script, listener


def methods(listener: Server) -> list[str]:
    return [f"{got.method} {got.path.partition('?')[0]} {got.json.get('method', '')}".strip() for got in listener.got]


async def test_auto_finds_it() -> None:
    async with old() as (_, listener):
        async with Client(listener.url, headers={"X-Key": "1"}) as client:
            assert (client.version, client.server.info.name) == (OLD, "old")  # type: ignore[union-attr]
            assert (await client.call_tool("t")).text == "done"
            await client.ping()
        assert methods(listener) == [
            "POST /mcp server/discover",
            "POST /mcp initialize",
            "GET /mcp",
            "POST /messages initialize",
            "POST /messages notifications/initialized",
            "POST /messages tools/call",
            "POST /messages ping",
        ]
        assert all(got.headers["x-key"] == "1" for got in listener.got)
        assert not any("mcp-protocol-version" in got.headers for got in listener.got[1:])


@pytest.mark.parametrize("version", ["legacy", OLD])
async def test_so_do_the_legacy_versions(version: str) -> None:
    async with old() as (_, listener), Client(listener.url, version=version) as client:
        assert client.version == OLD
        assert methods(listener)[:2] == ["POST /mcp initialize", "GET /mcp"]


async def test_an_entry_of_mcp_servers_says_so() -> None:
    async with old() as (_, listener):
        async with Client({"url": listener.url, "type": "sse"}, version="legacy") as client:
            assert client.version == OLD
        assert methods(listener)[0] == "GET /mcp"
        async with Client(SseTransport(listener.url), version="legacy") as client:
            assert (await client.call_tool("t")).text == "done"


@pytest.mark.parametrize("status", [400, 404, 405])
@pytest.mark.parametrize(
    "body", [b"", b"<html>", {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": ""}}]
)
async def test_how_a_post_may_be_refused(status: int, body: Any) -> None:
    async with old(OldServer((status, body))) as (_, listener), Client(listener.url) as client:
        assert client.version == OLD


def error(code: int) -> Json:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "no"}}


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, b""), (410, b""), (500, b""), (502, b""), (200, b"hello")]
    + [(status, error(code)) for status, code in ((400, -32020), (400, -32021), (400, -32022), (404, -32601))],
)
async def test_any_other_refusal_is_final(status: int, body: Any) -> None:
    async with old(OldServer((status, body))) as (_, listener):
        with pytest.raises(RemoteProtocolError) as caught:
            await Client(listener.url, version="legacy").open()
        assert caught.value.status == status
        assert methods(listener) == ["POST /mcp initialize"]


async def test_a_modern_client_does_not_look_for_it() -> None:
    async with old() as (_, listener):
        with pytest.raises(UnsupportedVersion):
            await Client(listener.url, version="modern").open()
        assert methods(listener) == ["POST /mcp server/discover"]


async def test_credentials_that_are_wanted() -> None:
    async with old(OldServer((401, b""))) as (_, listener):
        with pytest.raises(AuthRequired):
            await Client(listener.url, version="legacy").open()
        assert methods(listener) == ["POST /mcp initialize"]


async def test_if_it_is_not_that_either_the_first_error_counts() -> None:
    async def nothing(got: Got) -> None:
        await got.reply(404, b"no such page")

    async def stream_without_endpoint(got: Got) -> None:
        if got.method == "GET":
            await got.stream()
            await got.event({"jsonrpc": "2.0", "method": "notifications/x"})
            return await got.wait()
        return await nothing(got)

    async def ends(got: Got) -> None:
        if got.method == "GET":
            await got.stream()
            return await got.end()
        return await nothing(got)

    for script in (nothing, stream_without_endpoint, ends):
        async with serving(script) as listener:
            with pytest.raises(RemoteProtocolError, match="HTTP 404: no such page"):
                await Client(listener.url, version="legacy").open()
            assert methods(listener) == ["POST /mcp initialize", "GET /mcp"]


async def test_a_stream_that_never_says_where_messages_go() -> None:
    async with old(OldServer(endpoint=None)) as (_, listener):
        with pytest.raises(ConnectionFailed, match="no endpoint event within 0.2 s"):
            await Client(SseTransport(listener.url, timeout_connect=0.2), version="legacy").open()
        transport = Fallback(HttpTransport(listener.url), lambda: SseTransport(listener.url, timeout_connect=0.2))
        with pytest.raises(RemoteProtocolError, match="HTTP 405"):
            await Client(transport, version="legacy").open()
        with pytest.raises(RequestTimeout):
            await Client(listener.url, version="legacy", timeout=0.2).open()


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9/messages", "https://127.0.0.1/messages", "//evil.test/x", "ftp://a", "http://["]
)
async def test_messages_go_to_no_other_server(endpoint: str) -> None:
    async with old(OldServer(endpoint=endpoint)) as (_, listener):
        with pytest.raises(RemoteProtocolError, match="another server"):
            await Client(SseTransport(listener.url), version="legacy").open()
        with pytest.raises(RemoteProtocolError, match="HTTP 405"):
            await Client(listener.url, version="legacy").open()


@pytest.mark.parametrize("endpoint", ["messages?a=1", "/messages?a=1", "http://127.0.0.1:{port}/messages?a=1"])
async def test_where_messages_may_go(endpoint: str) -> None:
    server = OldServer()
    async with old(server) as (_, listener):
        server.endpoint = endpoint.format(port=listener.port)
        async with Client(listener.url, version="legacy"):
            pass
        assert listener.got[-1].path == "/messages?a=1"


async def test_the_server_asks_on_its_stream() -> None:
    async with old() as (server, listener):
        async with Client(listener.url, sample=lambda question: "Hi") as client, anyio.create_task_group() as group:
            del server.results["tools/call"]
            group.start_soon(client.call_tool, "t")
            [call] = await server.until("tools/call")
            await server.say({"id": "q", "method": "sampling/createMessage", "params": conversation()})
            [answer] = await server.until(None)
            assert (answer["id"], answer["result"]["content"]["text"]) == ("q", "Hi")
            await server.say({"id": call["id"], "result": {"content": []}})


async def test_a_cancelled_call_is_told() -> None:
    async with old() as (server, listener), Client(listener.url) as client:
        del server.results["tools/call"]
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "t")
            [call] = await server.until("tools/call")
            group.cancel_scope.cancel()
        [cancelled] = await server.until("notifications/cancelled")
        assert cancelled["params"]["requestId"] == call["id"]


async def test_the_stream_ends() -> None:
    async with old() as (server, listener):
        client = await Client(listener.url).open()
        del server.results["tools/call"]

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="the stream from 127.0.0.1"):
                await client.call_tool("t")

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await server.until("tools/call")
            assert server.stream is not None
            await server.stream.end()
        with pytest.raises(ConnectionLost):
            await client.ping()
        await client.close()


async def test_a_newer_version_over_it_has_its_header() -> None:
    async with old() as (server, listener):
        server.results["initialize"]["protocolVersion"] = LEGACY
        async with Client(listener.url) as client:
            await client.ping()
        assert listener.got[-1].headers["mcp-protocol-version"] == LEGACY


async def test_what_is_no_message_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async with old() as (server, listener), Client(listener.url) as client:
        assert server.stream is not None
        await server.stream.raw("event: message\ndata: hello\n\n")
        await server.stream.raw("event: other\ndata: {}\n\n")
        await server.stream.raw("event: message\ndata:\n\n")
        assert (await client.call_tool("t")).text == "done"
    [record] = caplog.records
    assert "an event that was skipped" in record.getMessage()


async def test_a_message_over_the_limit_fails_its_call() -> None:
    async with old() as (server, listener):
        async with Client(SseTransport(listener.url, max_message=2000), version="legacy") as client:
            server.results["tools/call"] = {"content": [{"type": "text", "text": "x" * 5000}]}
            with pytest.raises(RemoteProtocolError, match="over the limit of 2000"):
                await client.call_tool("t")
            await client.ping()


async def test_a_post_that_is_refused() -> None:
    server = OldServer()

    async def script(got: Got) -> None:
        if got.path.startswith("/messages") and got.json.get("method") == "tools/call":
            return await got.reply(503, b"busy")
        return await server(got)

    async with serving(script) as listener, Client(listener.url) as client:
        with pytest.raises(RemoteProtocolError, match="HTTP 503: busy"):
            await client.call_tool("t")
        await client.ping()


async def test_headers_that_cannot_work() -> None:
    with pytest.raises(ConfigurationError, match="line end") as caught:
        SseTransport("http://x/", headers={"Authorization": "token-secret\r\nEvil: 1"})
    assert "secret" not in str(caught.value)


async def test_used_twice_or_after_its_end() -> None:
    async with old() as (_, listener):
        transport = SseTransport(listener.url)
        await transport.open(lambda message: None, lambda error: None)
        with pytest.raises(ConnectionFailed, match="used before"):
            await transport.open(lambda message: None, lambda error: None)
        await transport.close()
        await transport.close()
        with pytest.raises(ConnectionLost, match="closed"):
            await transport.send(Request(1, "ping"))


async def test_opening_that_is_cancelled_leaves_nothing() -> None:
    async with old(OldServer(endpoint=None)) as (server, listener):
        with anyio.move_on_after(0.3) as scope:
            await Client(listener.url, version="legacy").open()
        assert scope.cancelled_caught
        assert server.stream is not None
        await server.stream.left.wait()


async def test_which_streams_it_has() -> None:
    async with old() as (_, listener):
        transport = resolve(listener.url)
        assert transport.request_streams
        async with Client(transport, version="legacy"):
            assert not transport.request_streams
