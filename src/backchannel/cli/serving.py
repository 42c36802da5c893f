"""Serving a Server over HTTP from the command line, on a port that is announced."""

from __future__ import annotations

import socket
import sys

from .. import Server, http_app
from ..errors import ConfigurationError
from ..server.http.listen import bind, parse

ANNOUNCED = "is served at "
"""What stands before the address."""


def serve_http(server: Server, address: str) -> None:
    """Serve until SIGINT or SIGTERM. The address goes to stderr once it can be connected to; port 0 takes a free one.

    Raises: ConfigurationError if the address cannot be used.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise ConfigurationError("serving HTTP needs the extra: pip install 'backchannel[http]'") from error
    app = http_app(server)

    class Uvicorn(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """End the streams first: uvicorn waits for open responses before it ends the lifespan."""
            await app.close()
            await super().shutdown(sockets)

    with bind(*parse(address)) as listener:
        host, port = listener.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        print(f"{server.name} {ANNOUNCED}http://{name}:{port}/mcp", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
        Uvicorn(config).run(sockets=[listener])
