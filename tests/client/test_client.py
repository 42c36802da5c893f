"""The Client: open and close, what it sends and gives back, and whole conversations with a Server in this process."""

import json
import logging
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from backchannel import Client, Context, Server
from backchannel.client.listing import MAX_PAGES
from backchannel.errors import (
    BackchannelError,
    ConfigurationError,
    ConnectionFailed,
    ConnectionLost,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestTimeout,
)
from backchannel.memory import MemoryTransport
from backchannel.protocol.jsonrpc import Message
from backchannel.protocol.types.requests import LogParams
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, RpcError, Script

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def methods(script: Script) -> list[str]:
    return [message["method"] for message in script.sent if "method" in message]


async def in_a_task(function: Any, *args: Any) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(function, *args)


# Open and close.


@pytest.mark.case("G01")
@pytest.mark.parametrize("version", BOTH)
async def test_opened_in_one_task_and_closed_in_another(version: str) -> None:
    server = Server("s")

    @server.tool
    async def hello() -> str:
        return "hello"

    client = Client(MemoryTransport(server), version=version)
    await in_a_task(client.open)
    assert (await client.call_tool("hello")).text == "hello"
    await in_a_task(client.close)
    with pytest.raises(ConnectionLost, match="closed"):
        await client.call_tool("hello")


@pytest.mark.case("G01")
async def test_three_clients_closed_in_open_order_and_in_any_other() -> None:
    for order in ((0, 1, 2), (1, 2, 0), (2, 1, 0)):
        clients = [Client(MemoryTransport(Server(f"s{number}"))) for number in range(3)]
        for client in clients:
            await client.open()
        for number in order:
            await clients[number].close()
        assert all(client._connection.nursery.running == 0 for client in clients if client._connection)


@pytest.mark.case("G01")
async def test_closed_by_a_generator_s_finalizer_and_by_a_stack_of_another_task() -> None:
    async def using(script: Script) -> AsyncIterator[Client]:
        async with Client(script) as client:
            yield client

    script = Script()
    generator = using(script)
    await anext(generator)
    await in_a_task(generator.aclose)  # type: ignore[attr-defined]
    assert script.closed == 1

    script, stack = Script(), AsyncExitStack()
    await stack.enter_async_context(Client(script))
    await in_a_task(stack.aclose)
    assert script.closed == 1


async def test_closed_twice_and_by_two_at_once_and_never_opened() -> None:
    script = Script()
    client = Client(script)
    await client.close()
    await client.open()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(client.close)
    await client.close()
    with pytest.raises(ConnectionLost, match="closed"):
        await client.ping()


async def test_whoever_closes_second_waits_for_the_end_too() -> None:
    release, closed = anyio.Event(), []

    class Slow(Script):
        async def close(self) -> None:
            await release.wait()
            await super().close()

    async def close(name: str) -> None:
        await client.close()
        closed.append((name, script.closed > 0))

    script = Slow()
    client = await Client(script).open()
    async with anyio.create_task_group() as group:
        group.start_soon(close, "a")
        group.start_soon(close, "b")
        await anyio.wait_all_tasks_blocked()
        assert closed == []
        release.set()
    assert sorted(closed) == [("a", True), ("b", True)]


async def test_used_before_it_is_open() -> None:
    client = Client(Script())
    for use in (client.ping, lambda: client.call_tool("t"), lambda: client.request("tools/list")):
        with pytest.raises(ConnectionLost, match="not open: use `async with"):
            await use()
    with pytest.raises(ConnectionLost, match="not open"):
        _ = client.server


async def test_used_while_it_is_opening() -> None:
    script = Script()
    del script.on["initialize"]
    client = Client(script, version="legacy")
    async with anyio.create_task_group() as group:
        group.start_soon(client.open)
        request = await script.next("initialize")
        with pytest.raises(ConnectionLost, match="not open"):
            await client.ping()
        with pytest.raises(ConfigurationError, match="open already"):
            await client.open()
        script.result(request, script._legacy(LEGACY)["initialize"]({}))
    await client.close()


async def test_closed_while_it_is_opening() -> None:
    script = Script()
    del script.on["initialize"]
    client = Client(script, version="legacy")

    async def open() -> None:
        with pytest.raises(ConnectionLost, match="closed"):
            await client.open()

    async with anyio.create_task_group() as group:
        group.start_soon(open)
        await script.next("initialize")
        await client.close()
    assert script.closed >= 1


async def test_opened_again_after_it_was_closed() -> None:
    client = Client(Server("s"))
    for _ in range(2):
        async with client:
            assert client.version == MODERN
            with pytest.raises(ConfigurationError, match="open already"):
                await client.open()


@pytest.mark.case("G01")
@pytest.mark.parametrize("where", ["transport", "server/discover", "initialize", "notifications/initialized", "listen"])
async def test_opening_that_is_cancelled_leaves_nothing_behind(where: str) -> None:
    reached = anyio.Event()

    async def stop() -> None:
        reached.set()
        await anyio.sleep_forever()

    class Stopping(Script):
        async def open(self, *args: Any) -> None:
            await super().open(*args)
            if where == "transport":
                await stop()

        async def send(self, message: Message) -> None:
            if getattr(message, "method", "") == where:
                await stop()
            await super().send(message)

        async def listen(self) -> None:
            if where == "listen":
                await stop()

    script = Stopping()
    client = Client(script)
    async with anyio.create_task_group() as group:
        group.start_soon(client.open)
        await reached.wait()
        group.cancel_scope.cancel()
    assert script.closed == 1
    connection = client._connection
    assert connection is not None
    assert connection._peer.pending == 0 and connection.nursery.running == 0 and not connection._calls
    await client.close()


@pytest.mark.case("G03")
async def test_opening_that_fails_raises_one_plain_exception() -> None:
    class Refused(Script):
        async def open(self, *args: Any) -> None:
            raise ConnectionFailed("cannot launch 'nope': No such file") from FileNotFoundError("nope")

    script = Refused()
    with pytest.raises(ConnectionFailed, match="nope") as caught:
        async with Client(script):
            raise AssertionError("never entered")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert script.closed == 1


@pytest.mark.case("G03")
async def test_errors_of_a_call_are_plain_exceptions() -> None:
    script = Script(on={"tools/call": ConnectionLost("gone"), "prompts/get": lambda params: 1 // 0})  # type: ignore[dict-item]

    def refuse(params: Json) -> Json:
        raise RpcError(-32602, "Unknown tool")

    script.on["prompts/get"] = refuse
    async with Client(script) as client:
        with pytest.raises(BackchannelError) as caught:
            await client.call_tool("t")
        assert type(caught.value) is OutcomeUnknown
        with pytest.raises(BackchannelError) as caught:
            await client.request("prompts/get")
        assert type(caught.value) is RemoteProtocolError


@pytest.mark.case("G01")
@pytest.mark.parametrize("version", BOTH)
async def test_closed_while_calls_run(version: str) -> None:
    server, ended = Server("s"), []

    @server.tool
    async def wait(ctx: Context, n: int) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(n)

    async def call(number: int) -> None:
        with pytest.raises(ConnectionLost, match="the connection was closed"):
            await client.call_tool("wait", {"n": number})

    client = await Client(MemoryTransport(server), version=version).open()
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(call, number)
        await anyio.wait_all_tasks_blocked()
        await client.close()
    assert sorted(ended) == list(range(20))


# Log messages.


@pytest.mark.rule("R94", "R139")
@pytest.mark.parametrize("capable", [True, False])
async def test_the_log_level_is_set_on_legacy_where_the_server_has_logging(capable: bool) -> None:
    script = Script(on={"logging/setLevel": lambda params: {}}, capabilities={"logging": {}} if capable else {})
    async with Client(script, log_level="info"):
        pass
    assert script.requests("logging/setLevel") == [{"level": "info"}] * capable


async def test_the_log_level_goes_with_each_modern_request() -> None:
    key = "io.modelcontextprotocol/logLevel"
    script = Script(MODERN, {"tools/call": lambda params: DONE})
    async with Client(script, log_level="info") as client:
        await client.call_tool("t")
        await client.call_tool("t", meta={key: "error"})
    assert [params["_meta"][key] for params in script.requests("tools/call")] == ["info", "error"]


@pytest.mark.parametrize("version", BOTH)
async def test_log_messages_reach_the_callback_in_order(version: str, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    def plain(message: LogParams) -> None:
        seen.append((message.level, message.data, message.logger))
        if message.data == 1:
            raise ValueError("callback")

    async def coroutine(message: LogParams) -> None:
        await anyio.lowlevel.checkpoint()
        plain(message)

    for callback in (plain, coroutine):
        seen.clear()
        script = Script(version)
        async with Client(script, log=callback, version=version):
            for number in range(4):
                script.give({"method": "notifications/message", "params": {"level": "info", "data": number}})
            script.give({"method": "notifications/message", "params": {"level": "info"}})
            script.give({"method": "notifications/message"})
            script.give({"method": "notifications/other", "params": {"level": "info", "data": 9}})
            script.give({"method": "notifications/message", "params": {"level": "x", "data": {"a": 1}, "logger": "l"}})
            await anyio.wait_all_tasks_blocked()
        assert seen == [*(("info", number, None) for number in range(4)), ("x", {"a": 1}, "l")]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2


@pytest.mark.rule("R168")
async def test_on_modern_http_nothing_runs_in_the_background() -> None:
    script = Script(MODERN, {"tools/call": lambda params: DONE}, request_streams=True)
    async with Client(script, elicit=str, roots=[], log=str, log_level="info") as client:
        await client.call_tool("t", progress=lambda progress: None)
        assert client._connection is not None
        assert client._connection.nursery._host is None
    assert script.listening == 0


# Lists.


def pages(*cursors: str | None) -> Any:
    """A list of one tool a page, with these as `nextCursor`."""
    asked: list[Json] = []

    def answer(params: Json) -> Json:
        cursor = cursors[min(len(asked), len(cursors) - 1)]
        asked.append(params)
        tool = {"name": f"t{len(asked)}", "inputSchema": {"type": "object"}}
        return {"resultType": "complete", "tools": [tool]} | ({"nextCursor": cursor} if cursor is not None else {})

    return answer


async def test_a_list_is_read_to_its_end_whatever_the_cursors_look_like() -> None:
    """server/utilities/pagination: an empty string is a valid cursor, and so is the same one twice."""
    script = Script(on={"tools/list": pages("a", "", "", "a", None)})
    async with Client(script) as client:
        assert [tool.name async for tool in client.tools()] == ["t1", "t2", "t3", "t4", "t5"]
    assert script.requests("tools/list") == [{}, {"cursor": "a"}, {"cursor": ""}, {"cursor": ""}, {"cursor": "a"}]


async def test_a_list_that_is_not_read_to_its_end_asks_for_no_more() -> None:
    script = Script(on={"tools/list": pages("a")})
    async with Client(script) as client:
        async for tool in client.tools():
            if tool.name == "t2":
                break
    assert len(script.requests("tools/list")) == 2


async def test_a_list_that_never_ends_is_cut_off() -> None:
    script = Script(on={"tools/list": pages("again")})
    async with Client(script) as client:
        with pytest.raises(RemoteProtocolError, match=f"tools/list has not ended after {MAX_PAGES} pages"):
            async for _ in client.tools():
                pass
    assert len(script.requests("tools/list")) == MAX_PAGES


@pytest.mark.parametrize("result", [{}, {"tools": 5}, {"tools": [{}]}, {"tools": [], "nextCursor": 5}])
async def test_a_malformed_list(result: Json) -> None:
    async with Client(Script(on={"tools/list": lambda params: result})) as client:
        with pytest.raises(RemoteProtocolError, match="tools/list is malformed"):
            async for _ in client.tools():
                pass


# Calls.


@pytest.mark.rule("R21")
@pytest.mark.parametrize("result", [{"content": 5}, {"content": [{"type": "text"}]}, {"isError": "yes"}])
@pytest.mark.parametrize("version", BOTH)
async def test_a_malformed_result_of_a_tool(version: str, result: Json) -> None:
    async with Client(Script(version, {"tools/call": lambda params: result}), version=version) as client:
        with pytest.raises(RemoteProtocolError, match="result of 't' is malformed"):
            await client.call_tool("t")


async def test_ping_on_both_eras() -> None:
    script = Script(LEGACY, {"ping": lambda params: {}})
    async with Client(script, version=LEGACY) as client:
        await client.ping()
    assert methods(script)[-1] == "ping"
    script = Script(MODERN)
    async with Client(script) as client:
        await client.ping()
    assert methods(script) == ["server/discover", "server/discover"]


@pytest.mark.case("B14")
async def test_the_limits_of_one_call_go_before_those_of_the_client() -> None:
    async with Client(Script(), timeout=5, total_timeout=60) as client:
        for options, clock, after in (
            ({}, "idle", 5),
            ({"timeout": 2}, "idle", 2),
            ({"total_timeout": 3}, "total", 3),
            ({"timeout": math.inf}, "total", 60),
            ({"timeout": math.inf, "total_timeout": 90}, "total", 90),
        ):
            began = anyio.current_time()
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("t", **options)
            assert (caught.value.clock, anyio.current_time() - began) == (clock, pytest.approx(after))


async def test_without_a_limit_a_call_waits() -> None:
    script = Script()
    async with Client(script, timeout=None) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "t")
        request = await script.next("tools/call")
        await anyio.sleep(80_000)
        script.result(request, DONE)


@pytest.mark.parametrize("rounds", [0, -1])
def test_at_least_one_round(rounds: int) -> None:
    with pytest.raises(ConfigurationError, match="max_rounds"):
        Client(Script(), max_rounds=rounds)


# Roots that change.


async def test_a_legacy_server_is_told_of_other_roots() -> None:
    script = Script()
    async with Client(script, roots=["file:///a"]) as client:
        assert script.requests("initialize")[0]["capabilities"] == {"roots": {"listChanged": True}}
        await client.set_roots(["file:///b"])
        assert script.sent[-1] == {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        script.ask(1, "roots/list")
        assert (await script.next_answer())["result"] == {"roots": [{"uri": "file:///b"}]}
        with pytest.raises(ConfigurationError, match="write"):
            await client.set_roots("/b")
        assert methods(script).count("notifications/roots/list_changed") == 1


@pytest.mark.rule("R93", "R94")
async def test_a_legacy_session_that_began_without_roots_has_none() -> None:
    script = Script()
    async with Client(script) as client:
        with pytest.raises(ConfigurationError, match=r"give roots=\[\]"):
            await client.set_roots(["file:///b"])
        script.ask(1, "roots/list")
        assert (await script.next_answer())["error"]["code"] == -32601


async def test_a_modern_server_asks_when_it_needs_them() -> None:
    key = "io.modelcontextprotocol/clientCapabilities"
    script = Script(MODERN, {"tools/call": lambda params: DONE})
    async with Client(script) as client:
        await client.call_tool("t")
        await client.set_roots(["file:///b"])
        await client.call_tool("t")
    assert [params["_meta"][key] for params in script.requests("tools/call")] == [{}, {"roots": {}}]
    assert "notifications/roots/list_changed" not in methods(script)


async def test_roots_before_open_and_after_close() -> None:
    script = Script()
    client = Client(script)
    await client.set_roots(["file:///a"])
    async with client:
        assert script.requests("initialize")[0]["capabilities"] == {"roots": {"listChanged": True}}
    await client.set_roots([])
    assert "notifications/roots/list_changed" not in methods(script)


# Conversations with a Server in this process.


class Dialogs:
    """A host that shows questions, and knows which are open."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.open: list[str] = []
        self.changed = anyio.Event()

    async def elicit(self, question: Any) -> Any:
        self.shown.append(question.message)
        self.open.append(question.message)
        self.changed.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.open.remove(question.message)
            self.changed.set()

    async def until(self, count: int) -> None:
        with anyio.fail_after(10):
            while len(self.open) != count:
                self.changed = anyio.Event()
                await self.changed.wait()


@asynccontextmanager
async def asking(version: str, dialogs: Dialogs, **options: Any) -> AsyncIterator[Client]:
    server = Server("asking")

    @server.tool
    async def ask_two(ctx: Context) -> str:
        await ctx.gather(ctx.elicit("first?", str), ctx.elicit("second?", str))
        return "answered"

    @server.tool
    async def echo(text: str) -> str:
        return text

    async with Client(MemoryTransport(server), elicit=dialogs.elicit, version=version, **options) as client:
        yield client


@pytest.mark.rule("R41", "R42")
@pytest.mark.case("B16")
@pytest.mark.parametrize("version", BOTH)
async def test_cancelling_a_call_closes_its_dialogs_and_the_next_is_shown(version: str) -> None:
    dialogs = Dialogs()
    async with asking(version, dialogs, max_parallel=2) as client:
        for again in (1, 2):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "ask_two")
                await dialogs.until(2)
                assert dialogs.shown == ["first?", "second?"] * again
                group.cancel_scope.cancel()
            await dialogs.until(0)
        assert (await client.call_tool("echo", {"text": "alive"})).text == "alive"
        connection = client._connection
        assert connection is not None
        assert connection._peer.pending == connection._peer.serving == 0
        await anyio.wait_all_tasks_blocked()
        assert connection.nursery.running == 0


@pytest.mark.case("B16")
@pytest.mark.parametrize("version", BOTH)
async def test_a_call_that_runs_out_of_time_closes_its_dialogs(version: str) -> None:
    dialogs = Dialogs()
    async with asking(version, dialogs) as client:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("ask_two", total_timeout=0.05)
        assert caught.value.clock == "total"
        await dialogs.until(0)


@pytest.mark.case("B11")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("limit", [1, 8])
async def test_handlers_that_call_tools_which_ask(version: str, limit: int) -> None:
    server = Server("nested")

    @server.tool
    async def countdown(ctx: Context, n: int) -> str:
        if n == 0:
            return "0"
        answers = await ctx.gather(*(ctx.elicit(f"{n - 1}", str) for _ in range(2)))
        return f"{n} " + " ".join(answer.unwrap() for answer in answers)

    async def elicit(question: Any) -> Any:
        return {"value": (await client.call_tool("countdown", {"n": int(question.message)})).text}

    async with Client(MemoryTransport(server), elicit=elicit, version=version, max_parallel=limit) as client:
        with anyio.fail_after(20):
            result = await client.call_tool("countdown", {"n": 3})
    assert result.text == "3 2 1 0 0 1 0 0 2 1 0 0 1 0 0"


@pytest.mark.rule("R9")
@pytest.mark.parametrize("version", BOTH)
async def test_a_thousand_calls_at_once(version: str) -> None:
    results: dict[int, str] = {}
    async with asking(version, Dialogs()) as client, anyio.create_task_group() as group:

        async def call(number: int) -> None:
            results[number] = (await client.call_tool("echo", {"text": str(number)})).text

        for number in range(1000):
            group.start_soon(call, number)
    assert results == {number: str(number) for number in range(1000)}


@pytest.mark.case("C01")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("how", ["cancel", "timeout", "outer"])
async def test_a_call_that_is_given_up_ends_the_handler(version: str, how: str) -> None:
    server, running = Server("sleeping"), set()
    changed = anyio.Event()

    @server.tool
    async def sleep(n: int) -> str:
        running.add(n)
        try:
            await anyio.sleep_forever()
        finally:
            running.discard(n)
            if not running:
                changed.set()

    async def call(number: int) -> None:
        if how == "timeout":
            with pytest.raises(RequestTimeout):
                await client.call_tool("sleep", {"n": number}, timeout=0.2)
        elif how == "outer":
            with anyio.move_on_after(0.2):
                await client.call_tool("sleep", {"n": number})
        else:
            await client.call_tool("sleep", {"n": number})

    async with Client(MemoryTransport(server), version=version) as client:
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(call, number)
            if how == "cancel":
                await anyio.wait_all_tasks_blocked()
                assert len(running) == 50
                group.cancel_scope.cancel()
        with anyio.fail_after(10):
            while running:
                await changed.wait()
        connection = client._connection
        assert connection is not None and connection._peer.pending == 0


@pytest.mark.rule("R19", "R35")
@pytest.mark.case("B05")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(
    ("handlers", "declared"),
    [
        ({}, {}),
        ({"roots": []}, {"roots": {}}),
        (
            {"elicit": str, "elicit_url": str, "sample": str, "roots": []},
            {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}},
        ),
    ],
)
async def test_the_server_sees_the_capabilities_that_have_handlers(
    version: str, handlers: dict[str, Any], declared: Json
) -> None:
    server = Server("s")

    @server.tool
    async def capabilities(ctx: Context) -> str:
        return json.dumps(ctx.client.capabilities)

    async with Client(MemoryTransport(server), version=version, **handlers) as client:
        seen = json.loads((await client.call_tool("capabilities")).text)
    if "roots" in seen and version == LEGACY:
        assert seen["roots"] == {"listChanged": True}
        seen["roots"] = {}
    assert seen == declared


@pytest.mark.case("B11")
@pytest.mark.parametrize("version", BOTH)
async def test_a_second_client_in_a_handler_of_the_first_has_a_limit_of_its_own(version: str) -> None:
    """What a handler asks of another server does not count as asked by its own."""
    running = peak = 0

    async def model(question: Any) -> str:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await anyio.wait_all_tasks_blocked()
        running -= 1
        return "x"

    server = Server("s")

    @server.tool
    async def sample_many(ctx: Context) -> str:
        return " ".join(answer.text for answer in await ctx.gather(*(ctx.sample(str(n)) for n in range(6))))

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("?", str)).unwrap()

    async def elicit(question: Any) -> Any:
        async with Client(MemoryTransport(server), sample=model, version=version, max_parallel=2) as inner:
            return {"value": (await inner.call_tool("sample_many")).text}

    async with Client(MemoryTransport(server), elicit=elicit, version=version) as outer:
        assert (await outer.call_tool("ask")).text == "x x x x x x"
    assert peak == 2
