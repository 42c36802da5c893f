"""A server on a real socket of this machine."""

import asyncio
import sys

import pytest

from backchannel import Client, ConfigurationError
from backchannel.testing.loopback import loopback
from tests.testing.shop import server

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def test_it_listens_for_as_long_as_the_block_lasts() -> None:
    async with loopback(server) as url:
        host, port = url.removeprefix("http://").removesuffix("/mcp").split(":")
        assert host == "127.0.0.1"
        for version in ("legacy", "modern"):
            async with Client(url, version=version, elicit=lambda _: {"size": "M"}) as client:
                assert (await client.call_tool("order_in_a_thread")).text == "M"
        _, idle = await asyncio.open_connection(host, int(port))
    with pytest.raises(OSError):
        await asyncio.open_connection(host, int(port))
    idle.close()


async def test_two_at_once_have_ports_of_their_own() -> None:
    async with loopback(server) as one, loopback(server) as other:
        assert one != other


async def test_without_uvicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigurationError, match="extra"):
        async with loopback(server):
            pass
