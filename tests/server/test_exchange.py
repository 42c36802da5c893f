"""Principal, and what an exchange leaves behind."""

import itertools
from typing import Any

import anyio
import pytest

from backchannel import Context, Principal, Server
from backchannel.server.channel import INTRODUCTION
from tests.server.replay import LEGACY, both_eras, driver

pytestmark = pytest.mark.anyio


def test_no_two_principals_have_one_key() -> None:
    parts = ["", "a", "a\n", "\na", "a\nb", '","', "\\", "\ud800"]
    keys = {Principal(*three).key for three in itertools.product(parts, repeat=3)}
    assert len(keys) == len(parts) ** 3


async def test_what_outlives_a_request_does_not_keep_its_bytes() -> None:
    async with driver(Server("s"), LEGACY) as wire:
        exchange = wire.tool("x", {"large": "x" * 100})
        detached = exchange.detached(wire.session)
        assert exchange.request.params is not None
        assert detached.request.params is None and detached.request.id == exchange.request.id
        assert detached.target == "x"
        wire.session.peer.finish(exchange.request.id, exchange)


@both_eras
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("method", ["acme/wait", "completion/complete"])
async def test_what_the_client_cancels_is_cancelled(method: str, early: bool, version: str) -> None:
    server, begun, ended = Server("s"), anyio.Event(), list[str]()

    async def wait() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("waiting")

    @server.method("acme/wait")
    async def acme(ctx: Context, params: Any) -> dict[str, Any]:
        await wait()
        return {}

    @server.prompt
    async def greet(name: str) -> str:
        return name

    @server.completion("greet", "name")
    async def names(value: str) -> list[str]:
        await wait()
        return []

    async with driver(server, version) as wire, anyio.create_task_group() as group:
        params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": ""}}
        exchange = wire.exchange(method, params if method == "completion/complete" else {})
        if early:
            exchange.cancel()
        group.start_soon(wire.serve, exchange)
        if not early:
            await begun.wait()
            exchange.cancel()
    assert ended == ["waiting"] * begun.is_set() and exchange.finished


async def test_the_introduction_of_a_client_has_a_bound() -> None:
    async with driver(Server("s"), LEGACY, capabilities={"experimental": {"x": "x" * (INTRODUCTION - 500)}}) as wire:
        assert wire.session.ready
    with pytest.raises(Exception, match=f"initialize takes at most {INTRODUCTION} bytes"):
        async with driver(Server("s"), LEGACY, capabilities={"experimental": {"x": "x" * INTRODUCTION}}):
            pass
