"""`backchannel run`: serve a Server."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def run(server: str, /, *, http: Annotated[str | None, Parameter(name="--http")] = None) -> None:
    """Serve a Server on stdio, or over HTTP.

    Parameters
    ----------
    server
        MODULE:NAME, FILE.py:NAME, or FILE.py with a variable `server`.
    http
        HOST:PORT to listen on; the endpoint is /mcp. Without it the server speaks on stdin and stdout.
    """
    from .load import load

    if http is not None:
        from .serving import serve_http

        serve_http(load(server), http)
        return
    from ..running import run as serve
    from ..server.process import claim

    claim()  # before the module is imported, so that what it prints does not get between the messages
    serve(load(server))
