"""Functions of the user's that give an identity."""

import threading
from typing import Any

import pytest

from backchannel.client.auth.driver import World, drive
from backchannel.client.auth.stores import MemoryStore
from backchannel.client.auth.supplied import Supplier, given, text_of
from backchannel.errors import ConfigurationError, LoginFailed

pytestmark = pytest.mark.anyio


async def text(supplier: Any) -> str:
    async def nothing(request: Any) -> Any:
        raise AssertionError

    return await drive(text_of(supplier), World(nothing, MemoryStore()))


async def coroutine() -> str:
    return "a"


@pytest.mark.parametrize("supplier", [lambda: "a\n", coroutine, lambda: coroutine(), "a"])
async def test_what_gives_a_text(supplier: str | Supplier) -> None:
    assert await text(supplier) == "a"


async def test_a_function_that_may_block_runs_in_a_thread() -> None:
    assert await text(lambda: threading.current_thread().name) != threading.current_thread().name


@pytest.mark.parametrize("result", [None, b"a", "", " \n"])
async def test_what_is_no_text(result: Any) -> None:
    with pytest.raises(LoginFailed, match="has returned no text"):
        await text(lambda: result)


async def test_a_failure_is_a_failed_login_that_shows_no_secret() -> None:
    def fails() -> str:
        raise OSError("s3cret")

    with pytest.raises(LoginFailed, match="failed: OSError") as failure:
        await text(fails)
    assert "s3cret" not in str(failure.value)
    assert isinstance(failure.value.__cause__, OSError)


def test_what_is_neither_text_nor_function() -> None:
    with pytest.raises(ConfigurationError, match="an identity is a text, or a function"):
        given("an identity", b"a")  # type: ignore[arg-type]
