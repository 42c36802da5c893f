"""Flows, run for real."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from backchannel.client.auth.driver import World, drive
from backchannel.client.auth.steps import (
    Fetch,
    Fetched,
    Flow,
    ListenForRedirect,
    Load,
    Now,
    OpenBrowser,
    Random,
    Save,
    WaitForRedirect,
)
from backchannel.client.auth.stores import MemoryStore
from backchannel.errors import ConfigurationError, ConnectionFailed, LoginFailed

pytestmark = pytest.mark.anyio


async def fetch(request: Fetch) -> Fetched:
    if request.url.endswith("fails"):
        raise ConnectionFailed("no network")
    return Fetched(200, {}, request.body, request.url)


class Redirect:
    """Listens, and is told what it is asked."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.uri = "http://127.0.0.1:1/callback"

    @asynccontextmanager
    async def listen(self, wanted: str | None) -> AsyncIterator["Redirect"]:
        self.log.append(("listen", wanted))
        try:
            yield self
        finally:
            self.log.append("end")

    async def show(self, url: str) -> None:
        self.log.append(("show", url))

    async def wait(self) -> dict[str, str]:
        self.log.append("wait")
        if self.log.count("wait") > 1:
            await anyio.sleep_forever()
        return {"code": "c"}


def world(**more: Any) -> World:
    return World(fetch, MemoryStore(), **{"now": lambda: 5.0, "random": lambda n: b"r" * n, **more})


async def test_each_step_gets_what_it_asks_for() -> None:
    def flow() -> Flow[list[Any]]:
        got = [(yield Now()), (yield Random(3)), (yield Load("k"))]
        yield Save("k", b"v")
        got += [(yield Load("k")), (yield Fetch("GET", "https://a.test", {}, b"body"))]
        got += [(yield ListenForRedirect("before")), (yield OpenBrowser("u")), (yield WaitForRedirect("r"))]
        return got

    redirect = Redirect()
    assert await drive(flow(), world(redirect=redirect)) == [
        5.0,
        b"rrr",
        None,
        b"v",
        Fetched(200, {}, b"body", "https://a.test"),
        redirect.uri,
        None,
        {"code": "c"},
    ]
    assert redirect.log == [("listen", "before"), ("show", "u"), "wait", "end"]


async def test_a_flow_without_steps_has_a_result_too() -> None:
    def flow() -> Flow[int]:
        return 7
        yield

    assert await drive(flow(), world()) == 7


async def test_what_fails_is_raised_in_the_flow_which_may_go_on() -> None:
    def flow() -> Flow[bytes]:
        with pytest.raises(ConnectionFailed):
            yield Fetch("GET", "https://a.test/fails")
        response: Fetched = yield Fetch("GET", "https://a.test", {}, b"second")
        return response.body

    assert await drive(flow(), world()) == b"second"


async def test_what_the_flow_raises_leaves_bare() -> None:
    def flow() -> Flow[None]:
        yield ListenForRedirect()
        raise LoginFailed("no")

    redirect = Redirect()
    with pytest.raises(LoginFailed, match="^no$"):
        await drive(flow(), world(redirect=redirect))
    assert redirect.log[-1] == "end"


async def test_the_end_of_time_is_raised_in_the_flow() -> None:
    async def wait() -> dict[str, str]:
        raise TimeoutError

    def flow() -> Flow[str]:
        try:
            yield WaitForRedirect("r")
        except TimeoutError:
            return "late"
        return "in time"

    redirect = Redirect()
    redirect.wait = wait  # type: ignore[method-assign]
    assert await drive(flow(), world(redirect=redirect)) == "late"


async def test_where_nobody_can_log_in_it_says_so() -> None:
    def flow() -> Flow[None]:
        yield ListenForRedirect()

    with pytest.raises(LoginFailed, match="nobody to ask"):
        await drive(flow(), world())


async def test_a_cancelled_flow_is_closed_and_listens_no_more() -> None:
    closed = []

    def flow() -> Flow[None]:
        try:
            while True:
                yield WaitForRedirect("r")
        finally:
            closed.append(True)

    redirect = Redirect()
    with anyio.move_on_after(0.0):
        await drive(flow(), world(redirect=redirect))
    async with anyio.create_task_group() as group:
        group.start_soon(drive, flow(), world(redirect=redirect))
        while redirect.log.count("wait") < 2:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert closed and redirect.log[-1] == "end"


async def test_what_cannot_be_stored_is_said_and_used_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryStore):
        async def save(self, key: str, value: bytes | None) -> None:
            raise OSError(28, "hidden")

    def flow() -> Flow[str]:
        yield Save("k", b"hidden")
        return "done"

    with caplog.at_level(logging.WARNING, "backchannel.client"):
        assert await drive(flow(), World(fetch, Full())) == "done"
    assert "cannot be stored" in caplog.text and "hidden" not in caplog.text


async def test_what_cannot_be_read_is_an_error() -> None:
    class Broken(MemoryStore):
        async def load(self, key: str) -> bytes | None:
            raise PermissionError(13, "hidden")

    def flow() -> Flow[None]:
        yield Load("k")

    with pytest.raises(ConfigurationError, match="PermissionError") as caught:
        await drive(flow(), World(fetch, Broken()))
    assert "hidden" not in str(caught.value)


async def test_by_default_the_clock_and_the_randomness_are_the_systems() -> None:
    def flow() -> Flow[tuple[float, bytes, bytes]]:
        return (yield Now()), (yield Random(16)), (yield Random(16))

    given: Callable[[Fetch], Any] = fetch
    now, one, other = await drive(flow(), World(given, MemoryStore()))
    assert now > 1.7e9 and len(one) == 16 and one != other
