"""HTTP is served on asyncio only."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves is noticed at once."""
    monkeypatch.setattr("backchannel.server.http.responses._MOMENT", 0.0)
