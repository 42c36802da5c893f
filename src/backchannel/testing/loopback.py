"""A server on a real socket of this machine, over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from ..server.exchange import Principal
from ..server.http.app import HttpApp
from ..server.server import Server
from .serving import serving

TOKEN = "the-token-of-the-principal"
"""What a client shows where there is a principal, and is it then."""


@contextlib.asynccontextmanager
async def loopback(server: Server, principal: Principal | None = None) -> AsyncIterator[str]:
    """Serve over HTTP, at a port that is free. Gives the URL. principal: who calls with the TOKEN; nobody else may.

    Raises: as `serving`.
    """
    auth = None
    if principal is not None:
        from ..server.auth.bearer import BearerAuth

        async def verify(token: str) -> Principal | None:
            return principal if token == TOKEN else None

        auth = BearerAuth(verify=verify)
    app = HttpApp(server, path="/mcp", allowed_hosts=None, allowed_origins=None, sessions=True, auth=auth)
    async with serving(app) as origin:
        yield f"{origin}/mcp"
