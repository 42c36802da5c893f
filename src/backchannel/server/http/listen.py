"""Listening at an address with the ASGI app."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from collections.abc import Callable

from ...errors import ConfigurationError
from ..keyring import ENVIRONMENT
from .app import HttpApp
from .workers import bind_shared, supervise


def parse(address: str) -> tuple[str, int]:
    """ "HOST:PORT", "[HOST]:PORT" or ":PORT" (loopback). Raises: ConfigurationError."""
    host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
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

    workers: processes to serve in; their app has to be without sessions. They share a random key for the state of
    multi round-trip calls, unless there is one.  announce: called with host and port once they can be connected to.

    Raises: SystemExit after a signal; ConfigurationError if uvicorn is not installed, or the address cannot be used.
    """
    try:
        from .runner import Runner
    except ImportError as error:
        raise ConfigurationError("serving HTTP needs the extra: pip install 'backchannel[http]'") from error
    listeners = bind_shared(*parse(address), workers)
    if announce is not None:
        announce(*listeners[0].getsockname()[:2])
    if workers == 1:
        return Runner(app).serve_on(listeners[0])
    os.environ.setdefault(ENVIRONMENT, secrets.token_urlsafe(32))
    parent = os.getpid()
    supervise(lambda listener: Runner(app, parent).serve_on(listener), listeners)
