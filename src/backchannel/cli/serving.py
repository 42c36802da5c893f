"""Serving a Server, or an app of one, over HTTP from the command line, on a port that is announced."""

from __future__ import annotations

import sys

from .. import Server
from ..running import app_at
from ..server.http.app import HttpApp
from ..server.http.listen import listen

ANNOUNCED = "is served at "
"""What stands before the address."""


def serve_http(server: Server | HttpApp, address: str, workers: int = 1) -> None:
    """Serve until SIGINT or SIGTERM. The URL goes to stderr once it can be connected to; port 0 takes a free one.

    server: an app is served as it is.  workers: processes; of a Server, more than one have no sessions.

    Raises: ConfigurationError if the address cannot be used, or not by several processes; SystemExit after a signal.
    """

    app = app_at(server, address, workers)

    def announce(host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        print(f"{app.server.name} {ANNOUNCED}http://{name}:{port}{app.path}", file=sys.stderr, flush=True)

    listen(app, address, workers=workers, announce=announce)
