"""Foreign clients against our server: what each saw in each cell.

How it works: a script in `clients` is a client that goes through all its cells on one wire and prints what it saw in
each. Every script that the chosen tests need is run once for each wire, two at a time, and the tests look at what was
printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.interop import node
from tests.interop.cells import VERSIONS, Cannot, Peer, Wire, matrix, wires

HERE = Path(__file__).parent
SERVER = [sys.executable, "-m", "backchannel", "run", str(HERE / "our_server.py")]
AT_ONCE = 2
LIMIT = 120.0  # seconds that a client has for all its cells
STARTING = 30.0  # seconds that our server has until it can be connected to
STOPPING = 10.0  # seconds that it has to end

THREE = wires(eras=("legacy", "auto", "modern"))


def npm_peer(name: str, wires: tuple[Wire, ...], *cannot: Cannot) -> Peer:
    return Peer(name, node.PACKAGES[name], "client", wires, cannot)


SDK = Peer("mcp", metadata.version("mcp"), "client", THREE)
FAST = Peer("fastmcp", metadata.version("fastmcp"), "client", THREE)
TYPESCRIPT = npm_peer("@modelcontextprotocol/client", THREE)
TYPESCRIPT_V1 = npm_peer("@modelcontextprotocol/sdk", wires(eras=("legacy",)))
INSPECTOR = npm_peer(
    "@modelcontextprotocol/inspector",
    THREE,
    Cannot(("progress",), "Its command line shows no progress."),
    Cannot(("elicit (form)", "elicit (decline)", "sample"), "Its command line cannot be asked."),
    Cannot(("cancel",), "Only Ctrl-C cancels, and ends the server that was launched.", transports=("stdio",)),
    Cannot(("cancel",), "Only Ctrl-C cancels, which a session takes for a lost connection.", ("legacy",), ("http",)),
)
SCRIPTS = {
    SDK: "sdk.py",
    FAST: "fast.py",
    TYPESCRIPT: "typescript.mjs",
    TYPESCRIPT_V1: "typescript_v1.mjs",
    INSPECTOR: "inspector.py",
}
PEERS = list(SCRIPTS)

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
SEEN: dict[str, Any] = {
    "list": {
        "add": {"a": NUMBER, "b": NUMBER},
        "weather": {"city": TEXT},
        "fail": {},
        "brew": {"id": TEXT},
        "sip": {"id": TEXT},
        "order": {"item": TEXT},
        "haiku": {"topic": TEXT},
        "where": {},
        "hang": {"id": TEXT},
        "begun": {"id": TEXT},
        "outcome": {"id": TEXT},
        "banquet": {"id": TEXT},
        "pay": {"id": TEXT},
    },
    "structured output": {"city": "Oslo", "celsius": 21.5, "sunny": True},
    "error": {"error": True, "text": "no beans left"},
    "progress": {"reports": [[1, 3, "grind"], [2, 3, "heat"], [3, 3, "pour"]], "text": "brewed"},
    # What the handler told of its own end.
    "cancel": "cancelled",
    "elicit (form)": {"asked": [["Which coffee?", ["cups", "size"]]], "text": "2 large coffee"},
    "elicit (decline)": {"asked": [["Which tea?", ["cups", "size"]]], "text": "Declined: no tea"},
    "sample": {"asked": [["A haiku about coffee", 50]], "text": "poet-1: Steam, then silence."},
    "roots": "file:///home/me/kitchen",
}


def seen(wire: Wire, cell: str) -> Any:
    """What every client has to see. The call tells which protocol version it came in."""
    return f"5 in {VERSIONS['legacy' if wire.era == 'legacy' else 'modern']}" if cell == "call" else SEEN[cell]


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a group, and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Served:
    """Our server behind HTTP, in a process of its own."""

    def __init__(self) -> None:
        self._up = threading.Event()
        self.url, self.log = "", ""
        self._process = subprocess.Popen(
            [*SERVER, "--http", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if not self._up.wait(STARTING) or not self.url:
            self.stop()
            raise RuntimeError(f"our server did not come up: {self.log}")

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                if " is served at " in line:
                    self.url = line.partition(" is served at ")[2].strip()
                    self._up.set()
                else:
                    self.log += line
        self._up.set()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()


class Runs:
    """The runs of the clients' scripts. folder: for what they say."""

    def __init__(self, chosen: list[tuple[Peer, Wire]], url: str, folder: Path):
        self._url, self._folder = url, folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._futures: dict[tuple[Peer, Wire], Future[dict[str, Any]]] = {
            (peer, wire): self._pool.submit(self._run, peer, wire) for peer, wire in chosen
        }

    def saw(self, peer: Peer, wire: Wire) -> dict[str, Any]:
        """Cell -> what the client saw in it."""
        return self._futures[peer, wire].result()

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _run(self, peer: Peer, wire: Wire) -> dict[str, Any]:
        script = HERE / "clients" / SCRIPTS[peer]
        name = f"{script.stem}-{wire.transport}-{wire.era}"
        options = {
            "transport": wire.transport,
            "era": wire.era,
            "name": name,
            "url": self._url,
            "command": SERVER,
            "inspector": node.program(INSPECTOR.name, "clients/launcher/build/index.js", "--cli"),
        }
        command = [sys.executable, str(script)] if script.suffix == ".py" else node.script(script)
        errors = self._folder / f"{name}.log"
        with errors.open("wb") as log:
            process = subprocess.Popen(
                [*command, json.dumps(options)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                # Nothing is to be kept in a home directory, or with a keychain.
                env={**os.environ, "HOME": str(self._folder), "MCP_INSPECTOR_SECRET_STORE": "memory"},
                start_new_session=True,
            )
            with process:
                try:
                    output, _ = process.communicate(timeout=LIMIT)
                except subprocess.TimeoutExpired:
                    end(process)
                    output, _ = process.communicate()
                finally:
                    end(process)
        lines = [json.loads(line) for line in output.splitlines()]
        return {line["cell"]: line["saw"] for line in lines} | {"stderr": errors.read_text(encoding="utf-8")}


@pytest.fixture(scope="module")
def runs(npm: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The runs that the chosen tests need, which have begun."""
    chosen: dict[tuple[Peer, Wire], None] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec"):
            parameters: dict[str, Any] = item.callspec.params
            if "wire" in parameters:
                chosen[parameters.get("peer", INSPECTOR), parameters["wire"]] = None
    served = Served()
    try:
        runs = Runs(list(chosen), served.url, tmp_path_factory.mktemp("interop"))
        try:
            yield runs
        finally:
            runs.stop()
    finally:
        served.stop()
    assert served.log == ""  # our server had nothing to complain of


@matrix(PEERS)
def test_cell(runs: Runs, peer: Peer, wire: Wire, cell: str) -> None:
    saw = runs.saw(peer, wire)
    assert cell in saw, saw["stderr"]
    assert saw[cell] == seen(wire, cell), saw["stderr"]


@pytest.mark.parametrize("wire", wires(("http",)), ids=str)
def test_the_inspector_cannot_be_asked(runs: Runs, wire: Wire) -> None:
    saw = runs.saw(INSPECTOR, wire)
    assert "did not declare the capability 'elicitation'" in saw["elicit (form)"]
    assert "did not declare the capability 'sampling'" in saw["sample"]
