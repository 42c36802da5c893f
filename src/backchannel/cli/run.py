"""`backchannel run`: serve a Server, or an app of one."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ..errors import ConfigurationError


def run(server: str, /, *, http: Annotated[str | None, Parameter(name="--http")] = None, workers: int = 1) -> None:
    """Serve a Server on stdio or over HTTP, or an app of http_app over HTTP.

    Parameters
    ----------
    server
        MODULE:NAME, FILE.py:NAME, or FILE.py with a variable `server`. An app that http_app(...) has made is served
        with the settings that it has.
    http
        HOST:PORT to listen on; the endpoint is /mcp, or as the app has it. Without it the server speaks on stdin and
        stdout.
    workers
        Processes to serve HTTP in. With more than one, clients of protocol versions up to 2025-11-25 get no sessions,
        unless an app has a fleet for them.
    """
    if workers < 1 or (http is None and workers != 1):
        raise ConfigurationError("--workers is a number of processes, at least 1, that serve --http HOST:PORT")
    from .load import served

    if http is not None:
        from .serving import serve_http

        serve_http(served(server), http, workers)
        return
    from ..running import is_app
    from ..running import run as serve
    from ..server.process import claim

    claim()  # before the module is imported, so that what it prints does not get between the messages
    found = served(server)
    if is_app(found):
        raise ConfigurationError("an app of http_app() is for HTTP: give --http HOST:PORT too, or name its Server")
    serve(found)
