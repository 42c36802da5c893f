"""Handlers that are done when they are called: which these are, and that they are answered as any other."""

import asyncio
import functools
import itertools
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from backchannel import (
    Client,
    ConfigurationError,
    Context,
    Elicit,
    ElicitUrl,
    InputRequired,
    RemoteProtocolError,
    Server,
    UrlRequired,
)
from backchannel.server.tools import ToolHandler
from backchannel.testing import connect
from tests.server.replay import MODERN, both_eras, driver, text

pytestmark = pytest.mark.anyio
every_wire = pytest.mark.parametrize(
    ("wire", "version"), [*itertools.product(["memory", "stdio", "http"], ["2025-11-25", "2026-07-28"])]
)
asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # which HTTP is served on


async def items() -> AsyncIterator[int]:
    yield 1


async def nothing() -> int:
    return 1


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class Shop:
    async def open(self, day: int) -> int:
        return day

    async def __call__(self, day: int) -> int:
        return day


async def plain(a: int) -> int:
    return a


async def inner(a: int) -> list[int]:
    def twice(b: int) -> Any:
        yield b

    return [each for each in twice(a)]


async def waits() -> int:
    return await nothing()


async def loops() -> int:
    async for item in items():
        return item
    return 0


async def enters() -> int:
    async with asyncio.Lock():
        return 1


async def collects() -> list[int]:
    return [item async for item in items()]


async def knows(ctx: Context) -> int:
    return 1


async def asks(sure: Annotated[bool, Elicit("Sure?")]) -> bool:
    return sure


def threaded() -> int:
    return 1


@pytest.mark.parametrize("function", [plain, inner, functools.partial(plain, 1), Shop().open])
def test_what_has_nothing_to_wait_for_is_done_at_once(function: Any) -> None:
    assert ToolHandler(function, name="it").at_once


@pytest.mark.parametrize(
    "function",
    [waits, loops, enters, collects, knows, asks, threaded, wrapped(plain), Shop(), functools.partial(waits)],
)
def test_what_may_wait_or_ask_is_not(function: Any) -> None:
    assert not ToolHandler(function, name="it").at_once


def test_a_function_can_be_run_in_the_event_loop() -> None:
    handler = ToolHandler(threaded, inline=True)
    assert handler.at_once and not handler.threaded
    with pytest.raises(ConfigurationError, match="inline= is for functions that are not async"):
        ToolHandler(plain, inline=True)


def server() -> Server:
    shop = Server("shop")
    shop.add_tool(plain, timeout=0.001)

    @shop.tool(inline=True)
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    @shop.tool(inline=True)
    def who(ctx: Context) -> str:
        return str(ctx.client.name)

    @shop.tool
    async def calls() -> int:
        return shop.gauges().calls

    @shop.tool
    async def fails() -> int:
        raise OSError("secret")

    @shop.tool
    async def quits() -> int:
        raise asyncio.CancelledError

    @shop.tool(visible=lambda principal: False)
    async def hidden() -> int:
        return 1

    return shop


@every_wire
@asyncio_only
async def test_it_is_answered_as_any_other(wire: Any, version: str, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(server(), wire=wire, era=version) as client:
        assert (await client.call_tool("plain", {"a": 2})).text == "2"
        assert (await client.call_tool("where")).text == "true"
        assert (await client.call_tool("who")).text == "backchannel"
        assert (await client.call_tool("calls")).text == "1"
        wrong = await client.call_tool("plain", {"a": "two"})
        assert wrong.is_error and "a: expected integer" in wrong.text
        with caplog.at_level(logging.CRITICAL):
            failed = await client.call_tool("fails")
        assert failed.is_error and "secret" not in failed.text
        for name in ("hidden", "nowhere"):
            with pytest.raises(RemoteProtocolError, match="Unknown tool"):
                await client.call_tool(name)
        assert (await client.call_tool("quits")).is_error
        assert (await client.call_tool("plain", {"a": 3})).text == "3"


@every_wire
@asyncio_only
async def test_what_it_asks_in_the_end_is_asked(wire: Any, version: str) -> None:
    """It has run once then, and is not run again for the same round."""
    shop, ran, visited = Server("shop"), list[str](), list[str]()

    @shop.tool
    async def pays() -> str:
        ran.append("pays")
        if not visited:
            raise UrlRequired(ElicitUrl("Pay first.", "https://pay.example/1", until=lambda: bool(visited)))
        return "paid"

    @shop.tool
    async def returns() -> str | InputRequired:
        ran.append("returns")
        if len(visited) == 1:
            return InputRequired({"size": Elicit("Which size?", str)})
        return f"returned {len(visited) - 1}"

    def answer(question: Any) -> Any:
        visited.append(question.message)
        return {"value": "large"}

    def visit(page: Any) -> bool:
        visited.append(page.message)
        return True

    async with connect(shop, elicit=answer, elicit_url=visit, wire=wire, era=version) as client:
        assert (await client.call_tool("pays")).text == "paid"
        assert (ran, visited) == (["pays", "pays"], ["Pay first."])
        assert (await client.call_tool("returns")).text == "returned 1"
        assert (ran, visited) == (["pays", "pays", "returns", "returns"], ["Pay first.", "Which size?"])


@both_eras
async def test_it_does_not_begin_once_it_is_cancelled(version: str) -> None:
    ran = list[int]()
    shop = Server("shop")

    @shop.tool
    async def note() -> None:
        ran.append(1)

    async with driver(shop, version) as wire:
        exchange = wire.tool("note")
        exchange.cancel()
        await wire.serve(exchange)
        assert not ran
        await wire.call("note")
        assert ran == [1]


async def test_middleware_goes_around_it() -> None:
    shop = server()

    @shop.middleware
    async def twice(context: Any, call_next: Any) -> Any:
        result = await call_next(context)
        if context.method == "tools/call":
            result.content = result.content * 2
        return result

    async with Client(shop) as client:
        assert (await client.call_tool("plain", {"a": 2})).text == "2\n2"


async def test_it_is_refused_as_any_other() -> None:
    async with driver(server(), MODERN) as wire:
        meta = wire.tool("plain", {"a": 2}).params.meta
        for level, problem in ("loud", "unknown log level 'loud'"), ("debug", None):
            exchange = wire.tool("plain", {"a": 2})
            exchange.params.meta = msgspec.structs.replace(meta, log_level=level)
            await wire.serve(exchange)
            response = await wire.next()
            assert problem in response["error"]["message"] if problem else text(response) == "2"
        await wire.serve(wire.tool("plain", {"a": 2}, requestState="forged"))
        assert (await wire.next())["error"]["message"] == "Invalid or expired requestState"


async def test_calls_without_end_let_others_have_their_turn() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with Client(server(), version="2026-07-28") as client, anyio.create_task_group() as group:
        group.start_soon(others)
        for _ in range(200):
            await client.call_tool("plain", {"a": 1})
        assert turns > 5
        group.cancel_scope.cancel()
