"""Fixtures for every test. An async test is marked `@pytest.mark.anyio` and runs on both event loops."""

import signal

import pytest

# Ignored, as in the background of a shell, it would be ignored by the processes that tests start too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["backchannel.testing.plugin"]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop under an async test. A test of HTTP, which is asyncio only, parametrises it for itself."""
    backend: str = request.param
    return backend
