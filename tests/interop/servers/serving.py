"""How the Python servers here are served: `python FILE` on stdio, `python FILE FD` over HTTP on a listening socket that
the parent has bound already, so that nobody has to wait for a port."""

import socket
import sys
from collections.abc import Callable
from typing import Any


def serve(stdio: Callable[[], Any], app: Callable[[], Any]) -> None:
    """Serve until stdin closes, or over HTTP until SIGTERM."""
    if len(sys.argv) == 1:
        stdio()
        return
    import uvicorn

    config = uvicorn.Config(app(), log_level="warning", lifespan="on", timeout_graceful_shutdown=1)
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        uvicorn.Server(config).run(sockets=[listener])
