"""Programs that call a protected server for themselves, with nobody to log in.

One shows a secret, one signs with a key and has its tokens bound to another one (DPoP), so that a stolen token is of no
use, and one shows what its platform has issued to it. An `AuthServer` stands in for the company's authorization server.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from backchannel import (
    BearerAuth,
    Client,
    ClientCredentials,
    Context,
    DPoP,
    PrivateKey,
    Server,
    WorkloadIdentity,
    http_app,
)
from backchannel.testing import AuthServer
from backchannel.testing.auth import serving

PLATFORM = "https://cluster.example.com"
server = Server("reports")


@server.tool
async def who(ctx: Context) -> str:
    """Tell who calls."""
    assert ctx.principal is not None
    return f"{ctx.principal.subject}{' with a bound token' if 'cnf' in ctx.principal.claims else ''}"


def protected(url: str, issuer: str) -> Any:
    """The app at a URL, for those that the issuer lets in."""
    return http_app(server, auth=BearerAuth(issuer=issuer, resource=url, dpop=DPoP()))


async def main() -> None:
    """Serve, and call in three ways."""
    key, cluster = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    company = AuthServer()
    company.add_client("nightly", "a secret")
    company.add_client("billing", jwks={"keys": [key.as_dict(private=False)]})
    company.trust(PLATFORM, {"keys": [cluster.as_dict(private=False)]})
    async with company.running() as issuer, serving(make=lambda origin: protected(f"{origin}/mcp", issuer)) as origin:

        def issued() -> str:
            """What a platform puts into a file that it keeps up to date."""
            claims = {"iss": PLATFORM, "sub": "pod:etl", "aud": issuer, "exp": int(time.time()) + 60}
            return jwt.encode({"alg": "ES256"}, claims, cluster)

        for auth in (
            ClientCredentials("nightly", "a secret"),
            ClientCredentials("billing", private_key=PrivateKey(key.as_dict(private=True)), dpop=True),
            WorkloadIdentity(issued),
        ):
            async with Client(f"{origin}/mcp", auth=auth) as client:
                print((await client.call_tool("who")).text)
    assert company.count("authorize") == company.count("register") == 0


if __name__ == "__main__":
    asyncio.run(main())
