"""A server of ours, and who issues the tokens for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from backchannel import Context, Server, http_app
from backchannel.server.auth.bearer import BearerAuth
from backchannel.server.http.listen import bind
from backchannel.testing.auth import AuthServer
from backchannel.testing.serving import origin, serving
from tests.interop.auth.authlib_server import AuthlibServer
from tests.interop.auth.trail import Trail

PATIENCE = 60.0


def make(url: str, issuer: str) -> Any:
    """The app for a URL."""
    server = Server("ours")

    @server.tool
    async def who(ctx: Context) -> str:
        """Tell who calls."""
        assert ctx.principal is not None
        return f"{ctx.principal.subject} with {' '.join(sorted(ctx.principal.scopes))}"

    return http_app(server, auth=BearerAuth(issuer=issuer, resource=url, scopes=["read"]))


@asynccontextmanager
async def protected(kind: str, trail: Trail, auth: AuthServer | None = None) -> AsyncIterator[str]:
    """Serve it, and an authorization server of a kind: "ours" or "authlib". Gives the URL.

    auth: the one of ours; its issuer becomes where it is served.
    """
    with bind("127.0.0.1", 0) as listener, bind("127.0.0.1", 0) as other, anyio.fail_after(PATIENCE):
        url, issuer = f"{origin(listener)}/mcp", origin(other)
        ours = auth or AuthServer(scopes=["read"])
        ours.issuer = issuer
        app = ours if kind == "ours" else AuthlibServer(issuer, url).app
        async with serving(trail.before(app), other), serving(trail.before(make(url, issuer)), listener):
            yield url
