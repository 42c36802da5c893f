"""When the page of the matrix is written, and what is on it."""

from __future__ import annotations

from tests.interop.cells import CELLS, Cannot, Peer, Wire, possible, wires
from tests.interop.page import page, whole

CLIENT = Peer(
    "theirs",
    "1.2.3",
    "client",
    wires(("http",)),
    (Cannot(("sample", "roots"), "It never asks."), Cannot(("roots",), "It has none.", ("modern",), ("http",))),
)
SERVER = Peer("other", "4.5.6", "server", (Wire("stdio", "auto"),), (Cannot(("cancel",), "It is deaf."),))
SESSION = Peer("theirs", "1.2.3", "session", wires(("http",), ("legacy",)))
PEERS = [SERVER, CLIENT, SESSION]
RESULTS = dict.fromkeys(possible(PEERS), True)


def test_a_cell_that_cannot_be_is_no_test() -> None:
    assert {cell for peer, _, cell in RESULTS if peer is CLIENT} == set(CELLS["client"]) - {"sample", "roots"}
    assert len(RESULTS) == 2 * 8 + 9 + 8


def test_a_whole_run_has_every_side_and_every_cell() -> None:
    assert whole(PEERS, RESULTS)
    for missing in RESULTS:
        assert not whole(PEERS, {key: passed for key, passed in RESULTS.items() if key != missing})
    for peers in ([CLIENT], [SESSION], [CLIENT, SERVER]):
        assert not whole(peers, {key: True for key in RESULTS if key[0] in peers})
    assert not whole([], {})


def test_what_is_on_it() -> None:
    failing = (CLIENT, Wire("http", "modern"), "error")
    text = page(PEERS, {**RESULTS, failing: False})
    theirs, ours, sessions = text.split("\n## ")[1:]
    assert "| `theirs` 1.2.3 | http, legacy |" + " ✓ |" * 8 + " – (1) | – (1) |\n" in theirs
    assert (
        "| `theirs` 1.2.3 | http, modern |" + " ✓ |" * 3 + " **fails** |" + " ✓ |" * 4 + " – (1) | – (1) |\n" in theirs
    )
    assert theirs.endswith("|\n\n1. It never asks.\n")
    assert "| `other` 4.5.6 | stdio, auto |" + " ✓ |" * 5 + " – (1) |" + " ✓ |" * 4 + "\n" in ours
    assert ours.endswith("|\n\n1. It is deaf.\n")
    assert sessions.endswith("| `theirs` 1.2.3 | http, legacy |" + " ✓ |" * 8 + "\n")
    assert page(reversed(PEERS), {**RESULTS, failing: False}) == text
