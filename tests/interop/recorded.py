"""An ASGI app behind a recorder: which requests a client made, and what each was answered with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass
class Visit:
    """One request. session, cursor: its headers Mcp-Session-Id and Last-Event-ID, "" for none. body: that it got."""

    method: str
    session: str
    cursor: str
    status: int = 0
    body: bytes = b""

    @property
    def ids(self) -> list[str]:
        """The ids of the events, in order."""
        return re.findall(r"^id: ?(.+?)\r?$", self.body.decode(), re.MULTILINE)


class Recorded:
    """Records in `visits` what goes through to `app`."""

    def __init__(self, app: Any):
        self.app = app
        self.visits: list[Visit] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        visit = Visit(scope["method"], headers.get("mcp-session-id", ""), headers.get("last-event-id", ""))
        self.visits.append(visit)

        async def recording(event: Any) -> None:
            visit.status = event.get("status", visit.status)
            visit.body += event.get("body", b"")
            await send(event)

        await self.app(scope, receive, recording)

    async def close(self) -> None:
        await self.app.close()
