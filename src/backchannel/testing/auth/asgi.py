"""The authorization server as an ASGI app: reads a request, fetches a client's document if it has one, and answers."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from .documents import client_at
from .endpoints import paths, route
from .web import OAuthError, Request, Response, as_json

if TYPE_CHECKING:
    from .server import AuthServer

WARNING = "an authorization server for development and tests, not for production"
_LARGEST = 65536  # bytes of a body
_HEADERS = {"x-not-for-production": WARNING}
_ANYBODY = {"access-control-allow-origin": "*"}
"""Scripts of any page may read the answers, but not the page on which a person lets a client in."""
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def serve(auth: AuthServer, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one connection of ASGI."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http":
        response = await _answer(auth, scope, receive)
        readable = {} if scope["path"] == auth.path("authorize") else _ANYBODY
        named = {**_HEADERS, **readable, **response.headers}
        headers = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
        headers.append((b"content-length", str(len(response.body)).encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})


def beside(auth: AuthServer, app: App) -> App:
    """An app that serves both: what is not for the authorization server is for the other one."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        mine = scope["type"] == "http" and scope["path"] in paths(auth)
        await (auth if mine else app)(scope, receive, send)

    return both


async def _answer(auth: AuthServer, scope: Scope, receive: Receive) -> Response:
    if not _from_here(scope):
        return as_json({"error": "access_denied", "error_description": f"this is {WARNING}"}, 403)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    body = b""
    more = True
    while more and len(body) <= _LARGEST:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if len(body) > _LARGEST:
        return as_json({"error": "invalid_request", "error_description": "the body is too large"}, 413)
    request = Request(scope["method"], scope["path"], scope.get("query_string", b"").decode("latin-1"), headers, body)
    await _know(auth, request)
    if request.path == auth.path("token"):
        await anyio.sleep(auth.misbehaviour.delay)
    return route(auth, request)


async def _know(auth: AuthServer, request: Request) -> None:
    """Fetch what a client says of itself whose id is a URL. If that fails it stays unknown."""
    if url := auth.document(request):
        with contextlib.suppress(OAuthError):
            auth.clients.add(await client_at(url, auth.documents))


def _from_here(scope: Scope) -> bool:
    """Whether a connection comes from this machine, as far as is known."""
    try:
        return scope.get("client") is None or ipaddress.ip_address(scope["client"][0]).is_loopback
    except ValueError:
        return True  # such as a test client's name, or a socket in the file system


async def _lifespan(receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
