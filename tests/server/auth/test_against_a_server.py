"""With an authorization server that is really there: its keys, its answers and its proofs come over the network."""

from __future__ import annotations

import pytest

from backchannel import Context, Server
from backchannel.server.auth.bearer import BearerAuth
from backchannel.server.auth.dpop import DPoP
from backchannel.server.auth.introspection import Introspection
from backchannel.testing.auth import AuthServer, Misbehaviour
from tests.server.auth.issuing import key, proof
from tests.server.http.wire import call, request, text, wire

pytestmark = pytest.mark.anyio
RESOURCE = "http://localhost/mcp"


def bank() -> Server:
    server = Server("bank")

    @server.tool(scopes=["pay"])
    async def pay(ctx: Context) -> str:
        assert ctx.principal is not None
        return f"paid by {ctx.principal.subject}"

    return server


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
@pytest.mark.parametrize("tenant", ["", "/tenant"])
async def test_signed_tokens(algorithm: str, tenant: str) -> None:
    there = AuthServer(f"https://auth.test{tenant}", algorithm=algorithm)
    async with there.running() as issuer:
        async with wire(bank(), auth=BearerAuth(issuer=issuer, audience=RESOURCE)) as server:
            good = there.issue(audience=RESOURCE, scopes=["pay"])
            response = await server.modern(call("pay"), authorization=f"Bearer {good}")
            assert text(await response.json()) == "paid by alice"
            for bad in (
                *(there.issue(audience=RESOURCE, forged=how) for how in ("none", "public_key", "other_key")),
                there.issue(audience=RESOURCE, expires_in=-60),
                there.issue(audience="https://other.test"),
                there.issue(audience=RESOURCE, kind="oauth-id-jag+jwt"),
                there.id_token(client=RESOURCE, typ="x") + "x",
            ):
                assert (await server.modern(request("tools/list"), authorization=f"Bearer {bad}")).status == 401
            little = there.issue(audience=RESOURCE)
            assert (await server.modern(call("pay"), authorization=f"Bearer {little}")).status == 403


async def test_opaque_tokens() -> None:
    there = AuthServer(opaque=True)
    there.add_client("bank", "the bank's secret")
    async with there.running() as issuer:
        auth = BearerAuth(
            issuer=issuer, audience=RESOURCE, introspection=Introspection("bank", "the bank's secret", cache=0)
        )
        async with wire(bank(), auth=auth) as server:
            token = there.issue(audience=RESOURCE, scopes=["pay"])
            response = await server.modern(call("pay"), authorization=f"Bearer {token}")
            assert text(await response.json()) == "paid by alice"
            for bad in ("made-up", there.issue(audience="https://other.test"), there.issue(expires_in=-60)):
                assert (await server.modern(call("pay"), authorization=f"Bearer {bad}")).status == 401
            there.misbehaviour = Misbehaviour(introspection_fails=True)
            assert (await server.modern(call("pay"), authorization=f"Bearer {token}")).status == 503


async def test_bound_tokens() -> None:
    there, pair = AuthServer(), key("client")
    async with there.running() as issuer:
        auth = BearerAuth(issuer=issuer, audience=RESOURCE, dpop=DPoP(required=True, nonces=300))
        async with wire(bank(), auth=auth) as server:
            token = there.issue(audience=RESOURCE, scopes=["pay"], key=pair.thumbprint())
            now = there.now()

            async def ask(**claims: str) -> tuple[int, dict[str, str]]:
                given = proof(pair, token, now, htu=RESOURCE, **claims)
                response = await server.modern(call("pay"), authorization=f"DPoP {token}", dpop=given)
                await response.body()
                return response.status, response.headers

            status, headers = await ask(jti="1")
            assert status == 401 and 'error="use_dpop_nonce"' in headers["www-authenticate"]
            assert (await ask(jti="2", nonce=headers["dpop-nonce"]))[0] == 200
            assert (await ask(jti="2", nonce=headers["dpop-nonce"]))[0] == 401
            assert (await server.modern(call("pay"), authorization=f"Bearer {token}")).status == 401


async def test_keys_that_change() -> None:
    there = AuthServer()
    async with there.running() as issuer:
        async with wire(bank(), auth=BearerAuth(issuer=issuer, audience=RESOURCE)) as server:
            for _ in range(2):
                token = there.issue(audience=RESOURCE, scopes=["pay"])
                assert (await server.modern(call("pay"), authorization=f"Bearer {token}")).status == 200
                there.keys.rotate()
