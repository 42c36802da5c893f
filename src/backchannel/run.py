"""The composition root of a server: from a Server to something that runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import ConfigurationError
from .server.server import Server

if TYPE_CHECKING:
    from .server.http.app import HttpApp, Verify


def run(server: Server, *, http: str | None = None, path: str = "/mcp") -> None:
    """Run a server until it is stopped: on stdio, or over HTTP.

    http: "HOST:PORT" to listen on, or None for stdio.  path: of the HTTP endpoint.

    Raises: ConfigurationError if HTTP is wanted and the extra `http` is not installed.
    """
    if http is None:
        from .server.stdio import run_stdio

        run_stdio(server)
        return
    from .server.http.listen import listen

    listen(http_app(server, path=path), http)


def http_app(
    server: Server,
    *,
    path: str = "/mcp",
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] | None = None,
    sessions: bool = True,
    verify: Verify | None = None,
) -> HttpApp:
    """An ASGI app that serves both eras on one endpoint. It starts with its first request, wherever it is mounted;
    `async with app.running()` ties it to a lifespan of yours.

    path: of the endpoint.  allowed_hosts: names in the Host header that are served, such as "mcp.example.com" or
    "*.example.com"; default loopback only.  allowed_origins: origins that browsers may come from; default those on the
    allowed hosts.  sessions: give legacy clients a session, without which they cannot be asked anything.
    verify: finds out from a bearer token who calls; a request for which it gives None is answered with 401.
    """
    from .server.http.app import HttpApp

    if isinstance(allowed_hosts, str):
        raise ConfigurationError("allowed_hosts is a list of names, such as ['mcp.example.com']")
    return HttpApp(
        server,
        path=path,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        sessions=sessions,
        verify=verify,
    )
