"""uvicorn, with an end in time: it waits for open responses before it ends the lifespan, so streams and calls are ended
first, and the process does not outlive a handler that blocks it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from types import FrameType

import uvicorn

from ..process import LIFESPAN, Ending, settle
from .app import HttpApp
from .workers import FAILED

_KEEP_ALIVE = 75  # seconds: longer than what proxies keep a connection for, so that it is they who close it
_MARGIN = 2.0  # seconds for connections to close, after the calls have ended
_FORCED = 1.0  # seconds for what can still be cleaned up after a second SIGINT


class Runner(uvicorn.Server):
    """Serves one app in this process.

    parent: the process without which this one has nobody to tell it to end.
    """

    def __init__(self, app: HttpApp, parent: int | None = None):
        self._app = app
        self._parent = parent
        self._grace = app.server.limits.grace
        self._ending = Ending()
        config = uvicorn.Config(
            app,
            lifespan="on",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=app.auth is not None,  # else nothing depends on the scheme that clients see
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(self._grace + _MARGIN),
        )
        super().__init__(config)

    def serve_on(self, listener: socket.socket) -> None:
        """Serve until SIGINT or SIGTERM. Raises: SystemExit after a signal, and if the server could not start."""
        with listener, self._ending:
            self.run([listener])
        if self._ending.code or not self.started:
            raise SystemExit(self._ending.code or FAILED)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Enter the lifespan, and listen."""
        await super().startup(sockets)
        settle()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Only the first signal counts for the exit code, and only SIGINT counts twice: Ctrl-C reaches a worker from
        two sides."""
        if not self.should_exit:
            self._ending.within(self._grace + _MARGIN + LIFESPAN)
            super().handle_exit(sig, frame)
        elif sig == signal.SIGINT:
            self._ending.within(_FORCED)
            self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second. Returns whether it is time to end."""
        return self._parent not in (None, os.getppid()) or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams and calls, while uvicorn waits for them."""
        closing = asyncio.ensure_future(self._app.close(self._grace))
        await super().shutdown(sockets)
        closing.cancel()  # at a second SIGINT
        await asyncio.wait([closing])
