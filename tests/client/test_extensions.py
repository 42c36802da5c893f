"""Extensions that a server declares and this client does not know."""

from typing import Any

import pytest

from backchannel import Client, Context, Server
from tests.client.scripted import BOTH

pytestmark = pytest.mark.anyio


@pytest.mark.rule("R148", "R149", "R150")
@pytest.mark.parametrize("version", BOTH)
async def test_unknown_extensions_do_no_harm_and_keep_their_settings(version: str) -> None:
    settings = {"acme/plain": {}, "acme/deep": {"a": [1, {"b": None}], "c": "d"}}
    server = Server("s", extensions=settings)
    server.add_tool(lambda: "fine", name="t")

    @server.method("acme/thing", extension="acme/things")
    async def thing(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {"got": params["q"]}

    async with Client(server, version=version) as client:
        assert client.server.capabilities["extensions"] == {**settings, "acme/things": {}}
        assert (await client.call_tool("t")).text == "fine"
        assert b'"got":[1]' in bytes(await client.request("acme/thing", {"q": [1]}))


@pytest.mark.rule("R148")
@pytest.mark.parametrize("version", BOTH)
async def test_a_server_without_extensions_declares_none(version: str) -> None:
    async with Client(Server("s"), version=version) as client:
        assert "extensions" not in client.server.capabilities
