"""Middleware around the requests of a server: an onion, for every kind of request, in both eras."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import ConfigurationError, Context, Server, ToolError
from backchannel.testing import connect
from tests.server.replay import Driver, both_eras, driver, failed, text

pytestmark = pytest.mark.anyio
Next = Callable[[Context], Awaitable[Any]]


def onion(server: Server, *names: str) -> list[str]:
    """Add a middleware of each name. Returns what they will note: when they are entered, and when they are left."""
    notes: list[str] = []
    for name in names:

        @server.middleware
        async def middleware(ctx: Context, call_next: Next, name: str = name) -> Any:
            notes.append(f"{name} in")
            try:
                return await call_next(ctx)
            finally:
                notes.append(f"{name} out")

    return notes


async def ask(wire: Driver, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    exchange = wire.exchange(method, params or {})
    await wire.serve(exchange)
    return await wire.until(lambda message: message.get("id") == exchange.request.id)


@pytest.mark.rule("R131")
@both_eras
async def test_the_first_is_outermost_and_the_result_passes_in_reverse(version: str) -> None:
    server = Server("test")
    server.add_tool(lambda: "done", name="fine")

    @server.tool
    def fails() -> str:
        raise ToolError("no")

    notes = onion(server, "first", "second", "third")
    async with driver(server, version) as wire:
        notes.clear()
        order = ["first in", "second in", "third in", "third out", "second out", "first out"]
        assert text(await wire.call("fine")) == "done"
        assert notes == order
        notes.clear()
        assert failed(await wire.call("fails")) == "no"
        assert notes == order


@pytest.mark.rule("R131")
@both_eras
async def test_one_may_answer_by_itself(version: str) -> None:
    server, ran = Server("test"), []
    server.add_tool(lambda: str(ran.append("tool")), name="t")

    @server.middleware
    async def closed(ctx: Context, call_next: Next) -> Any:
        return "closed" if ctx.exchange.name == "tools/call" and not ran else await call_next(ctx)

    notes = onion(server, "inner")
    async with driver(server, version) as wire:
        notes.clear()
        assert text(await wire.call("t")) == "closed"
        assert (ran, notes) == ([], [])
        ran.append("Monday")
        assert text(await wire.call("t")) == "None"
        assert (ran, notes) == (["Monday", "tool"], ["inner in", "inner out"])


@pytest.mark.rule("R131")
@both_eras
async def test_calls_at_the_same_time_go_through_it_each_for_itself(version: str) -> None:
    server, inside, go = Server("test"), [], anyio.Event()
    passed: dict[Any, Any] = {}

    @server.tool
    async def t(name: str) -> str:
        inside.append(name)
        if len(inside) == 3:
            go.set()
        await go.wait()
        return name

    @server.middleware
    async def note(ctx: Context, call_next: Next) -> Any:
        id, result = ctx.exchange.request.id, await call_next(ctx)
        passed[ctx.exchange.request.id] = (id, result)
        return result

    async with driver(server, version, {}) as wire:
        exchanges = {name: wire.tool("t", {"name": name}) for name in "abc"}
        async with anyio.create_task_group() as group:
            for exchange in exchanges.values():
                group.start_soon(wire.serve, exchange)
        answers = [await wire.next() for _ in exchanges]
        assert {answer["id"]: text(answer) for answer in answers} == {
            exchange.request.id: name for name, exchange in exchanges.items()
        }
        for name, exchange in exchanges.items():
            id, result = passed[exchange.request.id]
            assert (id, result.text) == (exchange.request.id, name)


@pytest.mark.rule("R132")
@both_eras
async def test_every_kind_of_request_goes_through_it_and_notifications_do_not(version: str) -> None:
    server, seen = Server("test"), []
    server.add_tool(lambda: "", name="t")
    server.add_prompt(lambda a="": "", name="p")
    server.add_resource(lambda: "", "r://1", name="r")
    server.completion("p", "a")(lambda value: [])

    @server.method("acme/thing")
    async def thing(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    @server.middleware
    async def note(ctx: Context, call_next: Next) -> Any:
        result = await call_next(ctx)
        seen.append(type(result).__name__)
        return result

    requests: dict[str, dict[str, Any]] = {
        "tools/list": {},
        "tools/call": {"name": "t", "arguments": {}},
        "prompts/list": {},
        "prompts/get": {"name": "p"},
        "resources/list": {},
        "resources/templates/list": {},
        "resources/read": {"uri": "r://1"},
        "completion/complete": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
        "acme/thing": {},
    }
    async with driver(server, version) as wire:
        for method, params in requests.items():
            seen.clear()
            assert "result" in await ask(wire, method, params), method
            assert len(seen) == 1, method
        seen.clear()
        wire.tell("notifications/cancelled", {"requestId": 1})
        wire.tell("acme/told")
        assert seen == []


async def generator(ctx: Context, call_next: Next) -> Any:
    yield await call_next(ctx)


@pytest.mark.parametrize(
    ("middleware", "wanted"),
    [
        (lambda ctx: None, r"the middleware <lambda>\(\) has to take \(ctx, call_next\)"),
        (generator, r"the middleware generator\(\) is a generator: .* return await call_next\(ctx\)"),
        ("no", "is a function, not str"),
    ],
)
def test_what_is_no_middleware(middleware: Any, wanted: str) -> None:
    server = Server("test")
    with pytest.raises(ConfigurationError, match=wanted):
        server.middleware(middleware)
    assert not server.middlewares


async def gives_nothing(ctx: Context, call_next: Next) -> None:
    await call_next(ctx)


async def awaits_nothing(ctx: Context, call_next: Next) -> Any:
    return call_next(ctx)


def sync(ctx: Context, call_next: Next) -> None:
    return None


@pytest.mark.parametrize("middleware", [gives_nothing, awaits_nothing, sync])
async def test_one_that_returns_no_result_is_named(middleware: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")
    server.add_tool(lambda: "done", name="t")
    async with driver(server) as wire:
        server.middleware(middleware)
        failed(await wire.call("t"))
    assert f"the middleware {middleware.__name__}() returned" in caplog.text
    assert "return await call_next(ctx)" in caplog.text


async def test_one_that_is_not_async_may_pass_on_what_comes_from_further_in() -> None:
    server = Server("test")
    server.add_tool(lambda: "done", name="t")
    server.middleware(lambda ctx, call_next: call_next(ctx))
    async with driver(server) as wire:
        assert text(await wire.call("t")) == "done"


async def test_a_raw_method_that_returns_nothing_is_named(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.method("acme/thing")
    async def thing(ctx: Context, params: dict[str, Any]) -> None: ...

    async with driver(server) as wire:
        assert "error" in await ask(wire, "acme/thing")
    assert "thing() returned None" in caplog.text


@pytest.mark.rule("R41", "R131")
@pytest.mark.parametrize("wire", ["memory", "stdio", "http"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # which HTTP is served on
async def test_what_waits_in_middleware_is_cancelled_with_its_call(wire: Any, version: str, when: str) -> None:
    server, waits, ended, ran = Server("test"), anyio.Event(), anyio.Event(), list[str]()

    @server.middleware
    async def patient(ctx: Context, call_next: Next) -> Any:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        result = await call_next(ctx) if when == "after" else None
        waits.set()
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            ran.append(type(error).__name__)
            raise
        finally:
            ended.set()
        return result

    @server.tool
    async def tool() -> None:
        ran.append("tool")
        await anyio.lowlevel.checkpoint()

    async with connect(server, wire=wire, era=version) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "tool")
        with anyio.fail_after(10):
            await waits.wait()
            group.cancel_scope.cancel()
    with anyio.fail_after(10):
        await ended.wait()
    assert ran == (["tool"] if when == "after" else []) + ["CancelledError"]
