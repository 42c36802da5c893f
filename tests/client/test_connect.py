"""Finding out what a server speaks, against stubs of every kind: as transports, and as servers on a loopback socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from backchannel.client.client import Client
from backchannel.client.http import HttpTransport
from backchannel.errors import (
    AuthRequired,
    ConfigurationError,
    ConnectionFailed,
    ConnectionLost,
    RemoteProtocolError,
    RequestTimeout,
    UnsupportedVersion,
)
from tests.client.fake_time import FAKE_TIME
from tests.client.http_server import Got, serving
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, RpcError, Script

pytestmark = pytest.mark.anyio
TOOLS = {"tools/list": lambda params: {"resultType": "complete", "tools": []}}


def refusing(supported: Any, **on: Any) -> Script:
    """A server that answers the probe with -32022."""

    def refuse(params: Json) -> Json:
        raise RpcError(-32022, "Unsupported protocol version", {"supported": supported, "requested": MODERN})

    return Script(on={"server/discover": refuse, **on})


def methods(script: Script) -> list[str]:
    return [message["method"] for message in script.sent if "method" in message]


def failing(code: int, data: Any = None) -> Any:
    def fail(params: Json) -> Json:
        raise RpcError(code, "no", data)

    return fail


# What a stub does with the probe -> whether that makes the server a legacy one.
SILENCE = object()
STUBS: dict[str, Any] = {
    "silence": SILENCE,
    "400 empty": RemoteProtocolError(0, "HTTP 400", status=400),
    "400 HTML": RemoteProtocolError(0, "HTTP 400: <html>", status=400),
    "404": RemoteProtocolError(0, "HTTP 404", status=404),
    "405": RemoteProtocolError(0, "HTTP 405", status=405),
    "500": RemoteProtocolError(0, "HTTP 500", status=500),
    "the stream breaks off": ConnectionLost("the stream ended"),
    "-32600": failing(-32600),
    "-32601": failing(-32601),
    "-32602": failing(-32602),
    "-32000": failing(-32000),
    "-32002": failing(-32002, {"supported": [MODERN]}),
    "an empty result": lambda params: {},
    "a result of another kind": lambda params: {"supportedVersions": 5},
    "legacy versions only": lambda params: {"supportedVersions": [LEGACY], "capabilities": {}},
}


@pytest.mark.parametrize("anyio_backend", FAKE_TIME)
@pytest.mark.case("A19")
@pytest.mark.parametrize("stub", STUBS)
async def test_whatever_is_no_modern_error_comes_from_a_legacy_server(stub: str) -> None:
    script = Script(on=TOOLS)
    if STUBS[stub] is SILENCE:
        del script.on["server/discover"]
    else:
        script.on["server/discover"] = STUBS[stub]
    began = anyio.current_time()
    async with Client(script, probe_timeout=1) as client:
        assert client.version == LEGACY
        assert anyio.current_time() - began <= 1
        assert [tool async for tool in client.tools()] == []
        assert [tool async for tool in client.tools()] == []
    lost = isinstance(STUBS[stub], ConnectionLost)
    assert methods(script) == [
        *["server/discover"] * (2 if lost else 1),
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/list",
    ], "the outcome is kept, and the probe is not cancelled at a server that may not know what that is"
    assert script.negotiated_with == [LEGACY]
    assert script.listening == 1


@pytest.mark.case("A19")
@pytest.mark.parametrize(
    ("supported", "offered"),
    [
        (["2025-11-25"], "2025-11-25"),
        (["2025-06-18", "2024-11-05"], "2025-06-18"),
        (["2031-01-01", "2025-03-26"], "2025-03-26"),
    ],
)
async def test_unsupported_with_legacy_versions_alone_is_answered_with_initialize(
    supported: list[str], offered: str
) -> None:
    script = refusing(supported, initialize=lambda params: handshake(params["protocolVersion"]))
    async with Client(script) as client:
        assert client.version == offered
    assert script.requests("initialize")[0]["protocolVersion"] == offered


def handshake(version: str) -> Json:
    return {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


@pytest.mark.case("A19")
@pytest.mark.parametrize("version", ["auto", "modern", MODERN])
async def test_unsupported_with_our_version_in_the_list_is_tried_again(version: str) -> None:
    """The conformance suite does that to the first request of every client."""
    script = Script(MODERN, TOOLS)
    found = script.on["server/discover"]
    times = 0

    def once(params: Json) -> Json:
        nonlocal times
        times += 1
        if times == 1:
            raise RpcError(-32022, "no", {"supported": [MODERN]})
        return found(params)  # type: ignore[operator,no-any-return]

    script.on["server/discover"] = once
    async with Client(script, version=version) as client:
        assert client.version == MODERN
    assert methods(script) == ["server/discover"] * 2


@pytest.mark.case("A19")
@pytest.mark.parametrize(
    "supported",
    [["2031-01-01"], [MODERN], [MODERN, LEGACY], [], None, "2025-11-25", 5, [5, None], {"2025-11-25": 1}],
)
async def test_unsupported_with_nothing_in_common_is_no_reason_to_fall_back(supported: Any) -> None:
    script = refusing(supported)
    with pytest.raises(UnsupportedVersion) as caught:
        await Client(script).open()
    assert caught.value.requested == MODERN
    assert "initialize" not in methods(script)
    assert script.closed == 1


@pytest.mark.case("A19")
@pytest.mark.parametrize("code", [-32020, -32021])
async def test_any_other_modern_error_is_no_reason_to_fall_back(code: int) -> None:
    script = Script(on={"server/discover": failing(code)})
    with pytest.raises(RemoteProtocolError) as caught:
        await Client(script).open()
    assert caught.value.code == code
    assert methods(script) == ["server/discover"]
    assert script.closed == 1


@pytest.mark.rule("R98")
@pytest.mark.case("A19")
async def test_credentials_come_before_everything() -> None:
    refused = AuthRequired("s.test wants credentials (HTTP 401)", 'Bearer resource_metadata="x"')
    script = Script(on={"server/discover": refused})
    with pytest.raises(AuthRequired, match="wants credentials") as caught:
        await Client(script).open()
    assert caught.value.challenge.startswith("Bearer")
    assert methods(script) == ["server/discover"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("version", ["auto", "modern", "legacy"])
@pytest.mark.parametrize("losses", [1, 2])
async def test_what_is_lost_on_a_connection_that_closes_is_sent_once_more(version: str, losses: int) -> None:
    seen: list[str] = []

    async def script(got: Got) -> None:
        method = got.json["method"]
        seen.append(method)
        if seen.count(method) <= losses:
            got.drop()
        elif method == "server/discover":
            await got.result({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {}})
        elif method == "initialize":
            await got.result(handshake(LEGACY))
        else:
            await got.reply(202)

    steps = ["initialize", "notifications/initialized"] if version == "legacy" else ["server/discover"]
    async with serving(script) as server:
        client = Client(HttpTransport(server.url), version=version)
        if losses == 1:
            async with client:
                assert client.version == (LEGACY if version == "legacy" else MODERN)
            assert seen == [step for step in steps for _ in range(2)]
        else:
            with pytest.raises(ConnectionLost):
                await client.open()
            assert seen[:2] == [steps[0]] * 2 and len(seen) == (4 if version == "auto" else 2)


@pytest.mark.case("C06", "G03")
async def test_a_server_that_dies_of_the_probe_is_not_asked_again() -> None:
    script = Script()
    why = ConnectionLost("the server exited with code 1")

    def die(params: Json) -> Json:
        script.lose(why)
        raise RpcError(0)

    script.on["server/discover"] = die
    with pytest.raises(ConnectionLost, match="code 1"):
        await Client(script).open()
    assert methods(script) == ["server/discover"]
    assert script.closed == 1


@pytest.mark.parametrize("anyio_backend", FAKE_TIME)
async def test_a_late_answer_to_the_probe_does_no_harm() -> None:
    script = Script()
    del script.on["server/discover"]
    async with Client(script, probe_timeout=1, version="auto") as client:
        script.result(script.sent[0], {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {}})
        assert client.version == LEGACY


@pytest.mark.parametrize("anyio_backend", FAKE_TIME)
@pytest.mark.parametrize("awake", [True, False])
async def test_a_modern_server_that_is_slow_to_start_is_found_all_the_same(awake: bool) -> None:
    """A package runner may take longer than the probe waits. Then the server answers the probe too late, and refuses
    `initialize`."""
    script = Script(MODERN)
    found = script.on.pop("server/discover")

    def refuse(params: Json) -> Json:
        if awake:
            script.on["server/discover"] = found
        raise RpcError(-32601, "initialize is not accepted")

    script.on["initialize"] = refuse
    client = Client(script, probe_timeout=1)
    if awake:
        async with client:
            assert client.version == MODERN
    else:
        with pytest.raises(RemoteProtocolError, match="initialize is not accepted"):
            await client.open()
    assert methods(script) == ["server/discover", "initialize", "server/discover"]


async def test_a_legacy_server_that_refuses_is_not_probed_again() -> None:
    script = Script(on={"initialize": failing(-32603)})
    with pytest.raises(RemoteProtocolError):
        await Client(script).open()
    assert methods(script) == ["server/discover", "initialize"]


# One era, one version.


@pytest.mark.rule("R92")
@pytest.mark.parametrize("version", ["modern", MODERN])
async def test_modern_only(version: str) -> None:
    script = Script(MODERN)
    async with Client(script, version=version) as client:
        assert client.version == MODERN
        assert client.server.info is not None and client.server.info.name == "scripted"
    assert methods(script) == ["server/discover"]
    assert script.listening == 0
    script = Script(LEGACY)
    with pytest.raises(UnsupportedVersion, match=f"{MODERN} was wanted, and the server does not know.*: no$") as caught:
        await Client(script, version=version).open()
    assert (caught.value.requested, caught.value.supported) == (MODERN, [])
    assert methods(script) == ["server/discover"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("stub", ["400 empty", "404", "-32600 without an id", "-32000 with 400", "-32601 with 200"])
async def test_modern_only_over_http_against_a_legacy_server(stub: str) -> None:
    with anyio.fail_after(20):
        async with HttpStub(HTTP_STUBS[stub]).running() as server:
            with pytest.raises(UnsupportedVersion, match='version="auto" finds out'):
                await Client(HttpTransport(server.url), version="modern").open()
    assert server.seen == ["server/discover"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_is_broken_is_no_legacy_server() -> None:
    with anyio.fail_after(20):
        async with HttpStub((503, {}, b"")).running() as server:
            with pytest.raises(RemoteProtocolError, match="HTTP 503"):
                await Client(HttpTransport(server.url), version="modern").open()


async def test_the_text_of_an_unsupported_version_names_both_sides() -> None:
    script = refusing(["2031-01-01", "2032-01-01"])
    with pytest.raises(UnsupportedVersion, match=f"{MODERN} was wanted, and the server speaks 2031-01-01, 2032-01-01"):
        await Client(script).open()
    script = Script(on={"initialize": lambda params: handshake("1999-12-31")})
    with pytest.raises(UnsupportedVersion, match=f"{LEGACY} was wanted, and the server speaks 1999-12-31"):
        await Client(script, version="legacy").open()
    with pytest.raises(ConfigurationError, match="no version 'latest': give one of auto, modern, legacy, 2026"):
        await Client(Script(), version="latest").open()


@pytest.mark.rule("R35", "R92", "R95")
@pytest.mark.parametrize("version", ["legacy", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_legacy_only(version: str) -> None:
    spoken = LEGACY if version == "legacy" else version
    script = Script(spoken)
    async with Client(script, version=version, sample=lambda q: "x", name="me", software_version="9") as client:
        assert client.version == spoken
    assert script.requests("initialize") == [
        {
            "protocolVersion": spoken,
            "capabilities": {"sampling": {}},
            "clientInfo": {"name": "me", "version": "9"},
        }
    ]
    assert methods(script) == ["initialize", "notifications/initialized"]
    assert all("id" not in message for message in script.sent[1:])
    assert script.negotiated_with == [spoken]


@pytest.mark.rule("R92")
@pytest.mark.parametrize("answered", ["2025-06-18", "2025-03-26", "2024-11-05"])
@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_the_server_may_pick_an_older_legacy_version(version: str, answered: str) -> None:
    async with Client(Script(answered), version=version) as client:
        assert client.version == answered


@pytest.mark.rule("R92", "R99")
@pytest.mark.parametrize(
    ("version", "answered"),
    [("auto", "2023-01-01"), ("legacy", MODERN), (LEGACY, "2025-06-18"), ("2025-06-18", LEGACY), ("legacy", "")],
)
async def test_the_client_hangs_up_on_a_version_it_cannot_or_may_not_speak(version: str, answered: str) -> None:
    script = Script(on={"initialize": lambda params: handshake(answered)})
    with pytest.raises(UnsupportedVersion) as caught:
        await Client(script, version=version).open()
    assert caught.value.supported == [answered]
    assert "notifications/initialized" not in methods(script)
    assert script.closed == 1


@pytest.mark.parametrize("version", ["", "2023-01-01", "AUTO", "latest"])
async def test_a_version_that_nobody_knows(version: str) -> None:
    script = Script()
    with pytest.raises(ConfigurationError) as caught:
        Client(script, version=version)
    assert all(name in str(caught.value) for name in ("auto", "legacy", "modern", MODERN, "2024-11-05"))
    assert script.sent == []


@pytest.mark.parametrize("result", [{}, {"protocolVersion": 5}, {"protocolVersion": LEGACY, "capabilities": []}])
async def test_a_malformed_handshake(result: Json) -> None:
    script = Script(on={"initialize": lambda params: result})
    with pytest.raises(RemoteProtocolError, match="initialize is malformed"):
        await Client(script, version="legacy").open()
    assert script.closed == 1


async def test_a_server_that_names_itself_badly_is_served_all_the_same() -> None:
    for info in (None, 5, {"name": 5}, {}):
        meta = {"io.modelcontextprotocol/serverInfo": info}
        found = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "instructions": "x", "_meta": meta}
        async with Client(Script(MODERN, {"server/discover": lambda params, found=found: found})) as client:
            assert client.server.info is None
            assert (client.server.instructions, client.server.capabilities) == ("x", {"tools": {}})


@pytest.mark.rule("R59")
@pytest.mark.parametrize("anyio_backend", FAKE_TIME)
@pytest.mark.parametrize("version", [*BOTH, "auto"])
async def test_a_server_that_says_nothing_at_all(version: str) -> None:
    script = Script(version)
    script.on.clear()
    began = anyio.current_time()
    with pytest.raises(RequestTimeout):
        await Client(script, version=version, timeout=3, probe_timeout=1).open()
    assert anyio.current_time() - began == pytest.approx(4 if version == "auto" else 3)
    assert "notifications/cancelled" not in methods(script)
    assert script.closed == 1


async def test_the_server_may_ask_as_soon_as_it_has_answered_initialize() -> None:
    """However the tasks are scheduled: the question may be read before the client has seen the answer."""
    for _ in range(10):
        script = Script()

        def initialize(params: Json, script: Script = script) -> Json:
            script.give({"id": script.sent[-1]["id"], "result": handshake(LEGACY)})
            script.ask("early", "roots/list")
            return handshake(LEGACY)

        script.on["initialize"] = initialize
        async with Client(script, version="legacy", roots=["file:///a"]):
            answer = await script.next_answer()
        assert answer["result"] == {"roots": [{"uri": "file:///a"}]}


# The same stubs as servers.


class HttpStub:
    """A server on a loopback socket. probe: what it answers `server/discover` with, as status, headers and body; None
    is silence. Everything else it answers as a legacy server."""

    def __init__(self, probe: tuple[int, dict[str, str], bytes] | None):
        self.probe = probe
        self.seen: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["HttpStub"]:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next((int(line[15:]) for line in head.lower().split("\r\n") if line[:15] == "content-length:"), 0)
            body = json.loads(await reader.readexactly(length)) if length else {}
            reply = await self._reply(head, body)
            if reply is not None:
                status, headers, data = reply
                lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", "connection: close"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + data)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _reply(self, head: str, body: Json) -> tuple[int, dict[str, str], bytes] | None:
        method = body.get("method", head.split()[0])
        self.seen.append(method)
        kind = {"content-type": "application/json"}
        if method == "server/discover":
            if self.probe is None:
                await asyncio.sleep(3600)
            return self.probe
        if method == "initialize":
            result = {"jsonrpc": "2.0", "id": body["id"], "result": handshake(LEGACY)}
            return 200, {**kind, "mcp-session-id": "s1"}, json.dumps(result).encode()
        if method == "tools/list":
            return 200, kind, json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": {"tools": []}}).encode()
        return (202 if "method" in body else 405), {}, b""


def rpc(code: int, id: Any = 1, data: Any = None) -> bytes:
    error = {"code": code, "message": "no"} | ({"data": data} if data is not None else {})
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode()


JSON_TYPE = {"content-type": "application/json"}
HTTP_STUBS: dict[str, tuple[int, dict[str, str], bytes] | None] = {
    "silence": None,
    "400 empty": (400, {}, b""),
    "400 HTML": (400, {"content-type": "text/html"}, b"<html>Bad Request</html>"),
    "404": (404, {"content-type": "text/plain"}, b"not found"),
    "405": (405, {"allow": "GET"}, b""),
    "-32600 with 400": (400, JSON_TYPE, rpc(-32600)),
    "-32600 without an id": (400, JSON_TYPE, rpc(-32600, None)),
    "-32600 with 200": (200, JSON_TYPE, rpc(-32600)),
    "-32601 with 404": (404, JSON_TYPE, rpc(-32601)),
    "-32601 with 200": (200, JSON_TYPE, rpc(-32601)),
    "-32000 with 400": (400, JSON_TYPE, rpc(-32000, "server-error")),
    "-32022 legacy": (400, JSON_TYPE, rpc(-32022, 1, {"supported": [LEGACY], "requested": MODERN})),
    "202": (202, {}, b""),
    "an event stream without an event": (200, {"content-type": "text/event-stream"}, b""),
}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.case("A19")
@pytest.mark.parametrize("stub", HTTP_STUBS)
async def test_auto_over_http_falls_back(stub: str) -> None:
    with anyio.fail_after(20):
        async with HttpStub(HTTP_STUBS[stub]).running() as server:
            async with Client(HttpTransport(server.url), probe_timeout=0.2) as client:
                assert client.version == LEGACY
                for _ in range(2):
                    assert [tool async for tool in client.tools()] == []
            posts = [method for method in server.seen if method not in ("GET", "DELETE")]
    probes = ["server/discover"] * (2 if "event stream" in stub else 1)  # a response that is lost is asked for again
    assert posts == [*probes, "initialize", "notifications/initialized", "tools/list", "tools/list"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.case("A19", "G03")
@pytest.mark.parametrize(
    ("probe", "kind"),
    [
        ((400, JSON_TYPE, rpc(-32022, 1, {"supported": ["2031-01-01"]})), UnsupportedVersion),
        ((400, JSON_TYPE, rpc(-32020)), RemoteProtocolError),
        ((401, {"www-authenticate": 'Bearer realm="x"'}, b""), AuthRequired),
    ],
)
async def test_auto_over_http_does_not_fall_back(probe: Any, kind: type[Exception]) -> None:
    with anyio.fail_after(20):
        async with HttpStub(probe).running() as server:
            with pytest.raises(kind):
                await Client(HttpTransport(server.url), probe_timeout=5).open()
    assert server.seen == ["server/discover"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.case("G03")
async def test_nobody_listens() -> None:
    async with HttpStub(None).running() as server:
        url = server.url
    with pytest.raises(ConnectionFailed, match="127.0.0.1") as caught:
        await Client(HttpTransport(url)).open()
    assert caught.value.__cause__ is not None
