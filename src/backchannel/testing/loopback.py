"""A server on a real socket of this machine, served by uvicorn in the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio

from ..errors import ConfigurationError
from ..server.http.app import HttpApp
from ..server.http.listen import bind
from ..server.server import Server

_CLOSING = 5.0  # seconds for connections to close
_TICK = 0.01


@contextlib.asynccontextmanager
async def loopback(server: Server) -> AsyncIterator[str]:
    """Serve over HTTP, at a port that is free. Gives the URL.

    Raises: ConfigurationError on another event loop than asyncio, and without uvicorn.
    """
    try:
        asyncio.get_running_loop()
        import uvicorn
    except RuntimeError:
        raise ConfigurationError('HTTP runs on asyncio only: take wire="memory" or "stdio" on trio') from None
    except ImportError as error:
        raise ConfigurationError("serving HTTP needs the extra: pip install 'backchannel[http]'") from error
    app = HttpApp(server, path="/mcp", allowed_hosts=None, allowed_origins=None, sessions=True, verify=None)
    config = uvicorn.Config(app, lifespan="off", ws="none", http="auto", log_config=None, access_log=False)
    config.load()
    web = uvicorn.Server(config)
    web.lifespan = config.lifespan_class(config)
    with bind("127.0.0.1", 0) as listener:
        async with app.running():
            await web.on_tick(0)  # makes the Date header
            await web.startup([listener])
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                with anyio.CancelScope(shield=True):
                    await app.close()
                    await _end(web)


async def _end(web: Any) -> None:
    """Close what listens and what is open. uvicorn's own end waits for ticks, that is, for real time."""
    for server in web.servers:
        server.close()
    state = web.server_state
    for connection in list(state.connections):
        connection.shutdown()
    for _ in range(int(_CLOSING / _TICK)):
        if not state.connections and not state.tasks:
            return
        await anyio.sleep(_TICK)
