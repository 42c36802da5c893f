"""A whole session of a client that is written in Python: what its application was asked and told, and what it got.

Argument: a JSON object with the `url` of the server, and a `name` for this session.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio
import mcp.types as t
from telling import LIMIT, OPTIONS, ROOT

NAMED = {"id": OPTIONS["name"]}
MOVED = "file:///home/me/garden"
ORDER = {"size": "large", "cups": 2}


class Adapter(Protocol):
    """A client, as the session uses it."""

    def connection(self) -> AbstractAsyncContextManager[Any]: ...

    async def set_level(self, level: str) -> None:
        """Have the server log from this level on."""

    async def change_roots(self) -> None:
        """Tell the server that the roots are others now."""

    async def call(self, tool: str, progress: Callable[..., Awaitable[None]] | None = None) -> str:
        """Call a tool with the name of this session. Returns the text of its result."""
        raise NotImplementedError


class Application:
    """What is around a client. It writes everything down, in order.

    asked: questions.  heard: notifications.  reports: what the callback of the call got.
    """

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.heard: list[Any] = []
        self.reports: list[Any] = []
        self.roots = [ROOT]
        self._heard_last = anyio.Event()

    def form(self, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The person fills in a form."""
        fields = sorted(schema["properties"])
        self.asked.append(["form", message, fields])
        return {"value": True} if fields == ["value"] else ORDER

    async def page(self, client: Adapter, params: t.ElicitRequestURLParams) -> None:
        """The person opens a page, and does there what is to be done; meanwhile the client's roots change."""
        self.asked.append(["page", params.message, params.url, params.elicitation_id])
        await client.call("pay")
        self.roots = [ROOT, MOVED]
        await client.change_roots()

    def sample(self, text: str, tokens: int) -> None:
        """The model is asked."""
        self.asked.append(["sample", text, tokens])

    async def hear(self, message: Any) -> None:
        """The client's handler of messages: every notification comes here, whatever else it goes to."""
        if isinstance(message, t.ProgressNotification):
            self.heard.append(["progress", message.params.progress, message.params.total, message.params.message])
        elif isinstance(message, t.LoggingMessageNotification):
            self.heard.append(["log", message.params.level, message.params.data])
        else:
            self.heard.append([message.method, message.params.elicitation_id])
        if self.heard[-1] == ["log", "info", "it is eaten"]:
            self._heard_last.set()

    async def report(self, *report: Any) -> None:
        self.reports.append(report)

    async def run(self, client: Adapter) -> None:
        """Have the session, and print it as JSON."""
        with anyio.fail_after(LIMIT):
            async with client.connection():
                await client.set_level("info")
                result = await client.call("banquet", self.report)
                await self._heard_last.wait()  # a client may handle notifications and results side by side
        print(json.dumps({"asked": self.asked, "heard": self.heard, "reports": self.reports, "result": result}))
