"""Our own client logs in to a server that is protected, and steps up for a tool that needs more."""

from __future__ import annotations

import aiohttp
import anyio
import pytest

from backchannel import BearerAuth, Client, DPoP, Loopback, OAuth, http_app
from backchannel.server.http.listen import bind
from backchannel.testing.auth import AuthServer, serving
from tests.server.auth.bank import bank

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("dpop", [False, True], ids=["bearer", "dpop"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_one_login_and_one_step_up(version: str, dpop: bool) -> None:
    there, listener = AuthServer(scopes=["read", "pay"]), bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"

    async def agree(page: str) -> None:
        """What a person with a browser would do."""
        async with aiohttp.ClientSession() as browser, browser.get(there.visit(page)) as response:
            assert response.status == 200

    with anyio.fail_after(30):
        async with there.running() as issuer:
            proofs = DPoP(required=True, nonces=300) if dpop else None
            auth = BearerAuth(issuer=issuer, resource=url, scopes=["read"], dpop=proofs)
            async with serving(http_app(bank(), auth=auth), listener):
                login = OAuth(client_name="test", redirect=Loopback(show=agree), dpop=dpop)
                async with Client(url, version=version, auth=login) as client:
                    said = [(await client.call_tool(tool)).text for tool in ("whoami", "pay", "pay")]
    assert said == ["alice", "paid", "paid"]
    assert [one["scope"] for one in there.seen("authorize")] == ["read", "read pay"]
