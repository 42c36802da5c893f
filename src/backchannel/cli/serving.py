"""Serving a Server over HTTP from the command line, on a port that is announced."""

from __future__ import annotations

import sys

from .. import Server
from ..running import app_at
from ..server.http.listen import listen

ANNOUNCED = "is served at "
"""What stands before the address."""


def serve_http(server: Server, address: str, workers: int = 1) -> None:
    """Serve until SIGINT or SIGTERM. The URL goes to stderr once it can be connected to; port 0 takes a free one.

    workers: processes; more than one have no sessions.

    Raises: ConfigurationError if the address cannot be used, or not by several processes; SystemExit after a signal.
    """

    def announce(host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        print(f"{server.name} {ANNOUNCED}http://{name}:{port}/mcp", file=sys.stderr, flush=True)

    listen(app_at(server, address, workers), address, workers=workers, announce=announce)
