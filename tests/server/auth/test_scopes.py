"""Scopes that imply others."""

import pytest

from backchannel import ConfigurationError, Principal, Server
from backchannel.protocol.http import Legacy, read_accept
from backchannel.protocol.jsonrpc import decode
from backchannel.server.auth.needs import needed
from backchannel.server.auth.scopes import Hierarchy, written
from tests.server.replay import driver, text

ADA = Principal("ada", scopes=frozenset({"read"}))


def test_what_implies_what_goes_all_the_way_and_round() -> None:
    hierarchy = Hierarchy({"a": ["b", "c"], "b": ["d"], "d": ["a"]})
    assert hierarchy.all_of(frozenset({"a"})) == {"a", "b", "c", "d"}
    assert hierarchy.all_of(frozenset({"c", "x"})) == {"c", "x"}
    assert Hierarchy({}).all_of(frozenset()) == frozenset()
    with pytest.raises(ConfigurationError, match="implies"):
        Hierarchy({"a": "b c"})


def test_they_are_written_in_one_order() -> None:
    assert written({"b", "a", "c"}) == "a b c"


def shop() -> Server:
    server = Server("shop")

    @server.tool(scopes=["write"])
    async def save() -> str:
        return "saved"

    return server


@pytest.mark.parametrize(
    ("body", "scopes"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"save","arguments":{}}}', {"write"}),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"save"}}', set()),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}', set()),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":3}}', set()),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', set()),
        (b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"save"}}', set()),
        (b'[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"save"}},{"x":1}]', {"write"}),
        (b"{", set()),
    ],
)
def test_what_a_message_needs(body: bytes, scopes: set[str]) -> None:
    verdict = Legacy(decode(body), None, None, read_accept(None))
    assert needed(verdict, shop().tools, ADA) == scopes


@pytest.mark.anyio
async def test_on_other_channels_a_principal_needs_its_scopes_too() -> None:
    for scopes in ({"read"}, {"read", "write"}):
        async with driver(shop(), principal=Principal("ada", scopes=frozenset(scopes))) as client:
            response = await client.call("save")
            if "write" in scopes:
                assert text(response) == "saved"
            else:
                assert response["error"] == {"code": -32600, "message": "Insufficient scope: it needs write"}
    async with driver(shop()) as client:
        assert text(await client.call("save")) == "saved"
