"""Running the ASGI app with uvicorn."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType

from ...errors import ConfigurationError
from ..process import LIFESPAN, Ending
from .app import HttpApp
from .workers import FAILED, bind_shared, supervise

_KEEP_ALIVE = 75  # seconds: longer than what proxies keep a connection for, so that it is they who close it
_FORCED = 1.0  # seconds for what can still be cleaned up after a second SIGINT
_MARGIN = 2.0  # seconds for connections to close, after the calls have ended


def parse(address: str) -> tuple[str, int]:
    """ "HOST:PORT", "[HOST]:PORT" or ":PORT" (loopback). Raises: ConfigurationError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"{address!r} is no address to listen on: give HOST:PORT, such as 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Every connection it accepts has TCP_NODELAY, so that small answers do not wait.

    Raises: ConfigurationError that names the address and the cause.
    """
    return bind_shared(host, port, 1)[0]


def listen(app: HttpApp, address: str, *, workers: int = 1, announce: Callable[[str, int], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM. Calls then get `Limits.grace` seconds to end; a second SIGINT ends them at once.

    workers: processes to serve in; their app has to be without sessions.  announce: called with host and port once they
    can be connected to.

    Raises: SystemExit after a signal; ConfigurationError if uvicorn is not installed, or the address cannot be used.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise ConfigurationError("serving HTTP needs the extra: pip install 'backchannel[http]'") from error
    grace, parent = app.server.limits.grace, os.getpid()

    class Uvicorn(uvicorn.Server):
        ending: Ending

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            forced = self.should_exit and sig == signal.SIGINT
            self.ending.within(
                _FORCED if forced else grace + _MARGIN + LIFESPAN
            )  # also where the event loop is blocked
            super().handle_exit(sig, frame)

        async def on_tick(self, counter: int) -> bool:
            """A worker whose parent is gone has nobody to tell it to end."""
            return (workers > 1 and os.getppid() != parent) or await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """End streams and calls meanwhile: uvicorn waits for them before it ends the lifespan."""
            closing = asyncio.ensure_future(app.close(grace))
            await super().shutdown(sockets)
            closing.cancel()  # at a second SIGINT
            await asyncio.wait([closing])

    def serve(listener: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            lifespan="on",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(grace + _MARGIN),
        )
        with listener, Ending() as ending:
            server = Uvicorn(config)
            server.ending = ending
            server.run(sockets=[listener])
        if ending.code or not server.started:
            raise SystemExit(ending.code or FAILED)

    listeners = bind_shared(*parse(address), workers)
    if announce is not None:
        announce(*listeners[0].getsockname()[:2])
    if workers == 1:
        serve(listeners[0])
    else:
        supervise(serve, listeners)
