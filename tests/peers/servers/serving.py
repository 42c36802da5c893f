"""How every server file here is served: `python FILE` on stdio, `python FILE FD` over HTTP on a listening socket that
the parent has bound already, so that nobody has to wait for a port."""

import os
import socket
import sys
from collections.abc import Callable
from typing import Any


def record(line: str) -> None:
    """Append a line to the file that the environment names: work that a test can see, and count."""
    with open(os.environ["LEDGER"], "a", encoding="utf-8") as ledger:
        ledger.write(line + "\n")


def serve(stdio: Callable[[], Any], app: Callable[[], Any]) -> None:
    """Serve until stdin closes, or over HTTP until SIGTERM."""
    if len(sys.argv) == 1:
        stdio()
        return
    import uvicorn

    config = uvicorn.Config(app(), log_level="warning", lifespan="on", timeout_graceful_shutdown=2)
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        uvicorn.Server(config).run(sockets=[listener])
