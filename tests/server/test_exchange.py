"""Principal, and what an exchange leaves behind."""

import itertools

import pytest

from backchannel import Principal, Server
from backchannel.server.channel import INTRODUCTION
from tests.server.replay import LEGACY, driver

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


async def test_the_introduction_of_a_client_has_a_bound() -> None:
    async with driver(Server("s"), LEGACY, capabilities={"experimental": {"x": "x" * (INTRODUCTION - 500)}}) as wire:
        assert wire.session.ready
    with pytest.raises(Exception, match=f"initialize takes at most {INTRODUCTION} bytes"):
        async with driver(Server("s"), LEGACY, capabilities={"experimental": {"x": "x" * INTRODUCTION}}):
            pass
