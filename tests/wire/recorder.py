"""The recorder: keeps every frame in order, and connects a real client with a real server over a wire that it taps."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

from backchannel import Client, Server
from backchannel.protocol.versions import FEATURES, Features, Version
from tests.server.http.wire import Wire, serving

from .duplex import Duplex, Raw
from .tap import Tap
from .transcript import Frame, Note, Side, Transcript

NAME = {"name": "reader", "software_version": "1.0"}
BY_HAND = {"name": "by hand", "version": "1"}


class Recorder:
    """What a scenario gets: clients of its servers, whose wire is recorded."""

    def __init__(self, transcript: Transcript, version: Version):
        self.transcript = transcript
        self.version = version
        self.features: Features = FEATURES[version]
        self._shown = True
        self._connection = 0
        self._wrong: set[bytes] = set()

    @property
    def modern(self) -> bool:
        return self.version.is_modern

    def note(self, text: str) -> None:
        """Say what happens, in a line of its own."""
        self.transcript.entries.append(Note(text))

    def keep(
        self,
        sender: Side,
        data: bytes | None,
        head: tuple[str, ...] = (),
        exchange: int | None = None,
        prefix: str = "",
    ) -> None:
        """Record a frame."""
        valid = data is None or data.rstrip(b"\n") not in self._wrong
        frame = Frame(sender, data, head, exchange, prefix, self._connection, valid, self._shown)
        self.transcript.entries.append(frame)

    def wrong(self, message: Any) -> bytes:
        """The bytes of a message that breaks the protocol on purpose, for `raw` and `post`."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._wrong.add(data)
        return data

    def meta(self, capabilities: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
        """The `_meta` of a modern request that is written by hand. other: members without their prefix; None: without
        this member."""
        members = {
            "protocolVersion": self.version.value,
            "clientInfo": BY_HAND,
            "clientCapabilities": capabilities or {},
            **other,
        }
        return {f"io.modelcontextprotocol/{name}": value for name, value in members.items() if value is not None}

    def initialize(self, id: int = 0, offer: str = "") -> dict[str, Any]:
        """An `initialize` request that is written by hand. offer: in place of the version."""
        params = {"protocolVersion": offer or self.version.value, "capabilities": {}, "clientInfo": BY_HAND}
        return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}

    @contextlib.asynccontextmanager
    async def client(self, server: Server, *, bring_up: bool = False, **options: Any) -> AsyncIterator[Client]:
        """A client of the server over a pipe, as on stdio. bring_up: show how the connection begins."""
        self._connection += 1
        async with self._open(Duplex(server, self), bring_up, options) as client:
            yield client

    @contextlib.asynccontextmanager
    async def raw(self, server: Server) -> AsyncIterator[Raw]:
        """The same pipe without a client: whatever the scenario writes."""
        self._connection += 1
        raw = Raw(Duplex(server, self))
        await raw.open()
        try:
            yield raw
        finally:
            await raw.close()

    @contextlib.asynccontextmanager
    async def http_client(
        self, server: Server, *, bring_up: bool = False, goodbye: bool = False, **options: Any
    ) -> AsyncIterator[Client]:
        """A client of the server over streamable HTTP. bring_up, goodbye: show how the session begins and ends."""
        self._connection += 1
        tap = Tap(server, self)
        async with serving(tap) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            async with self._open(url, bring_up, options, goodbye) as client:
                yield client

    @contextlib.asynccontextmanager
    async def http(self, server: Server, **options: Any) -> AsyncIterator[tuple[Wire, Tap]]:
        """The same without a client: whatever the scenario posts. options: of `http_app`."""
        self._connection += 1
        tap = Tap(server, self, **options)
        async with serving(tap) as port:
            there = Wire(port, tap.app)
            try:
                yield there, tap
            finally:
                self._shown = False
                await there.close()
        self._shown = True

    @contextlib.contextmanager
    def hidden(self) -> Any:
        """What is recorded meanwhile is checked, and not shown."""
        self._shown = False
        try:
            yield
        finally:
            self._shown = True

    @contextlib.asynccontextmanager
    async def _open(
        self, target: Any, bring_up: bool, options: dict[str, Any], goodbye: bool = False
    ) -> AsyncIterator[Client]:
        handlers = {name: _in_turn(options[name]) for name in ("elicit", "elicit_url", "sample") if name in options}
        client = Client(target, **{"version": self.version.value, **NAME, **options, **handlers})
        self._shown = bring_up
        try:
            await client.open()
            if isinstance(target, Duplex):
                await target.settled()
            self._shown = True
            if not bring_up:
                self.note(self._brought_up(client))
            yield client
        finally:
            self._shown = goodbye
            await client.close()
            self._shown = True

    def _brought_up(self, client: Client) -> str:
        said = f"Connected, as bring-up/{self.version}.txt shows"
        if self.modern:
            return f"{said}."
        declared = json.dumps(client.answers.declared)
        return f"{said}; the client declared the capabilities {declared}."


def _in_turn(handler: Any) -> Any:
    """A plain handler as a coroutine function: from threads, answers would come in any order."""
    if inspect.iscoroutinefunction(handler):
        return handler

    async def answer(question: Any) -> Any:
        return handler(question)

    return answer
