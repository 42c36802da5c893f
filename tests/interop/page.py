"""Writes docs/interop.md from what a whole run of the matrix found: the same page for the same findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.interop.cells import CELLS, Key, Peer, Side, Wire, possible

PAGE = Path(__file__).parents[2] / "docs" / "interop.md"

_HEAD = """\
# Interop

What works between backchannel and other toolkits, in the versions named. A whole run of `pytest tests/interop` writes
this page; `make test` includes it. Each ✓ is a test, between two processes over a real pipe or socket; each – is what
the other side cannot do, with the reason below the table.

*legacy* is 2025-11-25, *modern* is 2026-07-28, and with *auto* the client finds out. *progress* means that every report
arrives, in order; *cancel*, that the handler ends. *elicit*, *sample* and *roots* are questions of the server that the
client answers, and the handler goes on with the answer.
"""
_TITLES: dict[Side, str] = {
    "client": "## Their clients, our server\n\nThe server is `tests/interop/our_server.py`.\n",
    "server": "## Our client, their servers\n\nThey are in `tests/interop/servers`, or come from npm as they are.\n",
    "session": """\
## Whole sessions

Each of these clients has one session with the same server, over HTTP, and calls one tool in it: `banquet`, which asks
in every way there is. The person pays on the page that is opened, and the client's roots change meanwhile. Twice the
server lets go of the connection while the call runs on. *resumed* means that the client came back by itself with the id
of the last event, and answered what was asked while it was away; *told once*, that it heard every report, log message
and completed page once, in order; *result*, that the handler ran once, and the client ended its session.
""",
}


def whole(peers: Iterable[Peer], results: Mapping[Key, bool]) -> bool:
    """Whether every side was there and every cell of theirs was run."""
    peers = list(peers)
    return {peer.side for peer in peers} == set(_TITLES) and set(results) == set(possible(peers))


def page(peers: Iterable[Peer], results: Mapping[Key, bool]) -> str:
    """The page as Markdown. results: whether each cell that is a test has passed."""
    peers = sorted(peers, key=lambda peer: (peer.name, peer.version))
    parts = [_HEAD]
    for side, title in _TITLES.items():
        parts += [title, *_table(CELLS[side], [peer for peer in peers if peer.side == side], results)]
    return "\n".join(parts)


def _table(names: Sequence[str], peers: Iterable[Peer], results: Mapping[Key, bool]) -> list[str]:
    reasons: list[str] = []
    lines = ["| peer | wire |" + "".join(f" {name} |" for name in names), "| --- | --- |" + " :---: |" * len(names)]
    for peer in peers:
        for wire in peer.wires:
            cells = "".join(f" {_cell(peer, wire, cell, results, reasons)} |" for cell in names)
            lines.append(f"| `{peer.name}` {peer.version} | {wire} |{cells}")
    parts = ["\n".join(lines) + "\n"]
    if reasons:
        parts.append("".join(f"{number}. {reason}\n" for number, reason in enumerate(reasons, 1)))
    return parts


def _cell(peer: Peer, wire: Wire, cell: str, results: Mapping[Key, bool], reasons: list[str]) -> str:
    reason = peer.reason(wire, cell)
    if reason is None:
        return "✓" if results[peer, wire, cell] else "**fails**"
    if reason not in reasons:
        reasons.append(reason)
    return f"– ({reasons.index(reason) + 1})"
