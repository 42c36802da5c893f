"""Node.js and its packages for the matrix, and the page that a whole run of it writes."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.interop import node, page
from tests.interop.cells import Key, Peer

RESULTS = pytest.StashKey[dict[Key, bool]]()
"""Whether each cell that ran has passed."""


@pytest.fixture(scope="session")
def npm() -> None:
    """The npm packages are there: `node.script` and `node.program` work."""
    node.install()


def key(item: pytest.Item) -> Key | None:
    """The cell that a test is."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return None
    parameters: dict[str, Any] = item.callspec.params
    return (parameters["peer"], parameters["wire"], parameters["cell"]) if "cell" in parameters else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cell = key(item)
    if cell is not None and (report.when == "call" or report.failed):
        results = item.session.stash.setdefault(RESULTS, {})
        if not report.skipped:
            results[cell] = results.get(cell, True) and report.passed
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the page, unless this was a part of the matrix only."""
    results = session.stash.get(RESULTS, {})
    peers: list[Peer] = []
    for item in session.items:
        if key(item) is not None and isinstance(item, pytest.Function):
            peers += [peer for peer in item.module.PEERS if peer not in peers]
    if page.whole(peers, results):
        page.PAGE.write_text(page.page(peers, results), encoding="utf-8")
