"""The interop matrix: which foreign peers there are, on which wires each is run, and which cells it has there.

A cell that a peer cannot do is shown on the page with the reason, and is no test; every other cell is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import pytest

_BETWEEN = (
    "list",
    "call",
    "structured output",
    "error",
    "progress",
    "cancel",
    "elicit (form)",
    "elicit (decline)",
    "sample",
    "roots",
)
_SESSION = (
    "sample",
    "elicit (form)",
    "elicit (URL)",
    "roots",
    "roots changed",
    "resumed",
    "told once",
    "result",
)
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}

Side = Literal["client", "server", "session"]
Transport = Literal["stdio", "http"]
Era = Literal["legacy", "modern", "auto"]
CELLS: dict[Side, tuple[str, ...]] = {"client": _BETWEEN, "server": _BETWEEN, "session": _SESSION}


@dataclass(frozen=True)
class Wire:
    """A transport, and how the client is told to choose the era: by name, or by finding out."""

    transport: Transport
    era: Era

    def __str__(self) -> str:
        return f"{self.transport}, {self.era}"


def wires(
    transports: Iterable[Transport] = ("stdio", "http"), eras: Iterable[Era] = ("legacy", "modern")
) -> tuple[Wire, ...]:
    """Each transport with each era."""
    eras = tuple(eras)
    return tuple(Wire(transport, era) for transport in transports for era in eras)


@dataclass(frozen=True)
class Cannot:
    """Cells that a peer does not have, and why. eras, transports: where that is so; empty for everywhere."""

    cells: tuple[str, ...]
    reason: str
    eras: tuple[Era, ...] = ()
    transports: tuple[Transport, ...] = ()

    def holds(self, wire: Wire, cell: str) -> bool:
        return (
            cell in self.cells
            and (not self.eras or wire.era in self.eras)
            and (not self.transports or wire.transport in self.transports)
        )


@dataclass(frozen=True)
class Peer:
    """A foreign toolkit or program, in its exact version. side: what the peer is; backchannel is the other. A "session"
    is one of its clients, which does everything in one session."""

    name: str
    version: str
    side: Side
    wires: tuple[Wire, ...]
    cannot: tuple[Cannot, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def reason(self, wire: Wire, cell: str) -> str | None:
        """Why the peer cannot do this, or None if it can."""
        return next((cannot.reason for cannot in self.cannot if cannot.holds(wire, cell)), None)


Key = tuple[Peer, Wire, str]
"""One cell of the matrix."""


def possible(peers: Iterable[Peer]) -> Iterator[Key]:
    """The cells that are tests."""
    for peer in peers:
        for wire in peer.wires:
            yield from ((peer, wire, cell) for cell in CELLS[peer.side] if peer.reason(wire, cell) is None)


def matrix(peers: Iterable[Peer]) -> pytest.MarkDecorator:
    """Parametrises a test by `peer`, `wire` and `cell`. The page finds the same peers in the module's `PEERS`."""
    cells = [
        pytest.param(peer, wire, cell, id=f"{peer.name}-{wire.transport}-{wire.era}-{cell}")
        for peer, wire, cell in possible(peers)
    ]
    return pytest.mark.parametrize(("peer", "wire", "cell"), cells)
