"""The endpoint: which requests come in, whole or not, and what is refused before anything is served."""

import asyncio
import json
import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.middleware.base import BaseHTTPMiddleware

from backchannel import ConfigurationError, Context, Limits, Principal, Server, http_app
from tests.server.http.wire import (
    ASKS,
    BOTH,
    FORMS,
    LEGACY,
    MODERN,
    Asgi,
    Connection,
    Wire,
    accept,
    call,
    modern,
    notification,
    request,
    serving,
    text,
    until,
    wire,
)

pytestmark = pytest.mark.anyio


def shop(**options: Any) -> Server:
    server = Server("shop", **options)

    @server.tool
    async def length(value: str) -> int:
        return len(value)

    @server.tool
    async def repeat(size: int) -> str:
        return "x" * size

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.progress(1)
        return (await ctx.elicit("Who?", str)).unwrap()

    return server


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 404),
        ("GET", "/mcp/more", 404),
        ("POST", "/mcpx", 404),
        ("PUT", "/mcp", 405),
        ("OPTIONS", "/mcp", 405),
        ("HEAD", "/mcp", 405),
    ],
)
async def test_what_is_not_here(method: str, path: str, status: int) -> None:
    async with wire(shop()) as there:
        there.path = path
        response = await there.http(method, {"content-type": "application/json"})
        assert response.status == status
        assert response.headers.get("allow") == ("POST, GET, DELETE" if status == 405 else None)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_the_stateless_protocol_has_posts_alone(method: str) -> None:
    async with wire(shop()) as there:
        response = await there.http(method, {"accept": "text/event-stream", "mcp-protocol-version": MODERN})
        assert (response.status, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/mcp", "mcp", "/mcp/", "/deep/er/mcp", "/"])
async def test_the_path_is_free(path: str) -> None:
    async with wire(shop(), path=path) as there:
        there.path = "/" + path.strip("/")
        assert (await there.modern(call("length", value="abc"))).status == 200
        there.path = there.path.rstrip("/") + "/"
        assert (await there.modern(call("length", value="abc"))).status == 200


@pytest.mark.case("I05")
async def test_hosts_and_origins_are_checked_on_every_method() -> None:
    async with wire(shop()) as there:
        for change, status in (
            ({"host": "app.example.test"}, 421),
            ({"host": f"localhost:{there.port}"}, 200),
            ({"host": "[::1]:80"}, 200),
            ({"origin": "https://evil.example"}, 403),
            ({"origin": f"http://localhost:{there.port}"}, 200),
        ):
            response = await there.modern(call("length", value="abc"), **change)
            assert response.status == status
            if status != 200:
                body = await response.json()
                assert body["error"]["code"] == -32600 and "id" not in body
                for method in ("GET", "DELETE"):
                    assert (await there.http(method, change)).status == status
    async with wire(shop(), allowed_hosts=["*.example.test"]) as there:
        assert (await there.modern(call("length", value="abc"), host="app.example.test")).status == 200


def test_a_name_in_the_place_of_a_list_is_refused() -> None:
    for option in ({"allowed_hosts": "example.test"}, {"allowed_origins": "https://example.test"}):
        with pytest.raises(ConfigurationError, match="is a list"):
            http_app(shop(), **option)  # type: ignore[arg-type]


@pytest.mark.rule("R98")
async def test_a_token_is_wanted_where_there_is_a_verifier() -> None:
    tokens: list[str] = []

    async def verify(token: str) -> Principal | None:
        tokens.append(token)
        return Principal("ada") if token == "good" else None

    async with wire(shop(), verify=verify) as there:
        for header, status in (
            ("", 401),
            ("Bearer", 401),
            ("Bearer ", 401),
            ("Basic good", 401),
            ("Bearer bad", 401),
            ("Bearer good", 200),
            ("bearer  good", 200),
        ):
            response = await there.modern(call("length", value="abc"), authorization=header)
            assert response.status == status, header
            if status == 401:
                assert response.headers["www-authenticate"].startswith("Bearer")
                assert await response.body() == b""
        assert tokens == ["bad", "good", "good"]


# Bodies.


async def chunked(connection: Connection, headers: dict[str, str], chunks: list[bytes]) -> None:
    await connection.send("POST", "/mcp", {**headers, "transfer-encoding": "chunked"})
    for chunk in [*chunks, b""]:
        connection.writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    await connection.writer.drain()


def prepared(message: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    body, headers = modern(message)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return json.dumps(body).encode(), {"content-type": "application/json", "accept": BOTH, **named}


async def test_a_body_may_come_in_pieces() -> None:
    async with wire(shop()) as there:
        body, headers = prepared(call("length", value="abc"))
        connection = await there.connect()
        await chunked(connection, headers, [body[:10], body[10:11], body[11:]])
        assert text(await (await connection.head()).json()) == "3"


@pytest.mark.case("H08")
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_refused_and_the_connection_is_alive(announced: bool) -> None:
    async with wire(shop(limits=Limits(message=100_000))) as there:
        connection = await there.connect()
        body, headers = prepared(call("length", value="x" * 200_000))
        if announced:
            await connection.send("POST", "/mcp", headers, body)
        else:
            await chunked(connection, headers, [body[:50_000], body[50_000:]])
        response = await connection.head()
        assert response.status == 413
        error = (await response.json())["error"]
        assert "100000" in error["message"] and "Limits.message" in error["message"]
        if announced:
            assert str(len(body)) in error["message"]
        body, headers = prepared(call("length", value="x" * 90_000))
        await connection.send("POST", "/mcp", headers, body)
        assert text(await (await connection.head()).json()) == "90000"


@pytest.mark.case("H08")
@pytest.mark.parametrize("size", [100_000, 5_000_000])
async def test_big_messages_pass_in_both_directions(size: int) -> None:
    async with wire(shop()) as there:
        response = await there.modern(call("length", value="x" * size))
        assert text(await response.json()) == str(size)
        response = await there.modern(call("repeat", size=size))
        assert len(text(await response.json())) == size


@pytest.mark.case("H08")
async def test_bigger_messages_pass_where_the_limit_is_raised() -> None:
    size = 50_000_000
    async with wire(shop(limits=Limits(message=2 * size))) as there:
        response = await there.modern(call("length", value="x" * size))
        assert text(await response.json()) == str(size)
    async with wire(shop()) as there:
        assert (await there.modern(call("length", value="x" * size))).status == 413


@pytest.mark.case("C05")
async def test_a_client_that_leaves_in_its_body_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with wire(shop()) as there:
            session = await there.session(FORMS)
            connection = await there.connect()
            headers = {"content-type": "application/json", "content-length": "100", "mcp-session-id": session.id}
            await connection.send("POST", "/mcp", headers, b'{"jsonrpc"')
            await until(lambda: there.app is not None)
            connection.drop()
            await until(lambda: any("before its body was whole" in record.message for record in caplog.records))
            assert (await session.post(call("length", value="abc"))).status == 200
    ours = [record for record in caplog.records if record.name.startswith(("backchannel", "uvicorn"))]
    assert [record.levelname for record in ours if record.name.startswith("backchannel")] == ["DEBUG"]
    assert [record for record in ours if record.levelno >= logging.WARNING] == []


# Servers and middleware that are not uvicorn.


async def test_a_server_that_raises_once_the_client_has_left(caplog: pytest.LogCaptureFixture) -> None:
    app = http_app(shop())
    with anyio.fail_after(30):
        async with app.running():
            for message, capabilities, token in (
                (call("length", value="abc"), {}, None),
                (call("ask", token="t"), {}, "t"),
                (call("ask", token="t"), ASKS, "t"),
            ):
                body, headers = modern(message, capabilities)
                one = Asgi(app, body, headers)

                async def fail(message: dict[str, Any]) -> None:
                    raise OSError("the client is gone")

                one.on_send = fail
                await one.done
                assert len(one.sent) == 1, token
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("mode", ["modern", "session"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_server_that_cancels_a_request_leaves_nothing_behind(mode: str, streamed: bool) -> None:
    server = shop()
    started, cleaned = anyio.Event(), anyio.Event()

    @server.tool
    async def sleep(ctx: Context) -> str:
        try:
            if streamed:
                await ctx.progress(1)
            started.set()
            await anyio.sleep_forever()
        finally:
            cleaned.set()
        return ""

    async with wire(server) as there:
        await (await there.modern(call("ask", token="t"))).messages()
        session = await there.session(ASKS)
        tasks = len(asyncio.all_tasks())
        message, headers = call("sleep", 7, "t"), {"mcp_session_id": session.id}
        if mode == "modern":
            message, headers = modern(message)
        one = Asgi(there.app, message, headers)
        await started.wait()
        await until(lambda: not streamed or len(one.sent) > 1)
        one.done.cancel()
        await asyncio.wait([one.done])
        assert one.done.cancelled()
        assert cleaned.is_set()
        await until(lambda: len(asyncio.all_tasks()) == tasks)
        [object_] = there.app.sessions._sessions.values()
        assert object_.peer.serving == 0
        assert (await session.post(call("length", 7, value="abc"))).status == 200


@pytest.mark.parametrize("mode", ["modern", "session", "batch"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_handler_that_cancels_its_own_task_is_answered_for(mode: str, streamed: bool) -> None:
    server = shop()

    @server.tool
    async def give_up(ctx: Context) -> str:
        if streamed:
            await ctx.progress(1)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.lowlevel.checkpoint()
        return ""

    async with wire(server) as there:
        session = await there.session(version="2025-03-26" if mode == "batch" else LEGACY)
        message, headers = call("give_up", 7, "t"), {"mcp_session_id": session.id}
        if mode == "modern":
            message, headers = modern(message)
        one = Asgi(there.app, [message, call("length", 8, value="abc")] if mode == "batch" else message, headers)
        await asyncio.wait([one.done])
        assert one.status == 200 and b"the handler's task was cancelled" in one.body
        assert (b'"3"' in one.body) == (mode == "batch")
        assert (await session.post(call("length", 9, value="abc"))).status == 200


async def test_a_session_that_introduces_itself_at_length_gets_none() -> None:
    async with wire(shop()) as there:
        params = {"protocolVersion": LEGACY, "capabilities": {"x": {"y": "z" * 100_000}}, "clientInfo": {"name": "a"}}
        response = await there.post(request("initialize", params, 0))
        error = (await response.json())["error"]
        assert error["code"] == -32602 and "at most 65536 bytes" in error["message"]
        assert len(there.app.sessions) == 0


async def test_behind_middleware_that_wraps_receive_and_send() -> None:
    app = http_app(shop())

    async def pass_on(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    with anyio.fail_after(30):
        async with serving(BaseHTTPMiddleware(app, dispatch=pass_on), lifespan="off") as port:
            there = Wire(port)
            session = await there.session(ASKS)
            response = await session.post(call("ask", token="t"))
            assert (await response.message())["method"] == "notifications/progress"
            question = await response.message()
            await session.answer(question, accept(value="Ada"))
            assert text(await response.message()) == "Ada"
            assert text(await (await there.modern(call("length", value="abc"))).json()) == "3"
            dropped = await session.post(call("ask", id=2, token="t"))
            await dropped.message()
            dropped.drop()
            [object_] = app.sessions._sessions.values()  # type: ignore[union-attr]
            await session.http("DELETE")
            await until(lambda: object_.peer.serving == 0)
            await there.close()
            await app.close()


async def test_what_is_not_http_is_refused() -> None:
    app = http_app(shop())
    with pytest.raises(RuntimeError, match="serves HTTP"):
        await app({"type": "websocket"}, None, None)  # type: ignore[arg-type]


async def test_a_verifier_that_fails_is_a_server_error(caplog: pytest.LogCaptureFixture) -> None:
    async def verify(token: str) -> Principal | None:
        raise ConnectionError("no keys")

    async with wire(shop(), verify=verify) as there:
        response = await there.modern(request("tools/list"), authorization="Bearer x")
        assert response.status == 500


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("", "/mcp", 202),
        ("/m", "/m/mcp", 202),  # as ASGI says
        ("/m", "/mcp", 202),  # as some routers do
        ("/mcp", "/mcp/mcp", 202),
        ("/m", "/m/m/mcp", 404),
        ("/x", "/y/mcp", 404),
    ],
)
async def test_where_it_is_mounted(root: str, path: str, status: int) -> None:
    app = http_app(Server("s"), sessions=False)
    one = Asgi(app, notification("notifications/initialized"))
    one.scope |= {"root_path": root, "path": path}
    await one.done
    assert one.sent[0]["status"] == status
    await app.close()
