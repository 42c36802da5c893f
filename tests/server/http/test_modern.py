"""Modern requests over real sockets (basic/transports/streamable-http)."""

import json
from typing import Any

import anyio
import pytest

from backchannel import Context, Limits, Server, ToolError
from tests.server.http.wire import ASKS, MODERN, Asgi, accept, call, modern, notification, request, text, wire

pytestmark = pytest.mark.anyio
DEEP = b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b'{"a":' * 100_000


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def hello(name: str = "you") -> str:
        return f"hello {name}"

    @server.tool
    async def count(ctx: Context, to: int) -> str:
        for number in range(to):
            await ctx.progress(number + 1, total=to)
        return "counted"

    @server.tool
    async def ask(ctx: Context, first: int = 0) -> str:
        for number in range(first):
            await ctx.progress(number + 1)
        return f"hello {(await ctx.elicit('Who?', str)).unwrap()}"

    @server.tool
    async def fail() -> str:
        raise ToolError("no luck")

    return server


@pytest.mark.rule("R79", "R12")
@pytest.mark.parametrize("id", [1, 0, -5, "a", "", "ü€"])
async def test_a_response_that_comes_first_is_one_json_object(id: int | str) -> None:
    async with wire(shop()) as there:
        response = await there.modern(call("hello", id, name="Ada"))
        assert response.status == 200
        assert response.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in response.headers
        message = await response.json()
        assert text(message) == "hello Ada"
        assert message["id"] == id and type(message["id"]) is type(id)


@pytest.mark.rule("R79", "R80", "R81", "R140")
@pytest.mark.case("D02")
async def test_notifications_come_on_a_stream_before_the_response() -> None:
    async with wire(shop()) as there:
        response = await there.modern(call("count", token="t", to=100))
        assert response.status == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        events = []
        while (event := await response.event()) is not None:
            events.append(event)
        assert [event.id for event in events] == [None] * 101, "the modern wire has no event ids"
        *progress, last = [event.message for event in events]
        assert [one["params"]["progress"] for one in progress] == list(range(1, 101))
        assert {one["params"]["progressToken"] for one in progress} == {"t"}
        assert text(last) == "counted"


@pytest.mark.rule("R79")
async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with wire(shop()) as there:
        connection = await there.connect()
        for tool, arguments in (("hello", {}), ("count", {"to": 3}), ("hello", {})):
            message, headers = modern(call(tool, token="t", **arguments))
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            named |= {"content-type": "application/json", "accept": "application/json, text/event-stream"}
            await connection.send("POST", "/mcp", named, json.dumps(message).encode())
            assert (await (await connection.head()).messages())[-1]["id"] == 1


@pytest.mark.rule("R160", "R161", "R162")
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({}, 200, None),
        ({"mcp_protocol_version": ""}, 400, -32020),
        ({"mcp_protocol_version": "2025-11-25"}, 400, -32020),
        ({"mcp_method": ""}, 400, -32020),
        ({"mcp_method": "tools/list"}, 400, -32020),
        ({"mcp_method": "TOOLS/CALL"}, 400, -32020),
        ({"mcp_name": ""}, 400, -32020),
        ({"mcp_name": "other"}, 400, -32020),
        ({"mcp_name": "=?base64?aGVsbG8=?="}, 200, None),
        ({"mcp_name": "  hello  "}, 200, None),
        ({"MCP-NAME": "hello", "mcp_name": ""}, 200, None),
        ({"mcp_session_id": "whatever"}, 200, None),
        ({"content_type": "text/plain"}, 415, -32600),
        ({"content_type": "Application/JSON; charset=utf-8"}, 200, None),
        ({"accept": "text/html"}, 406, -32600),
        ({"accept": "application/json"}, 200, None),
        ({"accept": "*/*"}, 200, None),
        ({"accept": ""}, 200, None),
    ],
)
async def test_the_ladder_of_headers(change: dict[str, str], status: int, code: int | None) -> None:
    async with wire(shop()) as there:
        response = await there.modern(call("hello", id="x"), **change)
        assert response.status == status
        [message] = await response.messages()
        if code is None:
            assert text(message) == "hello you"
        else:
            assert message["error"]["code"] == code
            assert message.get("id") == ("x" if status == 400 else None)
        # whatever it was, the next call works
        assert (await there.modern(call("hello"))).status == 200


@pytest.mark.rule("R126", "R160", "R161")
@pytest.mark.parametrize(
    ("message", "meta", "status", "code"),
    [
        (request("unknown/method"), {}, 404, -32601),
        (request("ping"), {}, 404, -32601),
        (request("initialize"), {}, 404, -32601),
        (request("logging/setLevel"), {}, 404, -32601),
        (call("nobody"), {}, 200, -32602),
        (request("tools/call", {"name": 5}), {}, 400, -32602),
        (call("hello"), {"io.modelcontextprotocol/protocolVersion": None}, 400, -32602),
        (call("hello"), {"io.modelcontextprotocol/clientCapabilities": None}, 400, -32602),
        (call("hello"), {"io.modelcontextprotocol/protocolVersion": "2999-01-01"}, 400, -32020),
    ],
)
async def test_errors_have_their_status(message: Any, meta: dict[str, Any], status: int, code: int) -> None:
    async with wire(shop()) as there:
        full, headers = modern(message)
        for name, value in meta.items():
            full["params"]["_meta"][name] = value
            if value is None:
                del full["params"]["_meta"][name]
        headers["mcp_name"] = str(headers.get("mcp_name", ""))
        response = await there.post(full, **headers)
        assert response.status == status
        [answer] = await response.messages()
        assert answer["error"]["code"] == code
        assert answer["id"] == 1


@pytest.mark.rule("R161")
async def test_a_version_that_is_not_served_is_answered_with_those_that_are() -> None:
    async with wire(shop()) as there:
        full, headers = modern(request("server/discover"))
        full["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v999"
        response = await there.post(full, **{**headers, "mcp_protocol_version": "v999"})
        assert response.status == 400
        error = (await response.json())["error"]
        assert error["code"] == -32022
        assert error["data"]["requested"] == "v999"
        assert MODERN in error["data"]["supported"]


@pytest.mark.case("J05")
@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", -32700), (b"\xff", -32700), (DEEP, -32700), (b"[]", -32600), (b'{"jsonrpc":"2.0"}', -32600)],
)
async def test_a_body_that_is_no_message(body: bytes, code: int) -> None:
    async with wire(shop()) as there:
        response = await there.post(body, mcp_protocol_version=MODERN)
        assert response.status == 400
        assert (await response.json())["error"]["code"] == code
        assert (await there.modern(call("hello"))).status == 200


async def test_a_failed_tool_is_a_result() -> None:
    async with wire(shop()) as there:
        response = await there.modern(call("fail"))
        assert response.status == 200
        message = await response.json()
        assert message["result"]["isError"] is True
        assert text(message) == "no luck"


@pytest.mark.rule("R78")
async def test_a_notification_is_accepted_and_a_response_is_not() -> None:
    async with wire(shop()) as there:
        response = await there.post(notification("notifications/whatever"), mcp_protocol_version=MODERN)
        assert response.status == 202
        assert await response.body() == b""
        response = await there.post({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_protocol_version=MODERN)
        assert response.status == 400
        assert "id" not in await response.json()


@pytest.mark.rule("R104", "R106")
async def test_a_question_is_a_result_and_the_answer_a_new_call() -> None:
    async with wire(shop()) as there:
        first = (await (await there.modern(call("ask"), ASKS)).json())["result"]
        assert first["resultType"] == "input_required"
        [key] = first["inputRequests"]
        again = call("ask", id=2)
        again["params"] |= {"requestState": first["requestState"], "inputResponses": {key: accept(value="Ada")}}
        message = await (await there.modern(again, ASKS)).json()
        assert text(message) == "hello Ada"
        again["params"]["requestState"] += "x"
        response = await there.modern(again, ASKS)
        assert response.status == 200
        assert (await response.json())["error"]["code"] == -32602


@pytest.mark.parametrize("streamed", [0, 1])
async def test_a_missing_capability_is_a_bad_request_unless_the_stream_has_begun(streamed: int) -> None:
    async with wire(shop()) as there:
        response = await there.modern(call("ask", token="t", first=streamed))
        assert response.status == (200 if streamed else 400)
        error = (await response.messages())[-1]["error"]
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}


async def test_a_client_that_reads_streams_only_gets_one() -> None:
    async with wire(shop()) as there:
        response = await there.modern(call("hello"), accept="text/event-stream")
        assert response.streams
        assert text((await response.messages())[0]) == "hello you"
        response = await there.modern(request("nobody/knows"), accept="text/event-stream")
        assert response.status == 404
        assert (await response.json())["error"]["code"] == -32601


class Sleeper:
    """A server with a call that sleeps until it is cancelled."""

    def __init__(self) -> None:
        self.started, self.cleaned = anyio.Event(), anyio.Event()
        self.outcome = ""
        self.server = Server("sleeper", limits=Limits(keep_alive=0.01))

        @self.server.tool
        async def sleep(ctx: Context, quiet: bool = True) -> str:
            try:
                if not quiet:
                    await ctx.progress(1)
                self.started.set()
                await anyio.sleep_forever()
            except BaseException as error:
                self.outcome = type(error).__name__
                raise
            finally:
                self.cleaned.set()
            return "awake"


@pytest.mark.rule("R40", "R54")
@pytest.mark.case("C03")
@pytest.mark.parametrize("accepts", ["application/json", "application/json, text/event-stream"])
async def test_a_client_that_leaves_cancels_its_call(accepts: str) -> None:
    sleeper = Sleeper()
    async with wire(sleeper.server) as there:
        connection = await there.connect()
        message, headers = modern(call("sleep", token="t", quiet="event" not in accepts))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"content-type": "application/json", "accept": accepts}
        await connection.send("POST", "/mcp", named, json.dumps(message).encode())
        await sleeper.started.wait()
        if "event" in accepts:
            response = await connection.head()
            assert (await response.message())["method"] == "notifications/progress"
        connection.drop()
        await sleeper.cleaned.wait()
        assert sleeper.outcome == "CancelledError"


@pytest.mark.rule("R57")
async def test_nothing_is_sent_after_the_client_has_left() -> None:
    sleeper = Sleeper()
    async with wire(sleeper.server) as there:
        message, headers = modern(call("sleep", token="t"))
        one = Asgi(there.app, message, {**headers, "accept": "application/json"})
        await sleeper.started.wait()
        one.gone.set()
        await one.done
        assert sleeper.cleaned.is_set()
        assert one.sent == []


@pytest.mark.case("F12")
@pytest.mark.rule("R79")
async def test_a_silent_call_becomes_a_stream_and_comments_keep_it_alive() -> None:
    sleeper = Sleeper()
    go = anyio.Event()

    @sleeper.server.tool
    async def wait() -> str:
        await go.wait()
        return "done"

    async with wire(sleeper.server) as there:
        response = await there.modern(call("wait"))
        assert response.streams
        for _ in range(3):
            event = await response.event()
            assert event is not None and event.comment
        go.set()
        assert text(await response.message()) == "done"
        assert await response.event() is None


async def test_a_silent_call_stays_one_object_for_a_client_that_reads_no_streams() -> None:
    sleeper = Sleeper()
    go = anyio.Event()

    @sleeper.server.tool
    async def wait() -> str:
        await go.wait()
        return "done"

    async with wire(sleeper.server) as there:
        message, headers = modern(call("wait"))
        one = Asgi(there.app, message, {**headers, "accept": "application/json"})
        for _ in range(100):
            await anyio.sleep(0.001)
        assert one.sent == []
        go.set()
        await one.done
        assert one.status == 200
        assert text(json.loads(one.body)) == "done"


async def test_a_result_that_json_cannot_carry_is_an_error() -> None:
    server = Server("broken")

    @server.tool
    async def half() -> str:
        return "\ud83d"

    @server.middleware
    async def half_of_a_name(ctx: Context, call_next: Any) -> Any:
        result = await call_next(ctx)
        return {"content": [], "note": "\udc00"} if ctx.method == "tools/list" else result

    async with wire(server) as there:
        message = await (await there.modern(call("half"))).json()
        assert message["result"]["isError"] is True
        response = await there.modern(request("tools/list", id="l"))
        message = await response.json()
        assert message["error"]["code"] == -32603
        assert message["id"] == "l"


async def test_a_notification_that_json_cannot_carry_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("broken")

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.progress(1, message="\ud83d")
        await ctx.progress(2, message="fine")
        return "told"

    async with wire(server) as there:
        first, last = await (await there.modern(call("tell", token="t"))).messages()
    assert first["params"]["message"] == "fine"
    assert text(last) == "told"
    assert "cannot be written as JSON" in caplog.text


@pytest.mark.rule("R9")
async def test_a_thousand_calls_at_once() -> None:
    server = Server("many")
    count, all_here = 0, anyio.Event()

    @server.tool
    async def meet(name: int) -> str:
        nonlocal count
        count += 1
        if count == 1000:
            all_here.set()
        await all_here.wait()
        return str(name)

    got: dict[int, str] = {}
    async with wire(server) as there:

        async def one(number: int) -> None:
            response = await there.modern(call("meet", number, name=number))
            message = (await response.messages())[-1]
            got[message["id"]] = text(message)
            response.drop()

        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(one, number)
    assert got == {number: str(number) for number in range(1000)}
