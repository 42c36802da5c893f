"""An ASGI app on a real socket of this machine, served by uvicorn in the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio

from ..errors import ConfigurationError
from ..server.http.app import HttpApp
from ..server.http.listen import bind

_CLOSING = 5.0  # seconds for connections to close
_TICK = 0.01


@contextlib.asynccontextmanager
async def serving(
    app: Any = None, listener: socket.socket | None = None, *, make: Callable[[str], Any] | None = None
) -> AsyncIterator[str]:
    """Serve an app, such as `http_app(server)`, on loopback. Gives the origin, such as "http://127.0.0.1:49152".

    listener: where; default at a port that is free. It is closed at the end.  make: makes the app in place of `app`,
    out of the origin, for one that has to know its URL: `make=lambda origin: http_app(server, auth=...)`.

    Raises: ConfigurationError on another event loop than asyncio, without uvicorn, and if the app does not start; what
    the lifespan of its server raises.
    """
    try:
        asyncio.get_running_loop()
        import uvicorn
    except RuntimeError:
        raise ConfigurationError("HTTP runs on asyncio only") from None
    except ImportError as error:
        raise ConfigurationError("serving HTTP needs the extra: pip install 'backchannel[http]'") from error
    with listener or bind("127.0.0.1", 0) as listener:
        app = make(origin(listener)) if make is not None else app
        if isinstance(app, HttpApp):
            await app.open()  # uvicorn would keep to itself what it raises
        config = uvicorn.Config(app, lifespan="auto", ws="none", http="auto", log_config=None, access_log=False)
        config.load()
        web = uvicorn.Server(config)
        web.lifespan = config.lifespan_class(config)
        await web.on_tick(0)  # makes the Date header
        with contextlib.suppress(SystemExit):  # what uvicorn does then
            await web.startup([listener])
        if not web.started:
            raise ConfigurationError("the app did not start")
        try:
            yield origin(listener)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(web, app)


def origin(listener: socket.socket) -> str:
    """What the URLs begin with of an app that is served there."""
    return "http://{}:{}".format(*listener.getsockname()[:2])


async def _end(web: Any, app: Any) -> None:
    """Close what listens and what is open. uvicorn's own end waits for ticks, that is, for real time."""
    try:
        if isinstance(app, HttpApp):
            await app.close()  # ends streams, which would be waited for
    finally:
        for server in web.servers:
            server.close()
        state = web.server_state
        for connection in list(state.connections):
            connection.shutdown()
        for _ in range(int(_CLOSING / _TICK)):
            if not state.connections and not state.tasks:
                break
            await anyio.sleep(_TICK)
        await web.lifespan.shutdown()
