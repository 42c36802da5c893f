"""Running the ASGI app with uvicorn."""

from __future__ import annotations

import socket

from ...errors import ConfigurationError
from .app import HttpApp


def parse(address: str) -> tuple[str, int]:
    """ "HOST:PORT", "[HOST]:PORT" or ":PORT" (loopback). Raises: ConfigurationError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"{address!r} is no address to listen on: give HOST:PORT, such as 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Every connection it accepts has TCP_NODELAY, so that small answers do not wait.

    Raises: ConfigurationError that names the address and the cause.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error}") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def listen(app: HttpApp, address: str) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises: ConfigurationError if uvicorn is not installed, or the address cannot be used.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise ConfigurationError("serving HTTP needs the extra: pip install 'backchannel[http]'") from error

    class Uvicorn(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """End the streams first: uvicorn waits for open responses before it ends the lifespan."""
            await app.close()
            await super().shutdown(sockets)

    listener = bind(*parse(address))
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=5)
    with listener:
        Uvicorn(config).run(sockets=[listener])
