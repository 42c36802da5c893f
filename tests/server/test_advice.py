"""The advice to an author whose handler does something before it asks."""

import functools
import logging
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Context, Server
from tests.server.replay import YES, driver, text

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.advice._seen", weakref.WeakSet())


log = logging.getLogger("tests")
SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


def send_mail() -> None: ...


async def create_order() -> None: ...


async def calls(ctx: Context) -> str:
    send_mail()  # here
    return repr(await ctx.confirm("sure?"))


async def awaits(ctx: Context) -> str:
    """Its docstring is no call."""
    if ctx.round:
        await create_order()  # here
    send_mail()
    return repr(await ctx.confirm("sure?"))


def in_a_thread(ctx: Context) -> str:
    for _ in range(2):
        anyio.from_thread.run(create_order)  # here
    return repr(ctx.confirm("sure?").wait())


def decorator(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapped(context: Context) -> str:
        return str(await function(context))

    return wrapped


@decorator
async def decorated(context: Context) -> str:
    await context.step("create", create_order)
    send_mail()  # here
    return repr(await context.confirm("sure?"))


class Shop:
    async def method(self, ctx: Context) -> str:
        send_mail()  # here
        return repr(
            await ctx.confirm(
                "sure?",
            )
        )


async def harmless(ctx: Context) -> str:
    """Nothing to say."""
    names: list[str] = []
    names.append("x")
    print("starting")
    log.info("starting")
    await anyio.lowlevel.checkpoint()
    await ctx.step("create", create_order)
    await ctx.progress(1)
    started = sorted(names)

    async def inner() -> None:
        send_mail()

    answer = await ctx.confirm(f"sure, {started}?")
    await inner()
    send_mail()
    return repr(answer)


async def elsewhere(ctx: Context) -> str:
    send_mail()
    return await harmless(ctx)


made_up: dict[str, Any] = {}
exec("async def no_source(ctx):\n    send()\n    return repr(await ctx.confirm('sure?'))", {"send": send_mail}, made_up)
no_source = made_up["no_source"]
no_source.__annotations__ = {"ctx": Context}


@pytest.mark.case("A21")
@pytest.mark.parametrize("handler", [calls, awaits, in_a_thread, decorated, Shop().method])
async def test_what_is_done_before_a_question_is_named_once(
    handler: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("test")
    server.add_tool(handler, name="tool")
    async with driver(server) as wire:
        for _ in range(2):
            assert text(await wire.rounds("tool", lambda *_: YES)) == "True"
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("backchannel.server", logging.WARNING)
    place = record.getMessage().split(": ")[0].rpartition(":")
    assert place[0] == __file__ and SOURCE[int(place[2]) - 1].endswith("# here")
    assert "await ctx.step('" in record.getMessage()


@pytest.mark.parametrize("handler", [harmless, elsewhere, no_source])
async def test_there_is_nothing_to_say(handler: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")
    server.add_tool(handler, name="tool")
    async with driver(server) as wire:
        assert text(await wire.rounds("tool", lambda *_: YES)) == "True"
    assert not caplog.records
