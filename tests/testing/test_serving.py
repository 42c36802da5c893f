"""An ASGI app on a real socket of this machine."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from backchannel import Client, ConfigurationError, Server, http_app
from backchannel.testing.serving import serving
from tests.testing.shop import server

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def test_it_listens_for_as_long_as_the_block_lasts() -> None:
    async with serving(http_app(server)) as origin:
        host, port = origin.removeprefix("http://").split(":")
        assert host == "127.0.0.1"
        for version in ("legacy", "modern"):
            async with Client(f"{origin}/mcp", version=version, elicit=lambda _: {"size": "M"}) as client:
                assert (await client.call_tool("order_in_a_thread")).text == "M"
    with pytest.raises(OSError):
        await asyncio.open_connection(host, int(port))


async def test_an_app_may_be_made_for_its_origin() -> None:
    known: list[str] = []

    def make(where: str) -> Any:
        known.append(where)
        return http_app(server)

    async with serving(make=make) as origin, Client(f"{origin}/mcp") as client:
        assert known == [origin]
        assert client.server.info is not None and client.server.info.name == "shop"


async def test_an_app_that_does_not_start() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    with pytest.raises(ConfigurationError, match="start"):
        async with serving(app):
            pass


@pytest.mark.parametrize("fails", ["start", "end"])
async def test_what_the_lifespan_of_a_server_raises_comes_out(fails: str) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        if fails == "start":
            raise ZeroDivisionError
        yield
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with serving(http_app(Server("s", lifespan=lifespan))) as origin:
            assert fails == "end"
    if fails == "end":
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", int(origin.rpartition(":")[2]))


async def test_without_uvicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigurationError, match="extra"):
        async with serving(http_app(server)):
            pass
