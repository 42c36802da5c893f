"""The HTTP transport of the client against a scripted server on a loopback socket."""

import asyncio
import contextlib
import json
import logging
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import anyio
import pytest
import trio

from backchannel.client import cursor, http
from backchannel.client.answers import Answers
from backchannel.client.connect import connect
from backchannel.client.connection import Connection
from backchannel.client.endpoint import proxy_for
from backchannel.client.http import HttpTransport
from backchannel.client.transport import SessionGone
from backchannel.errors import (
    AuthRequired,
    ConfigurationError,
    ConnectionFailed,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
)
from backchannel.protocol.http import decode_value
from backchannel.protocol.jsonrpc import ErrorResponse, Malformed, Message, Notification, Request, Response
from backchannel.protocol.types.base import Implementation
from backchannel.protocol.types.requests import CallToolParams, RequestMeta
from backchannel.protocol.versions import META_VERSION, Version
from tests.client.http_server import BOUND, Got, Script, Server, error, message, response, serving

LEGACY, MODERN = Version.V2025_11_25, Version.V2026_07_28
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Ear:
    """What a transport received."""

    def __init__(self) -> None:
        self.messages: list[Message | Malformed] = []
        self._news = anyio.Event()

    def receive(self, message: Message | Malformed) -> None:
        self.messages.append(message)
        self._news.set()

    def lost(self, error: Exception) -> None:
        raise AssertionError("there is no one connection to lose")

    async def until(self, happened: Callable[[], Any]) -> None:
        with anyio.fail_after(BOUND):
            while not happened():
                self._news = anyio.Event()
                await self._news.wait()

    async def hear(self, count: int) -> list[Any]:
        await self.until(lambda: len(self.messages) >= count)
        return self.messages

    @property
    def results(self) -> list[Any]:
        return [json.loads(bytes(one.result)) for one in self.messages if isinstance(one, Response)]


@contextlib.asynccontextmanager
async def connected(
    script: Script, version: Version | None = None, **options: Any
) -> AsyncIterator[tuple[HttpTransport, Ear, Server]]:
    async with serving(script) as server:
        transport, ear = HttpTransport(server.url, **options), Ear()
        await transport.open(ear.receive, ear.lost)
        if version is not None:
            transport.negotiated(version)
        try:
            yield transport, ear, server
        finally:
            await transport.close()


@contextlib.asynccontextmanager
async def in_session(
    script: Script, version: Version = LEGACY, **options: Any
) -> AsyncIterator[tuple[HttpTransport, Ear, Server]]:
    """After the handshake of a legacy session, which the script does not see."""

    async def with_handshake(got: Got) -> None:
        if got.method == "POST" and got.json.get("method") == "initialize":
            await got.result({}, mcp_session_id="session-secret")
        else:
            await script(got)

    async with connected(with_handshake, **options) as (transport, ear, server):
        await transport.send(Request(0, "initialize", {}))
        transport.negotiated(version)
        ear.messages.clear()
        server.got.clear()
        yield transport, ear, server


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time is fake: what would be slept is noted."""
    noted: list[float] = []

    async def sleep(seconds: float) -> None:
        noted.append(seconds)
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(anyio, "sleep", sleep)
    monkeypatch.setattr(cursor, "jitter", lambda: 0)
    return noted


# A request and its response


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R162")
async def test_headers_of_one_message() -> None:
    """Names are one, whatever their case."""

    async def script(got: Got) -> None:
        await got.result({})

    async with connected(script, headers={"mcp-param-x": "always"}) as (transport, ear, server):
        await transport.send(Request(1, "tools/list"), {"Mcp-Param-X": "", "Mcp-Param-Y": "a b"})
        await transport.send(Request(2, "tools/list"))
    first, second = server.got
    assert (first.headers["mcp-param-x"], first.headers["mcp-param-y"]) == ("", "a b")
    assert (second.headers["mcp-param-x"], "mcp-param-y" in second.headers) == ("always", False)


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R77")
async def test_a_request_is_a_post_and_a_json_body_its_response() -> None:
    async def script(got: Got) -> None:
        await got.result({"text": "日本"}, content_type="application/json; charset=utf-8")

    async with connected(script, headers={"X-Key": "1", "ACCEPT": "text/html"}) as (transport, ear, server):
        await transport.send(Request(1, "tools/list", {"a": "é"}))
    [got] = server.got
    assert (got.method, got.path) == ("POST", "/mcp?key=url-secret")
    assert got.json == {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": "é"}}
    assert got.headers["accept"] == "application/json, text/event-stream"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["x-key"] == "1"
    assert not [name for name in got.headers if name.startswith("mcp-")]
    assert ear.results == [{"text": "日本"}]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R79", "R80")
async def test_the_messages_of_a_stream_are_received_as_they_arrive() -> None:
    heard = asyncio.Event()

    async def script(got: Got) -> None:
        await got.stream()
        await got.raw(": keep-alive\n\nevent: ping\ndata: {}\n\nid: 1\ndata:\n\n")
        await got.event(message("notifications/progress", progressToken=1, progress=1))
        await heard.wait()
        data = json.dumps(response(1, {"done": True})).encode()
        for byte in b"event: message\r\ndata: " + data[:1] + b"\r\ndata: " + data[1:] + b"\r\n\r\n":
            await got.raw(bytes([byte]))
        await got.event(message("after"))
        await got.end()

    async with connected(script, MODERN) as (transport, ear, _), anyio.create_task_group() as group:
        group.start_soon(transport.send, Request(1, "tools/call", {"name": "x"}))
        [progress] = await ear.hear(1)
        assert progress.method == "notifications/progress"
        heard.set()
        await ear.hear(2)
    assert ear.results == [{"done": True}]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R78")
@pytest.mark.parametrize("status", [202, 200, 204])
async def test_notifications_and_responses_get_nothing_back(status: int) -> None:
    async def script(got: Got) -> None:
        await got.reply(status)

    async with connected(script) as (transport, ear, server):
        await transport.send(Notification("notifications/initialized"))
        await transport.send(Response(7, {"roots": []}))
        await transport.send(ErrorResponse(8))
    assert [got.json.get("id") for got in server.got] == [None, 7, 8]
    assert ear.messages == []
    assert server.connections == 1


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R24", "R78")
@pytest.mark.case("B11")
async def test_a_question_is_answered_by_a_post_while_the_calls_is_open() -> None:
    answered: dict[int, asyncio.Event] = {number: asyncio.Event() for number in range(150)}

    async def script(got: Got) -> None:
        if got.method == "DELETE":
            return await got.reply(405)
        if "result" in got.json:
            await got.reply(202)
            answered[got.json["id"]].set()
            return
        number = got.json["id"]
        await got.stream()
        await got.event({"jsonrpc": "2.0", "id": number, "method": "roots/list"})
        await answered[number].wait()
        await got.event(response(number, number))
        await got.end()

    async with in_session(script) as (transport, ear, _), anyio.create_task_group() as group:
        for number in answered:
            group.start_soon(transport.send, Request(number, "tools/call", {"name": "x"}))
        for question in (await ear.hear(len(answered)))[: len(answered)]:
            assert isinstance(question, Request)
        for number in answered:
            group.start_soon(transport.send, Response(number, {"roots": []}))
    assert sorted(ear.results) == list(answered)


@pytest.mark.anyio
@on_asyncio
async def test_a_connection_is_used_again_after_a_stream_that_ended() -> None:
    async def script(got: Got) -> None:
        await got.stream()
        await got.event(response(got.json["id"], 1))
        await got.end()

    async with connected(script, MODERN) as (transport, ear, server):
        for number in range(5):
            await transport.send(Request(number, "tools/call", {"name": "x"}))
    assert len(ear.results) == 5
    assert server.connections == 1


@pytest.mark.anyio
@on_asyncio
async def test_a_stream_that_does_not_end_after_the_response_is_closed() -> None:
    async def script(got: Got) -> None:
        await got.stream()
        await got.event(response(got.json["id"], 1))
        await got.wait()

    async with connected(script, MODERN) as (transport, ear, server):
        await transport.send(Request(1, "tools/call", {"name": "x"}))
        assert ear.results == [1]  # at once; and the connection is gone without `close`
        await server.got[0].left.wait()


@pytest.mark.anyio
@on_asyncio
async def test_a_large_message_gets_through_each_way() -> None:
    text = "z" * 5_000_000

    async def script(got: Got) -> None:
        if got.json["id"] == 1:
            await got.result(got.json["params"])
        else:
            await got.stream()
            await got.event(response(got.json["id"], got.json["params"]))
            await got.end()

    async with connected(script, MODERN) as (transport, ear, _):
        await transport.send(Request(1, "echo", {"text": text}))
        await transport.send(Request(2, "echo", {"text": text}))
    assert ear.results == [{"text": text}] * 2


@pytest.mark.anyio
@on_asyncio
async def test_a_response_over_the_limit_fails_its_waiter_alone() -> None:
    async def script(got: Got) -> None:
        id, big = got.json["id"], "x" * 50_000
        if id == 1:
            await got.result(big)
        elif id == 4:
            await got.result("fine")
        else:
            await got.stream()
            await got.event(message("notifications/message", data=big))
            reply = response(id, big) if id == 2 else {"result": big, "jsonrpc": "2.0"}
            await got.event(reply)
            await got.wait()

    async with connected(script, MODERN, max_message=20_000) as (transport, ear, _):
        for number in (1, 2, 3, 4):
            await transport.send(Request(number, "echo"))
    broken = [one for one in ear.messages if isinstance(one, Malformed)]
    assert [(one.id, one.is_response) for one in broken] == [(1, True), (2, True), (3, True)]
    assert all("over the limit of 20000" in one.message for one in broken)
    assert ear.results == ["fine"]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R89")
async def test_batches_are_read_where_the_version_has_them() -> None:
    async def script(got: Got) -> None:
        batch = [message("n"), response(got.json.get("id"), 1)]
        if got.json.get("id") != 2:
            await got.reply(200, batch)
        else:
            await got.stream()
            await got.event(batch)
            await got.end()

    async with in_session(script, Version.V2025_03_26) as (transport, ear, _):
        await transport.send(Request(1, "tools/list"))
        await transport.send(Request(2, "tools/list"))
    assert [type(one) for one in ear.messages] == [Notification, Response] * 2


# Headers


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R160", "R161")
async def test_a_modern_message_is_mirrored_in_headers() -> None:
    async def script(got: Got) -> None:
        await got.reply(202) if "id" not in got.json else await got.result({})

    name = "wetter in München\n"
    sent: list[tuple[Message, dict[str, str]]] = [
        (Request(1, "tools/list"), {"mcp-method": "tools/list"}),
        (Request(2, "tools/call", {"name": "book", "uri": "x"}), {"mcp-method": "tools/call", "mcp-name": "book"}),
        (Request(3, "prompts/get", {"name": name}), {"mcp-method": "prompts/get", "mcp-name": name}),
        (Request(4, "resources/read", {"uri": "n://1"}), {"mcp-method": "resources/read", "mcp-name": "n://1"}),
        (Request(5, "acme/thing", {"name": 5}), {"mcp-method": "acme/thing"}),
        (
            Request(6, "tools/call", CallToolParams(name="typed", meta=RequestMeta(version=MODERN))),
            {"mcp-method": "tools/call", "mcp-name": "typed"},
        ),
        (Request(7, "tools/call", {"name": 5}), {"mcp-method": "tools/call"}),
        (Notification("notifications/x"), {"mcp-method": "notifications/x"}),
    ]
    async with connected(script, MODERN) as (transport, _, server):
        for one, _headers in sent:
            await transport.send(one)
    for got, (_one, headers) in zip(server.got, sent, strict=True):
        assert got.headers["mcp-protocol-version"] == MODERN
        mirrored = {name: value for name, value in got.headers.items() if name in ("mcp-method", "mcp-name")}
        assert {key: decode_value(value) for key, value in mirrored.items()} == headers
        assert all(value.isascii() for value in mirrored.values())


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R160")
@pytest.mark.case("A19")
async def test_the_probe_says_its_version_before_any_is_negotiated() -> None:
    async def script(got: Got) -> None:
        await got.result({})

    async with connected(script) as (transport, _, server):
        await transport.send(Request(1, "server/discover", {"_meta": {META_VERSION: MODERN}}))
        await transport.send(Request(2, "initialize", {"_meta": {"other": 1}}))
    probe, initialize = (got.headers for got in server.got)
    assert (probe["mcp-protocol-version"], probe["mcp-method"]) == (MODERN, "server/discover")
    assert not [name for name in initialize if name.startswith("mcp-")]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize("version", [version for version in Version if not version.is_modern])
async def test_the_version_header_of_legacy_versions(version: Version) -> None:
    async def script(got: Got) -> None:
        await got.result({})

    async with in_session(script, version) as (transport, _, server):
        await transport.send(Request(1, "tools/call", {"name": "x"}))
    headers = server.got[0].headers
    has = version in (Version.V2025_06_18, Version.V2025_11_25)
    assert headers.get("mcp-protocol-version") == (version.value if has else None)
    assert "mcp-method" not in headers and "mcp-name" not in headers


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R84")
@pytest.mark.parametrize("streamed", [False, True])
async def test_the_session_id_is_of_initialize_and_goes_with_all_that_follows(streamed: bool) -> None:
    ids = iter(["first", "second"])

    async def script(got: Got) -> None:
        if "id" not in got.json:
            await got.reply(202, mcp_session_id="other")
        elif got.json["method"] != "initialize":
            await got.result({}, mcp_session_id="other")
        elif streamed:
            await got.stream(mcp_session_id=next(ids))
            await got.event(response(got.json["id"], {}))
            await got.end()
        else:
            await got.result({}, mcp_session_id=next(ids))

    async with connected(script) as (transport, _, server):
        for number in range(2):
            await transport.send(Request(number, "initialize"))
            transport.negotiated(LEGACY)
            await transport.send(Notification("notifications/initialized"))
            await transport.send(Request(number + 10, "tools/list"))
        posts = [(got.json["method"], got.headers.get("mcp-session-id")) for got in server.got]
    initialized, listed = "notifications/initialized", "tools/list"
    assert posts == [
        *(("initialize", None), (initialized, "first"), (listed, "first")),
        *(("initialize", None), (initialized, "second"), (listed, "second")),
    ]
    assert all("first" not in got.body.decode() for got in server.got)
    assert "mcp-protocol-version" not in server.got[3].headers


@pytest.mark.anyio
@on_asyncio
async def test_a_session_id_with_wrong_characters_is_refused() -> None:
    async def script(got: Got) -> None:
        await got.result({}, mcp_session_id="a b")

    async with connected(script) as (transport, _, _server):
        with pytest.raises(RemoteProtocolError, match="session id"):
            await transport.send(Request(1, "initialize"))


@pytest.mark.anyio
@on_asyncio
async def test_headers_may_change() -> None:
    async def script(got: Got) -> None:
        await got.result({})

    async with connected(script, headers={"authorization": "old"}) as (transport, _, server):
        await transport.send(Request(1, "x"))
        transport.headers["Authorization"] = "new"
        await transport.send(Request(2, "x"))
    assert [got.headers["authorization"] for got in server.got] == ["old", "new"]


# Cancelling and losing


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R52", "R54")
@pytest.mark.case("C01")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("stage", ["before", "json", "stream"])
async def test_a_cancelled_send_closes_the_response_at_once(version: Version, stage: str) -> None:
    reached = asyncio.Event()

    async def script(got: Got) -> None:
        if stage == "json":
            got.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
        elif stage == "stream":
            await got.stream()
            await got.event(message("n"), id="1")
        reached.set()
        await got.wait()

    async with connected(script, version) as (transport, ear, server), anyio.create_task_group() as group:
        group.start_soon(transport.send, Request(1, "tools/call", {"name": "x"}))
        await reached.wait()
        if stage == "stream":
            await ear.hear(1)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await server.got[0].left.wait()
    assert [got.method for got in server.got] == ["POST"]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.case("C06")
@pytest.mark.parametrize("how", ["drop", "end", "close"])
@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_stream_that_ends_without_the_response_is_lost(version: Version, how: str) -> None:
    """On legacy nothing can be resumed without an event id, on modern nothing at all."""

    async def script(got: Got) -> None:
        await got.stream()
        await got.event(message("n"), id="1" if version is MODERN else None)
        if how == "end":
            await got.end()
        elif how == "close":
            got.writer.close()
        else:
            await heard.wait()
            got.drop()

    heard = asyncio.Event()
    async with connected(script, version) as (transport, ear, server), anyio.create_task_group() as group:

        async def send() -> None:
            with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1.*before the response to tools/call"):
                await transport.send(Request(1, "tools/call", {"name": "x"}))

        group.start_soon(send)
        await ear.hear(1)
        heard.set()
    assert len(server.got) == 1


@pytest.mark.anyio
@on_asyncio
@pytest.mark.case("C06")
async def test_a_server_that_hangs_up_on_a_request() -> None:
    async def script(got: Got) -> None:
        if got.json["id"] == 1:
            got.drop()
        elif got.json["id"] == 2:
            got.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
            got.writer.close()
        else:
            got.writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
            got.writer.close()

    async with connected(script, MODERN) as (transport, _, server):
        for number, why in ((1, "broke"), (2, "broke"), (3, "not HTTP")):
            with pytest.raises(ConnectionLost, match=why) as caught:
                await transport.send(Request(number, "x"))
            assert isinstance(caught.value.__cause__, aiohttp.ClientError)
            assert "url-secret" not in str(caught.value)


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R52", "R90", "R83")
@pytest.mark.case("C03")
@pytest.mark.parametrize("how", ["drop", "end"])
async def test_a_legacy_stream_is_resumed_and_brings_each_message_once(how: str, pauses: list[float]) -> None:
    heard = asyncio.Event()

    async def script(got: Got) -> None:
        await got.stream()
        if got.method == "POST":
            await got.raw("id: s-0\nretry: 500\ndata:\n\n")
            await got.event(message("n", number=1), id="s-1")
        elif got.headers.get("last-event-id") == "s-1":
            await got.event(message("n", number=2), id="s-2", retry=250)
        else:
            await got.event(message("n", number=3))
            await got.event(response(1, "done"), id="s-3")
        await heard.wait()
        heard.clear()
        got.drop() if how == "drop" else await got.end()

    async with in_session(script) as (transport, ear, server), anyio.create_task_group() as group:
        group.start_soon(transport.send, Request(1, "tools/call", {"name": "x"}))
        for count in (1, 2, 4):
            await ear.hear(count)
            heard.set()
    first, second, third = server.got[:3]
    assert [got.method for got in server.got[:3]] == ["POST", "GET", "GET"]
    assert (second.headers["last-event-id"], third.headers["last-event-id"]) == ("s-1", "s-2")
    for got in (second, third):
        assert got.headers["accept"] == "text/event-stream"
        assert got.headers["mcp-session-id"] == first.headers["mcp-session-id"] == "session-secret"
        assert got.headers["mcp-protocol-version"] == LEGACY
        assert got.body == b"" and "content-type" not in got.headers
    numbers = [json.loads(bytes(one.params))["number"] for one in ear.messages if isinstance(one, Notification)]
    assert numbers == [1, 2, 3]
    assert ear.results == ["done"]
    assert pauses == [0.5, 0.25]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R90")
async def test_a_resumption_has_a_limit(pauses: list[float]) -> None:
    async def script(got: Got) -> None:
        if got.method == "POST":
            await got.stream()
            await got.event(id="1")
            await got.end()
        else:
            await got.reply(503)

    async with in_session(script) as (transport, _, server):
        with pytest.raises(ConnectionLost, match="could not be resumed") as caught:
            await transport.send(Request(1, "tools/call", {"name": "x"}))
        assert [got.method for got in server.got] == ["POST"] + ["GET"] * 5
    assert pauses == [1, 2, 4, 8, 16]
    assert isinstance(caught.value.__cause__, RemoteProtocolError)


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R90")
async def test_streams_that_end_again_and_again_without_an_event_have_a_limit(pauses: list[float]) -> None:
    polls = 0

    async def script(got: Got) -> None:
        nonlocal polls
        polls += got.method == "GET"
        await got.stream()
        if got.method == "POST":
            await got.event(id="1", retry=0)
        elif polls == 50:
            await got.event(message("n"))
        await got.end()

    async with in_session(script) as (transport, _, _server):
        with pytest.raises(ConnectionLost, match="could not be resumed"):
            await transport.send(Request(1, "tools/call", {"name": "x"}))
    assert polls == 150
    assert set(pauses) == {0.01}, "as soon as the server said, but not in a tight loop"


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R90")
@pytest.mark.parametrize("status", [404, 405, 400])
async def test_a_server_that_refuses_to_resume(status: int, pauses: list[float]) -> None:
    async def script(got: Got) -> None:
        if got.method == "POST":
            await got.stream()
            await got.event(id="1")
            await got.end()
        else:
            await got.reply(status)

    async with in_session(script) as (transport, _, server):
        with pytest.raises(ConnectionLost, match=f"could not be resumed.*HTTP {status}"):
            await transport.send(Request(1, "tools/call", {"name": "x"}))
        assert len(server.got) == 2


# Refusals


@pytest.mark.anyio
@on_asyncio
@pytest.mark.case("A19")
@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_an_error_for_the_request_is_its_response_whatever_the_status(status: int) -> None:
    async def script(got: Got) -> None:
        await got.reply(status, error(got.json["id"], -32022, {"supported": ["x"]}))

    async with connected(script, MODERN) as (transport, ear, _):
        await transport.send(Request(1, "server/discover"))
    [answer] = ear.messages
    assert isinstance(answer, ErrorResponse)
    assert (answer.id, answer.error.code, answer.error.data) == (1, -32022, {"supported": ["x"]})


@pytest.mark.anyio
@on_asyncio
@pytest.mark.case("A19")
@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (400, error(None, -32600, {"why": "x"}), -32600, "no"),
        (400, {"jsonrpc": "2.0", "error": {"code": -32022, "message": "no"}}, -32022, "no"),
        (400, error("server-error", -32600), -32600, "no"),
        (200, error("server-error", -32601), -32601, "no"),
        (400, b"", 0, "answered with HTTP 400"),
        (400, b"<html>" + b"x" * 300, 0, "HTTP 400: <html>x"),
        (404, b"Not Found", 0, "HTTP 404: Not Found"),
        (405, b"", 0, "HTTP 405"),
        (403, b"", 0, "HTTP 403"),
        (500, b"\xff\xfe", 0, "HTTP 500"),
        (500, b'{"jsonrpc": "2.0", "id": 1, "res', 0, "HTTP 500"),
        (302, b"", 0, "HTTP 302"),
        (200, b"<html>", 0, "did not answer tools/list: HTTP 200, application/octet-stream"),
        (202, b"", 0, "did not answer tools/list: HTTP 202"),
        (200, response(99, 1), 0, "did not answer tools/list"),
        (200, message("n"), 0, "did not answer tools/list"),
    ],
)
async def test_what_is_no_answer_is_raised(status: int, body: Any, code: int, words: str) -> None:
    async def script(got: Got) -> None:
        await got.reply(status, body)

    async with connected(script) as (transport, ear, _):
        with pytest.raises(RemoteProtocolError) as caught:
            await transport.send(Request(1, "tools/list"))
    assert (caught.value.status, caught.value.code) == (status, code)
    assert words in str(caught.value) and len(str(caught.value)) < 300
    assert [one for one in ear.messages if not isinstance(one, Notification)] == []


@pytest.mark.anyio
@on_asyncio
async def test_a_json_body_that_is_no_message_fails_the_waiter() -> None:
    async def script(got: Got) -> None:
        await got.reply(200, b'{"jsonrpc": "2.0", "id": 1, "result": \xff}', content_type="application/json")

    async with connected(script) as (transport, ear, _):
        await transport.send(Request(1, "tools/list"))
    [broken] = ear.messages
    assert isinstance(broken, Malformed) and (broken.id, broken.is_response) == (1, True)


@pytest.mark.anyio
@on_asyncio
async def test_an_error_without_an_id_on_a_stream_is_raised_and_junk_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(got: Got) -> None:
        await got.stream()
        await got.raw('data: hello\n\ndata: {"jsonrpc":"2.0","method":5,"id":9}\n\n')
        await got.event(error(None, -32600))
        await got.wait()

    async with connected(script, MODERN) as (transport, ear, _):
        with pytest.raises(RemoteProtocolError) as caught:
            await transport.send(Request(1, "tools/list"))
    assert caught.value.code == -32600
    [broken] = ear.messages
    assert isinstance(broken, Malformed) and broken.id == 9
    assert len([one for one in caplog.records if "skipped" in one.getMessage()]) == 1


@pytest.mark.anyio
@on_asyncio
async def test_a_response_whose_id_cannot_be_read_is_that_of_its_stream() -> None:
    async def script(got: Got) -> None:
        await got.stream()
        await got.raw('data: {"jsonrpc":"2.0","id":1.5,"result":{}}\n\n')
        await got.wait()

    async with connected(script, MODERN) as (transport, ear, _):
        await transport.send(Request(1, "tools/list"))
    [broken] = ear.messages
    assert isinstance(broken, Malformed) and (broken.id, broken.is_response) == (1, True)


@pytest.mark.anyio
@on_asyncio
async def test_a_refused_notification_is_raised_too() -> None:
    async def script(got: Got) -> None:
        await got.reply(400, error(None, -32600))

    async with connected(script) as (transport, _, _server):
        with pytest.raises(RemoteProtocolError) as caught:
            await transport.send(Notification("notifications/x"))
    assert (caught.value.status, caught.value.code) == (400, -32600)


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R98")
async def test_credentials_are_asked_for() -> None:
    async def script(got: Got) -> None:
        challenge = 'Bearer error="insufficient_scope", scope="a"'
        if got.json["id"] == 1:
            await got.reply(401, error(1, -32001), www_authenticate='Bearer resource_metadata="https://x/y"')
        elif got.json["id"] == 2:
            await got.reply(403, b"", www_authenticate=challenge)
        else:
            await got.reply(401)

    async with connected(script, headers={"authorization": "Bearer token-secret"}) as (transport, ear, _):
        challenges = []
        for number in (1, 2, 3):
            with pytest.raises(AuthRequired, match="wants (credentials|a token with more scopes)") as caught:
                await transport.send(Request(number, "tools/list"))
            challenges.append(caught.value.challenge)
            assert "secret" not in str(caught.value)
    assert 'resource_metadata="https://x/y"' in challenges[0]
    assert "insufficient_scope" in challenges[1]
    assert challenges[2] == ""
    assert ear.messages == []


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R87")
@pytest.mark.case("F04")
async def test_a_session_that_is_gone_is_told_apart() -> None:
    async def script(got: Got) -> None:
        await got.reply(404, error(got.json.get("id"), -32001))

    async with in_session(script) as (transport, ear, _):
        with pytest.raises(SessionGone, match="does not know this session") as caught:
            await transport.send(Request(1, "tools/list"))
    assert isinstance(caught.value, ConnectionFailed), "what was sent has certainly not run"
    assert "session-secret" not in str(caught.value)
    assert ear.messages == []


# Connecting


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.anyio
@on_asyncio
@pytest.mark.case("G03")
async def test_no_connection_names_host_port_and_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(self: Any, host: str, *args: Any, **kwargs: Any) -> Any:
        if host == "slow.test":
            await asyncio.Event().wait()
        raise socket.gaierror(-2, "Name or service not known")

    async def no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    monkeypatch.setattr(aiohttp.connector, "DefaultResolver", aiohttp.ThreadedResolver)
    free = free_port()
    async with await asyncio.start_server(no_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for url, words in (
            (f"http://127.0.0.1:{free}/mcp?key=url-secret", (f"127.0.0.1:{free}", "Connect call failed")),
            ("http://nowhere.test/mcp?key=url-secret", ("nowhere.test:80", "not known")),
            ("https://slow.test/mcp?key=url-secret", ("slow.test:443", "no connection within 0.2 s")),
            (f"https://127.0.0.1:{port}/mcp?key=url-secret", (f"127.0.0.1:{port}", "SSL")),
        ):
            ear, transport = Ear(), HttpTransport(url, timeout_connect=0.2 if "slow" in url else BOUND)
            await transport.open(ear.receive, ear.lost)
            with pytest.raises(ConnectionFailed) as caught:
                await transport.send(Request(1, "tools/list"))
            await transport.close()
            assert all(word in str(caught.value) for word in words), caught.value
            assert "url-secret" not in str(caught.value)
            assert isinstance(caught.value.__cause__, aiohttp.ClientError)


@pytest.mark.parametrize("url", ["", "ftp://x/", "localhost:8000", "http:///mcp", "http://[::1", "http://x:99999/"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigurationError):
        HttpTransport(url)


def test_options_that_cannot_work() -> None:
    with pytest.raises(ConfigurationError, match="line end") as caught:
        HttpTransport("http://x/", headers={"Authorization": "token-secret\r\nEvil: 1"})
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError):
        HttpTransport("http://x/", max_message=0)


def test_trio_is_told_what_to_do() -> None:
    async def main() -> None:
        transport, ear = HttpTransport("http://127.0.0.1:1/"), Ear()
        with pytest.raises(ConfigurationError, match="asyncio"):
            await transport.open(ear.receive, ear.lost)
        await transport.close()

    trio.run(main)


def test_aiohttp_is_loaded_when_a_connection_is_opened() -> None:
    code = "import sys, backchannel.client.http as h; h.HttpTransport('http://x/'); print('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.anyio
@on_asyncio
async def test_redirects_are_followed_within_the_server_only() -> None:
    async def script(got: Got) -> None:
        if got.path.startswith("/mcp?"):
            await got.reply(307, b"", location="/mcp/")
        elif got.json["id"] == 1:
            await got.result({})
        elif got.json["id"] == 2:
            await got.reply(308, b"", location=f"http://127.0.0.1:{other.port}/steal")
        elif got.json["id"] == 3:
            await got.reply(301, b"", location="/mcp/")
        else:
            await got.reply(302, b"", location="http://[")

    async with serving(script) as other, connected(script, headers={"x": "1"}) as (transport, ear, server):
        await transport.send(Request(1, "tools/list"))
        await transport.send(Request(1, "tools/list"))
        for number, words, status in ((2, "another server", 308), (3, "without end", 301), (4, "another server", 302)):
            with pytest.raises(RemoteProtocolError, match=words) as caught:
                await transport.send(Request(number, "tools/list"))
            assert caught.value.status == status
    assert [got.path for got in server.got[:3]] == ["/mcp?key=url-secret", "/mcp/", "/mcp/"]
    assert server.got[1].headers["x"] == "1" and server.got[1].json["id"] == 1
    assert len(ear.results) == 2
    assert other.got == []


def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert proxy_for("https", "example.com") is None
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("all_proxy", "socks5://proxy:1080")
    monkeypatch.setenv("no_proxy", ".internal")
    assert proxy_for("https", "example.com") == "http://proxy:3128"
    assert proxy_for("http", "example.com") is None  # that kind cannot be used
    for host in ("localhost", "127.0.0.1", "::1", "a.internal"):
        assert proxy_for("https", host) is None


@pytest.mark.anyio
@on_asyncio
async def test_a_session_of_the_user_is_used_and_left_open() -> None:
    async def script(got: Got) -> None:
        if got.json["id"] == 2:
            reached.set()
            await got.wait()
        else:
            await got.result({})

    reached = asyncio.Event()
    async with (
        aiohttp.ClientSession(headers={"x-mine": "yes"}, timeout=aiohttp.ClientTimeout(total=0.001)) as session,
        connected(script, session=session) as (transport, ear, server),
    ):
        await transport.send(Request(1, "x"))  # the total limit of the session does not count
        async with anyio.create_task_group() as group:

            async def send() -> None:
                with pytest.raises(ConnectionLost, match="is closed"):
                    await transport.send(Request(2, "x"))

            group.start_soon(send)
            await reached.wait()
            await transport.close()
        assert not session.closed
    assert server.got[0].headers["x-mine"] == "yes"
    assert len(ear.results) == 1


# The stream that belongs to no request


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R82", "R83", "R91", "R90")
async def test_the_get_stream_of_a_session(pauses: list[float]) -> None:
    go_on = asyncio.Event()

    async def script(got: Got) -> None:
        if got.method == "GET":
            await got.stream()
            if "last-event-id" not in got.headers:
                await got.event(message("n", number=1), id="g-1", retry=20)
                await go_on.wait()
                got.drop()
            else:
                await got.event({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}, id="g-2")
                await got.wait()
        elif got.method == "POST":
            await got.result({})
        else:
            await got.reply(200)

    async with in_session(script) as (transport, ear, server):
        await transport.listen()
        await transport.listen()  # once is enough
        await ear.hear(1)
        await transport.send(Request(1, "tools/list"))
        assert len(ear.results) == 1
        go_on.set()
        await ear.hear(3)
        streams = [got for got in server.got if got.method == "GET"]
    assert isinstance(ear.messages[-1], Request)
    assert len(streams) == 2
    assert streams[0].headers["mcp-session-id"] == "session-secret"
    assert streams[0].headers["accept"] == "text/event-stream"
    assert streams[1].headers["last-event-id"] == "g-1"
    assert pauses[0] == 0.02
    await streams[1].left.wait()
    assert server.got[-1].method == "DELETE"


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R82")
async def test_no_call_overtakes_the_get_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server sends there, such as a question of the next call, is lost before the stream is open."""
    asked, headers = asyncio.Event(), asyncio.Event()

    async def script(got: Got) -> None:
        if got.method != "GET":
            return await got.result({})
        asked.set()
        await headers.wait()
        await got.stream()
        await got.wait()

    monkeypatch.setattr(http, "_OPENING", BOUND)
    async with in_session(script) as (transport, ear, server):
        await transport.listen()
        call = asyncio.create_task(transport.send(Request(1, "tools/list")))
        await asked.wait()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert [got.method for got in server.got] == ["GET"]
        headers.set()
        async with asyncio.timeout(BOUND):
            await call
    assert ear.results == [{}]


@pytest.mark.anyio
@on_asyncio
async def test_a_get_stream_that_says_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = asyncio.Event()

    async def script(got: Got) -> None:
        if got.method == "GET":
            await headers.wait()
            await got.stream()
            await got.event(message("n"))
            await got.wait()
        elif got.method == "POST":
            await got.result({})
        else:
            await got.reply(200)

    monkeypatch.setattr(http, "_OPENING", 0.05)
    async with in_session(script) as (transport, ear, _):
        await transport.listen()  # returns at once
        await transport.send(Request(1, "tools/list"))
        assert ear.results == [{}]
        headers.set()
        await ear.hear(2)  # it is read all the same


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R82")
@pytest.mark.parametrize("own", ["open", "ended"])
async def test_a_response_on_the_get_stream_ends_the_call(own: str) -> None:
    """In either order: the call's own stream says nothing until then, or ends after it."""
    done = asyncio.Event()
    standing: list[Got] = []

    async def script(got: Got) -> None:
        if got.method == "GET":
            standing.append(got)
            await got.stream()
            await got.wait()
        elif got.json.get("method") == "tools/call":
            await got.stream()
            await standing[0].event({"jsonrpc": "2.0", "id": got.json["id"], "result": {"here": True}})
            if own == "ended":
                await done.wait()
                await got.end()
            else:
                await got.wait()
                done.set()
        elif got.json.get("method") == "initialize":
            result = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            await got.result(result, mcp_session_id="session")
        else:
            await got.reply(202)

    async with serving(script) as server:
        connection = Connection(HttpTransport(server.url), Answers(), Implementation("tests", "1"))
        await connection.open()
        try:
            await connect(connection, "legacy")
            with connection.call("tools/call", total=BOUND) as call:
                assert json.loads(bytes(await connection.request("tools/call", {}, call))) == {"here": True}
            if own == "ended":
                done.set()
            async with asyncio.timeout(BOUND):
                await done.wait()  # the call's own stream is let go
        finally:
            await connection.close()


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R82")
@pytest.mark.parametrize("status", [405, 404, 401, 400])
async def test_a_server_without_a_get_stream(status: int, caplog: pytest.LogCaptureFixture) -> None:
    asked = asyncio.Event()

    async def script(got: Got) -> None:
        await got.reply(status)
        asked.set()

    async with in_session(script) as (transport, ear, server):
        await transport.listen()
        await asked.wait()
        with anyio.fail_after(BOUND):
            while transport._nursery.running:
                await anyio.lowlevel.checkpoint()
        assert len(server.got) == 1
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == (0 if status == 405 else 1)
    assert "session-secret" not in caplog.text


@pytest.mark.anyio
@on_asyncio
async def test_a_get_stream_is_tried_again_ever_more_slowly(pauses: list[float]) -> None:
    async def script(got: Got) -> None:
        if len(server.got) < 8:
            await got.reply(503)
        elif got.method == "GET":
            await got.stream()
            await got.event(message("n"))
            await got.wait()
        else:
            await got.reply(200)

    async with in_session(script) as (transport, ear, server):
        await transport.listen()
        await ear.hear(1)
    assert pauses[:7] == [2, 4, 8, 16, 30, 30, 30]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R88", "R168")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_without_a_session_nothing_runs_in_the_background(version: Version) -> None:
    async def script(got: Got) -> None:
        await got.result({})

    async with connected(script, version) as (transport, _, server):
        if not version.is_modern:
            await transport.send(Request(0, "initialize"))
        before = {task for task in asyncio.all_tasks() if task not in server.tasks}
        await transport.send(Request(1, "tools/list"))
        await transport.listen()
        assert {task for task in asyncio.all_tasks() if task not in server.tasks} == before
        assert transport._nursery.running == 0
    assert "GET" not in [got.method for got in server.got]
    assert "DELETE" not in [got.method for got in server.got]


# Closing


@pytest.mark.anyio
@on_asyncio
@pytest.mark.rule("R87")
@pytest.mark.case("G01")
@pytest.mark.parametrize("status", [200, 405, 404, 500])
async def test_close_ends_the_session_once(status: int) -> None:
    async def script(got: Got) -> None:
        await got.reply(status)

    async with in_session(script) as (transport, ear, server):
        async with anyio.create_task_group() as group:  # in other tasks than `open`
            for _ in range(3):
                group.start_soon(transport.close)
        await transport.close()
        [got] = server.got
        assert (got.method, got.headers["mcp-session-id"]) == ("DELETE", "session-secret")
        with pytest.raises(ConnectionLost, match="is closed"):
            await transport.send(Request(1, "tools/list"))
        with pytest.raises(ConnectionFailed, match="make a new one"):
            await transport.open(ear.receive, ear.lost)
        await transport.listen()


@pytest.mark.anyio
@on_asyncio
async def test_close_does_not_wait_for_a_server_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(got: Got) -> None:
        await got.wait()

    monkeypatch.setattr(http, "_GOODBYE", 0.05)
    async with in_session(script) as (transport, _, server):
        await transport.close()
        assert server.got[0].method == "DELETE"


@pytest.mark.anyio
@on_asyncio
async def test_close_ends_the_calls_under_way() -> None:
    reached = asyncio.Event()

    async def script(got: Got) -> None:
        if got.method == "POST":
            await got.stream()
            await got.event(message("n"))
            reached.set()
            await got.wait()
        else:
            await got.reply(200)

    async with in_session(script) as (transport, ear, server), anyio.create_task_group() as group:

        async def send() -> None:
            with pytest.raises(ConnectionLost, match="is closed"):
                await transport.send(Request(1, "tools/call", {"name": "x"}))

        group.start_soon(send)
        await ear.hear(1)
        await transport.close()
    assert len(ear.messages) == 1


@pytest.mark.anyio
@on_asyncio
async def test_what_cannot_be_sent() -> None:
    transport = HttpTransport("http://127.0.0.1:1/")
    with pytest.raises(ConnectionLost, match="is closed"):
        await transport.send(Request(1, "tools/list"))
    with pytest.raises(LocalProtocolError):
        await transport.send(Request(1, "tools/list", {"text": "\ud83d"}))
    await transport.close()


@pytest.mark.anyio
@on_asyncio
async def test_secrets_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def script(got: Got) -> None:
        if got.method == "GET":
            await got.reply(400)
        elif got.method == "POST":
            await got.stream()
            await got.raw("data: junk\n\n")
            got.drop()
        else:
            await got.reply(500)

    with caplog.at_level(logging.DEBUG, "backchannel"):
        async with in_session(script, headers={"authorization": "Bearer token-secret"}) as (transport, _, _server):
            await transport.listen()
            with pytest.raises(ConnectionLost) as caught:
                await transport.send(Request(1, "tools/call", {"name": "x"}))
            with anyio.fail_after(BOUND):
                while transport._nursery.running:
                    await anyio.lowlevel.checkpoint()
    assert caplog.records
    assert "secret" not in caplog.text + str(caught.value)
