"""A connection of our client to a foreign server, with a host that answers what the server asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from backchannel import Client
from tests.interop.cells import Peer, Wire

LIMIT = 20.0  # seconds for a connection to come up, and for a cell


@dataclass
class Host:
    """Answers with what it was given, and writes down what it was asked.

    answer: to a form.  text: what it samples.
    """

    folder: Path
    answer: Any = None
    text: str = "Rain on the window"
    asked: list[Any] = field(default_factory=list)

    def elicit(self, question: Any) -> Any:
        self.asked.append(question)
        return self.answer

    def sample(self, question: Any) -> str:
        self.asked.append(question)
        return self.text

    def handlers(self) -> dict[str, Any]:
        """What a Client is given."""
        return {"elicit": self.elicit, "sample": self.sample, "roots": [self.folder]}


@dataclass(frozen=True)
class Line:
    """An open connection. ways: how the server asks on it, where that is part of its tools' names."""

    client: Client
    host: Host
    ways: tuple[str, ...]

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """The result of a tool that works."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.text
        return result

    async def text(self, tool: str, /, **arguments: Any) -> str:
        """The text of a tool that works."""
        return (await self.call(tool, **arguments)).text

    async def failure(self, tool: str, /, **arguments: Any) -> str:
        """The text of a tool that fails."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.text
        return result.text

    async def names(self) -> set[str]:
        """The tools that are listed."""
        return {tool.name async for tool in self.client.tools()}

    async def cancelled(self, tool: str, /, **arguments: Any) -> None:
        """Call a tool, and cancel the call as soon as it reports progress."""
        with anyio.CancelScope() as scope:
            await self.client.call_tool(tool, arguments, progress=lambda _: scope.cancel())
        assert scope.cancelled_caught

    async def progress(self, tool: str, /, **arguments: Any) -> list[tuple[float, float | None, str | None]]:
        """What a tool that works reports: progress, total and message of each report."""
        reports: list[Any] = []
        result = await self.client.call_tool(tool, arguments, progress=reports.append)
        assert not result.is_error, result.text
        return [(report.progress, report.total, report.message) for report in reports]


Target = Callable[[Peer, Wire], Any]
"""What a Client is pointed at for a peer on a wire."""
Ways = Mapping[tuple[Peer, str], tuple[str, ...]]
"""How a peer asks on a version of the protocol."""


class Lines:
    """One connection at a time. The cells of a peer on a wire share theirs, because launching a process takes its time;
    after a cell that fails the next one has a new connection."""

    def __init__(self, target: Target, ways: Ways, folder: Path):
        self._target, self._ways, self._folder = target, ways, folder
        self._at: tuple[Peer, Wire] | None = None
        self._line: Line | None = None

    @asynccontextmanager
    async def to(self, peer: Peer, wire: Wire) -> AsyncIterator[Line]:
        """The connection for the block."""
        if self._line is None or self._at != (peer, wire):
            await self.close()
            self._line, self._at = await self._open(peer, wire), (peer, wire)
        self._line.host.asked.clear()
        try:
            with anyio.fail_after(LIMIT):
                yield self._line
        except BaseException:
            await self.close()
            raise

    async def _open(self, peer: Peer, wire: Wire) -> Line:
        host = Host(self._folder)
        client = Client(self._target(peer, wire), version=wire.era, **host.handlers())
        with anyio.fail_after(LIMIT):
            await client.open()
        return Line(client, host, self._ways.get((peer, client.version), ()))

    async def close(self) -> None:
        """End the connection, if there is one."""
        line, self._line = self._line, None
        if line is not None:
            await line.client.close()
