"""Serving a Server over HTTP from the command line, on a port that is announced."""

from __future__ import annotations

import sys

from .. import Server, http_app
from ..server.http.listen import is_loopback, listen, parse

ANNOUNCED = "is served at "
"""What stands before the address."""


def serve_http(server: Server, address: str) -> None:
    """Serve until SIGINT or SIGTERM. The URL goes to stderr once it can be connected to; port 0 takes a free one.

    Raises: ConfigurationError if the address cannot be used; SystemExit after a signal.
    """

    def announce(host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        print(f"{server.name} {ANNOUNCED}http://{name}:{port}/mcp", file=sys.stderr, flush=True)

    hosts = None if is_loopback(parse(address)[0]) else ["*"]
    listen(http_app(server, allowed_hosts=hosts), address, announce=announce)
