"""Fixtures for every test. An async test is marked `@pytest.mark.anyio` and runs on both event loops."""

import pytest

pytest_plugins = ["backchannel.testing.plugin"]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop under an async test. A test of HTTP, which is asyncio only, parametrises it for itself."""
    backend: str = request.param
    return backend
