"""The servers that these tests talk to. HTTP is asyncio only, and so are these tests."""

import re
import signal
from collections.abc import Iterator

import pytest

from tests.peers.launching import HttpProcess, ServerFile


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HttpProcess]]:
    """All server files behind HTTP, started side by side."""
    folder = tmp_path_factory.mktemp("peers")
    started: dict[str, HttpProcess] = {}
    try:
        for name in ("ours", "sdk", "fast"):
            started[name] = HttpProcess(name, folder)
        yield started
    finally:
        ends = {name: process.stop() for name, process in started.items()}
    status, log = ends["ours"]
    assert status in (0, -signal.SIGTERM), log
    # Our server complained of nothing but what the tests have it complain of.
    complaints = re.findall(r"^[\w.]*(?:Error|Exception|Exit|Group)\b.*", log, re.MULTILINE)
    assert set(complaints) <= {
        "ValueError: the password is hunter2",
        "backchannel.errors.RemoteProtocolError: the window is gone",
    }


@pytest.fixture(scope="session")
def ours(processes: dict[str, HttpProcess]) -> ServerFile:
    return processes["ours"].file


@pytest.fixture(scope="session")
def sdk(processes: dict[str, HttpProcess]) -> ServerFile:
    return processes["sdk"].file


@pytest.fixture(scope="session")
def fast(processes: dict[str, HttpProcess]) -> ServerFile:
    return processes["fast"].file
