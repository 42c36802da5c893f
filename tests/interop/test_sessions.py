"""Foreign clients in one whole session each with our server: questions of every kind, and a call whose connection is
let go of.

How it works: a script in `clients` has the session, and prints what its application was asked and told. The server runs
here, behind HTTP, so that what the handler saw and which requests the client made is at hand. All sessions are had at
once, when the first test needs one, and the tests look at what came of them.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import pytest

from backchannel import http_app
from tests.interop import node
from tests.interop.cells import VERSIONS, Peer, Wire, matrix, wires
from tests.interop.our_server import Call, Order, calls, server
from tests.interop.recorded import Recorded, Visit
from tests.server.http.wire import serving

HERE = Path(__file__).parent
LIMIT = 120.0  # seconds that a client has for its session
HTTP = wires(("http",), ("legacy",))
SDK = Peer("mcp", metadata.version("mcp"), "session", HTTP)
FAST = Peer("fastmcp", metadata.version("fastmcp"), "session", HTTP)
TYPESCRIPT_V1 = Peer("@modelcontextprotocol/sdk", node.PACKAGES["@modelcontextprotocol/sdk"], "session", HTTP)
SCRIPTS = {SDK: "sdk_session.py", FAST: "fast_session.py", TYPESCRIPT_V1: "typescript_v1_session.mjs"}
PEERS = list(SCRIPTS)
ROOT, MOVED = "file:///home/me/kitchen", "file:///home/me/garden"


@dataclass
class Had:
    """A session that was had. name: the id of its call.  call: what its handler wrote down.  printed, errors: what the
    client's script said.  visits: the requests that the client made.
    """

    name: str
    call: Call
    printed: str
    errors: str
    visits: list[Visit]

    def client(self, what: str) -> list[Any]:
        """What its application was asked, or heard."""
        return json.loads(self.printed)[what]

    def asked(self, kind: str) -> list[Any]:
        return [rest for which, *rest in self.client("asked") if which == kind]

    @property
    def connections(self) -> list[Visit]:
        """Those of the long call, in order."""
        (first,) = [visit for visit in self.visits if b'"A name for a soup"' in visit.body]
        return [first, *(visit for visit in self.visits if visit.cursor and not visit.cursor.startswith("0-"))]


class Complaints(logging.Handler):
    """What our server logs from WARNING on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


async def have(peer: Peer, had: dict[Peer, Had]) -> None:
    """Have one session."""
    script = HERE / "clients" / SCRIPTS[peer]
    command = [sys.executable, str(script)] if script.suffix == ".py" else node.script(script)
    recorded, name, printed, errors = Recorded(http_app(server)), script.stem, b"", b"it took too long"
    async with serving(recorded) as port:
        options = {"url": f"http://127.0.0.1:{port}/mcp", "name": name}
        with anyio.move_on_after(LIMIT):  # which ends the process
            ended = await anyio.run_process([*command, json.dumps(options)], stdin=subprocess.DEVNULL, check=False)
            printed, errors = ended.stdout, ended.stderr
    had[peer] = Had(name, calls[name], printed.decode(), errors.decode(), recorded.visits)


async def have_all() -> dict[Peer, Had]:
    had: dict[Peer, Had] = {}
    async with anyio.create_task_group() as group:
        for peer in PEERS:
            group.start_soon(have, peer, had)
    return had


@pytest.fixture(scope="module")
def sessions(npm: None) -> dict[Peer, Had]:
    """Every session, after its end."""
    complaints = Complaints()
    logging.getLogger("backchannel").addHandler(complaints)
    try:
        had = anyio.run(have_all)
    finally:
        logging.getLogger("backchannel").removeHandler(complaints)
    assert complaints.lines == []
    return had


def sample(had: Had) -> None:
    assert had.asked("sample") == [["A name for a soup", 20]]
    assert had.call.saw["sample"] == "poet-1: Steam, then silence."


def form(had: Had) -> None:
    assert had.asked("form") == [["Which coffee?", ["cups", "size"]], ["Still hungry?", ["value"]]]
    assert had.call.saw["form"] == Order("large", 2)


def page(had: Had) -> None:
    ((message, url, id),) = had.asked("page")
    assert (message, url) == ("Pay for it", f"https://kitchen.example/{had.name}")
    assert ["notifications/elicitation/complete", id] in had.client("heard")
    assert had.call.saw["page"] == "Accepted, paid"


def roots(had: Had) -> None:
    assert had.call.saw["roots"] == [ROOT]


def roots_changed(had: Had) -> None:
    assert had.call.saw["roots, changed"] == had.call.saw["known roots"] == [ROOT, MOVED]


def resumed(had: Had) -> None:
    assert [(visit.method, visit.status) for visit in had.connections] == [("POST", 200), ("GET", 200), ("GET", 200)]
    first, second, third = had.connections
    # It came back with the last id, and got what comes after it; the question was asked while it was away.
    assert second.cursor == first.ids[-1]
    assert third.cursor == second.ids[-1]
    assert b"it cooks" in second.body and b"Still hungry?" in second.body
    assert b"it is eaten" in third.body and b'"result"' in third.body
    ids = [*first.ids, *second.ids, *third.ids]
    assert len(set(ids)) == len(ids)
    assert had.call.saw["form, away"] is True


def told_once(had: Had) -> None:
    ((*_, id),) = had.asked("page")
    assert had.client("heard") == [
        ["progress", 1, 4, "ask"],
        ["notifications/elicitation/complete", id],
        ["progress", 2, 4, "cook"],
        ["log", "info", "it cooks"],
        ["progress", 3, 4, "serve"],
        ["progress", 4, 4, "eat"],
        ["log", "info", "it is eaten"],
    ]
    assert had.client("reports") == [[1, 4, "ask"], [2, 4, "cook"], [3, 4, "serve"], [4, 4, "eat"]]
    assert [kind for kind, *_ in had.client("asked")] == ["sample", "form", "page", "form"]


def result(had: Had) -> None:
    assert had.client("result") == "Steam, then silence. 2 large coffee"
    assert had.call.runs == 1
    assert had.call.saw["version"] == VERSIONS["legacy"]
    # One session, which the client has ended.
    assert had.visits[0].session == ""
    assert len({visit.session for visit in had.visits[1:]}) == 1
    assert [visit.status for visit in had.visits if visit.method == "DELETE"] == [200]


CHECKS: dict[str, Callable[[Had], None]] = {
    "sample": sample,
    "elicit (form)": form,
    "elicit (URL)": page,
    "roots": roots,
    "roots changed": roots_changed,
    "resumed": resumed,
    "told once": told_once,
    "result": result,
}


@matrix(PEERS)
def test_cell(sessions: dict[Peer, Had], peer: Peer, wire: Wire, cell: str) -> None:
    had = sessions[peer]
    assert had.printed, had.errors
    CHECKS[cell](had)
