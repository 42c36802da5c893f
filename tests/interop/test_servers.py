"""The matrix, half two: our client, and servers that were made with other toolkits."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from backchannel import StdioServer
from tests.interop import node
from tests.interop.cells import VERSIONS, Cannot, Peer, Wire, matrix, wires
from tests.interop.servers.checks import everything, filesystem, memory, written
from tests.interop.servers.launching import Served, on_port, on_socket
from tests.interop.servers.line import Lines

HERE = Path(__file__).parent / "servers"
EVERY_ERA = wires(eras=("legacy", "auto", "modern"))
LEGACY = wires(eras=("legacy", "auto"))
LEGACY_STDIO = wires(("stdio",), ("legacy", "auto"))
NO_QUESTIONS = Cannot(("elicit (form)", "elicit (decline)", "sample"), "It has no tool that asks this.")
NO_ROOTS = Cannot(("roots",), "It does not ask for roots.")
NOTHING_LONG = Cannot(("progress", "cancel"), "It has no tool that takes its time.")


def python_peer(name: str) -> Peer:
    return Peer(name, metadata.version(name), "server", EVERY_ERA)


def npm_peer(name: str, wires: tuple[Wire, ...], *cannot: Cannot) -> Peer:
    return Peer(name, node.PACKAGES[name], "server", wires, cannot)


SDK = python_peer("mcp")
FAST = python_peer("fastmcp")
TYPESCRIPT = npm_peer("@modelcontextprotocol/server", EVERY_ERA)
TYPESCRIPT_V1 = npm_peer("@modelcontextprotocol/sdk", LEGACY)
EVERYTHING = npm_peer("@modelcontextprotocol/server-everything", LEGACY)
FILESYSTEM = npm_peer("@modelcontextprotocol/server-filesystem", LEGACY_STDIO, NOTHING_LONG, NO_QUESTIONS)
MEMORY = npm_peer("@modelcontextprotocol/server-memory", LEGACY_STDIO, NOTHING_LONG, NO_QUESTIONS, NO_ROOTS)
PEERS = [SDK, FAST, TYPESCRIPT, TYPESCRIPT_V1, EVERYTHING, FILESYSTEM, MEMORY]

FILES = {
    SDK: [sys.executable, str(HERE / "sdk.py")],
    FAST: [sys.executable, str(HERE / "fast.py")],
    TYPESCRIPT: node.script(HERE / "typescript.mjs"),
    TYPESCRIPT_V1: node.script(HERE / "typescript_v1.mjs"),
}
"""How to launch the servers that are written here."""
WAYS = {
    (SDK, "legacy"): ("inline", "resolved"),
    (SDK, "modern"): ("resolved", "returned"),
    (FAST, "legacy"): ("inline",),
    (FAST, "modern"): ("returned",),
    (TYPESCRIPT, "legacy"): ("inline", "returned"),
    (TYPESCRIPT, "modern"): ("returned",),
    (TYPESCRIPT_V1, "legacy"): ("inline",),
}
"""The ways in which these ask in an era, after which their tools are named."""
PROGRAMS = {
    EVERYTHING: node.program(EVERYTHING.name, "dist/index.js"),
    FILESYSTEM: node.program(FILESYSTEM.name, "dist/index.js"),
    MEMORY: node.program(MEMORY.name, "dist/index.js"),
}
"""How to launch those that come ready-made."""
CHECKS = {
    **dict.fromkeys(FILES, written.CHECKS),
    EVERYTHING: everything.CHECKS,
    FILESYSTEM: filesystem.CHECKS,
    MEMORY: memory.CHECKS,
}


def era(peer: Peer, wire: Wire) -> str:
    """What is spoken: the newest that both know, unless the client chooses."""
    return "modern" if peer.wires == EVERY_ERA and wire.era != "legacy" else "legacy"


class Servers:
    """Where the servers are. Those behind HTTP are started when the first of them is needed, side by side."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._served: dict[Peer, Served] = {}

    def target(self, peer: Peer, wire: Wire) -> Any:
        """What a Client is pointed at: a URL, a StdioServer, or an entry of an mcpServers JSON."""
        if wire.transport == "http":
            return self._url(peer)
        if peer in FILES:
            return StdioServer(*FILES[peer], stderr="capture")
        command, *args = PROGRAMS[peer]
        graph = self._folder / f"graph-{wire.era}.jsonl"
        return {"command": command, "args": args, "env": {"MEMORY_FILE_PATH": str(graph)}}

    def _url(self, peer: Peer) -> str:
        if not self._served:
            for number, (one, command) in enumerate(FILES.items()):
                self._served[one] = on_socket(command, self._folder / f"{number}.log")
        if peer not in self._served:
            command = [*PROGRAMS[peer], "streamableHttp"]
            self._served[peer] = on_port(command, "listening on port", self._folder / "program.log")
        return self._served[peer].url

    def stop(self) -> None:
        for served in self._served.values():
            served.stop()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """HTTP is asyncio only. The event loop is that of the connections, which outlive a test."""
    return "asyncio"


@pytest.fixture(scope="module")
def servers(npm: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    try:
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
async def lines(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lines]:
    ways = {(peer, VERSIONS[era]): ways for (peer, era), ways in WAYS.items()}
    lines = Lines(servers.target, ways, tmp_path_factory.mktemp("root"))
    try:
        yield lines
    finally:
        await lines.close()


@matrix(PEERS)
@pytest.mark.anyio
async def test_cell(lines: Lines, peer: Peer, wire: Wire, cell: str) -> None:
    async with lines.to(peer, wire) as line:
        assert line.client.version == VERSIONS[era(peer, wire)]
        await CHECKS[peer][cell](line)
