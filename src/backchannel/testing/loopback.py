"""A server on a real socket of this machine, over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from ..server.http.app import HttpApp
from ..server.server import Server
from .serving import serving


@contextlib.asynccontextmanager
async def loopback(server: Server) -> AsyncIterator[str]:
    """Serve over HTTP, at a port that is free. Gives the URL. Raises: as `serving`."""
    app = HttpApp(server, path="/mcp", allowed_hosts=None, allowed_origins=None, sessions=True)
    async with serving(app) as origin:
        yield f"{origin}/mcp"
