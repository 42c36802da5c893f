"""A tap at the ASGI interface: an app around ours that records requests and responses, with the headers of MCP.

Header names are written as the specification writes them. Every HTTP request has a number, so that a response and the
events of its stream find their request.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from backchannel import Server, http_app

if TYPE_CHECKING:
    from .recorder import Recorder

HEADERS = {
    "accept": "Accept",
    "content-type": "Content-Type",
    "mcp-protocol-version": "MCP-Protocol-Version",
    "mcp-session-id": "Mcp-Session-Id",
    "mcp-method": "Mcp-Method",
    "mcp-name": "Mcp-Name",
    "last-event-id": "Last-Event-ID",
    "allow": "Allow",
    "authorization": "Authorization",
    "www-authenticate": "WWW-Authenticate",
}
"""The headers that are shown, besides `Mcp-Param-*`."""


class Tap:
    """Records what an app of ours receives and sends."""

    def __init__(self, server: Server, recorder: Recorder, **options: Any):
        self.app = http_app(server, **options)
        self.recorder = recorder
        self.ended = False
        self.left: set[int] = set()
        self._count = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        self._count += 1
        await _Exchange(self, self._count, scope).run(receive, send)

    async def close(self) -> None:
        """End the app."""
        await self.app.close()

    async def until_left(self, exchange: int) -> None:
        """Wait until the server knows that the client has left an exchange."""
        while exchange not in self.left:
            await anyio.lowlevel.checkpoint()


class _Exchange:
    """One HTTP request and its response."""

    def __init__(self, tap: Tap, number: int, scope: Any):
        self._tap, self._number, self._scope = tap, number, scope
        self._head: tuple[str, ...] = ()
        self._streams = self._over = False
        self._rest = b""

    async def run(self, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        body = [await receive()] if self._scope["method"] == "POST" else []
        while body and body[-1].get("more_body"):
            body.append(await receive())
        self._ask(b"".join(part.get("body", b"") for part in body) if body else None)

        async def receive_and_keep() -> Any:
            if body:
                return body.pop(0)
            message = await receive()
            self._received(message)
            return message

        async def keep_and_send(message: Any) -> None:
            self._sent(message)
            await send(message)

        await self._tap.app(self._scope, receive_and_keep, keep_and_send)

    def _keep(self, sender: Any, data: bytes | None, head: tuple[str, ...] = (), prefix: str = "") -> None:
        self._tap.recorder.keep(sender, data, head, self._number, prefix)

    def _received(self, message: Any) -> None:
        if message["type"] == "http.disconnect" and not self._over:
            self._over = True
            self._tap.left.add(self._number)
            if self._scope["method"] == "POST":
                self._keep("client", None, ("(closes the connection)",))

    def _ask(self, body: bytes | None) -> None:
        method, path = self._scope["method"], self._scope["path"]
        self._tap.ended = self._tap.ended or method == "DELETE"
        self._keep("client", body, (f"{method} {path}", *_shown(self._scope["headers"])))

    def _sent(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            status = message["status"]
            self._head = (f"{status} {HTTPStatus(status).phrase}", *_shown(message["headers"]))
            self._streams = "Content-Type: text/event-stream" in self._head
            if self._streams:
                self._keep("server", None, self._head)
            return
        self._rest += message.get("body", b"")
        if self._streams:
            self._events()
        if message.get("more_body") or self._over:
            return
        self._over = True
        if not self._streams:
            self._keep("server", self._rest or None, self._head)
        elif self._scope["method"] == "POST" or not self._tap.ended:
            self._keep("server", None, ("(the stream ends)",))

    def _events(self) -> None:
        *events, self._rest = self._rest.split(b"\n\n")
        for event in events:
            if event.startswith(b":"):
                continue  # a sign of life on a slow machine
            lines = event.decode().split("\n")
            *head, last = lines
            assert last == "data:" or last.startswith("data: "), lines
            data = last[6:].encode() or None
            self._keep("server", data, tuple(head) if data else (*head, "data:"), "data: ")


def _shown(headers: Any) -> list[str]:
    """The headers that matter, in one order."""
    given = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
    found = [f"{shown}: {given[name]}" for name, shown in HEADERS.items() if name in given and given[name] != "*/*"]
    return found + [
        f"Mcp-Param-{name[10:].title()}: {given[name]}" for name in sorted(given) if name.startswith("mcp-param-")
    ]
