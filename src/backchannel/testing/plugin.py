"""The pytest plugin: the fixtures `connected`, which runs a test on every wire in both eras, and `fake_clock`.

pytest finds it by itself where backchannel is installed; it imports nothing of it before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..client.client import Client
    from .clock import FakeClock

CELLS = [f"{era}-{wire}" for wire in ("memory", "stdio", "http") for era in ("legacy", "modern")]
"""What `connected` runs over. Fewer: `@pytest.mark.parametrize("connected", ["modern-http"], indirect=True)`."""


@pytest.fixture(params=CELLS)
def connected(request: pytest.FixtureRequest) -> Callable[..., AbstractAsyncContextManager[Client]]:
    """`connect`, for the era and wire that the test runs on: `async with connected(server, people=[...]) as client`.

    It takes a `fake_clock` that the test uses. Over HTTP, which is asyncio only, a test on trio is skipped.
    """
    from .connection import connect

    era, _, wire = request.param.partition("-")
    if wire == "http" and find_spec("uvicorn") is None:
        pytest.skip("HTTP needs the extra backchannel[http]")
    if wire == "http" and "anyio_backend" in request.fixturenames:
        backend = request.getfixturevalue("anyio_backend")
        if "trio" in (backend, backend[0]):
            pytest.skip("HTTP runs on asyncio only")
    given: dict[str, Any] = {"era": era, "wire": wire}
    if "fake_clock" in request.fixturenames:
        given["clock"] = request.getfixturevalue("fake_clock")

    def connect_here(server: Any, **options: Any) -> AbstractAsyncContextManager[Client]:
        return connect(server, **{**given, **options})

    return connect_here


@pytest.fixture
def fake_clock() -> FakeClock:
    """A FakeClock. It runs the event loop of a test if the fixture `anyio_backend` returns `fake_clock.backend()`."""
    from .clock import FakeClock

    return FakeClock()
