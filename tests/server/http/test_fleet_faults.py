"""What replicas share fails, or takes for ever: it is logged and answered, and what needs nobody else goes on."""

import logging
from typing import Any

import anyio
import pytest

from backchannel import Fleet, MemoryBus, MemoryEvents, MemorySessions
from backchannel.server.http import fleet as seams
from tests.server.http.replicas import Replicas, replicas
from tests.server.http.test_fleet import Shops, owners
from tests.server.http.wire import FORMS, accept, call, notification, request, text

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


class Faulty:
    """Passes on to what is shared, until it fails or hangs.

    only: the step that does; None: all.
    """

    def __init__(self, inner: Any):
        self.inner, self.how, self.only = inner, "", ""

    def fail(self, how: str, only: str = "") -> None:
        self.how, self.only = how, only

    def __getattr__(self, name: str) -> Any:
        step = getattr(self.inner, name)
        if name in ("unsubscribe", "new", "add", "drop"):
            return step

        async def run(*args: Any) -> Any:
            if self.how and self.only in ("", name):
                if self.how == "hangs":
                    await anyio.sleep_forever()
                raise ConnectionError(f"{name} failed")
            return await step(*args)

        return run


class World:
    def __init__(self) -> None:
        self.store, self.bus = Faulty(MemorySessions()), Faulty(MemoryBus())
        self.events = Faulty(MemoryEvents())
        self.shops = Shops()

    def run(self) -> Any:
        fleet = Fleet(self.store, self.events, self.bus)  # type: ignore[arg-type]
        return replicas(self.shops, lambda: fleet)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seams, "PATIENCE", 0.01)


async def refused(response: Any, id: Any = None) -> None:
    assert response.status == 503
    error = await response.json()
    assert error.get("id") == id
    assert error["error"]["code"] == -32603 and "try again" in error["error"]["message"]


@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.parametrize("what", ["store", "bus"])
async def test_a_session_cannot_begin(what: str, how: str, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    async with world.run() as there:
        await there.session()
        getattr(world, what).fail(how)
        response = await there.post(request("initialize", INITIALIZE, 7))
        assert "mcp-session-id" not in response.headers
        await refused(response, 7)
        assert [record.levelno for record in caplog.records if record.name == "backchannel.http"] == [logging.ERROR]
        getattr(world, what).fail("")
        await there.session()


@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.parametrize("what", ["store", "bus", "events"])
async def test_a_session_of_another_replica_cannot_be_reached(what: str, how: str) -> None:
    world = World()
    async with world.run() as there:
        session = await there.session(FORMS)
        getattr(world, what).fail(how)
        there.at(2)
        await refused(await session.post(call("log", id=5)), 5)
        there.at(2)
        await refused(await session.http("GET"))
        there.at(2)
        await refused(await session.http("DELETE"))
        there.at(0)
        assert text(await (await session.post(call("log", id=6))).json()) == "logged", "what is here goes on"
        getattr(world, what).fail("")
        there.at(2)
        assert text(await (await session.post(call("log", id=5))).json()) == "logged"


async def elsewhere(there: Replicas, session: Any) -> tuple[Any, Any]:
    """A question that waits, and its stream; the next request goes to another replica."""
    await session.post(call("log", id=0))
    response = await session.post(call("ask", id="a"))
    question = await response.message()
    [running] = owners(there, session.id)
    there.at(running + 1)
    return response, question


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_an_answer_that_cannot_be_handed_on_is_refused_and_may_come_again(how: str) -> None:
    world = World()
    async with world.run() as there:
        session = await there.session(FORMS)
        response, question = await elsewhere(there, session)
        world.bus.fail(how)
        await refused(await session.answer(question, accept(value="Ada")))
        world.bus.fail("")
        assert (await session.answer(question, accept(value="Ada"))).status == 202
        assert text(await response.message()) == "Ada"


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_level_that_cannot_be_kept_is_an_error(how: str) -> None:
    world = World()
    async with world.run() as there:
        session = await there.session()
        there.at(0)
        world.store.fail(how, "write")
        await refused(await session.post(request("logging/setLevel", {"level": "info"}, 3)), 3)


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_what_one_replica_tells_reaches_its_own(how: str) -> None:
    world = World()
    async with world.run() as there:
        session = await there.session()
        there.at(0)
        listening = await session.http("GET")
        world.bus.fail(how)
        assert await there.servers[0].notify.tools_changed() == 1
        assert (await listening.message())["method"] == "notifications/tools/list_changed"
        assert await there.servers[1].notify.tools_changed() == 0


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_delete_that_cannot_be_done_is_refused_and_the_session_goes_on(how: str) -> None:
    world = World()
    async with world.run() as there:
        session = await there.session()
        there.at(0)
        world.store.fail(how, "delete")
        await refused(await session.http("DELETE"))
        world.store.fail("")
        assert (await session.post(call("log"))).status == 200
        assert (await session.http("DELETE")).status == 200


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_lookup_that_fails_now_and_then_stops_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, now = World(), 0.0
    async with world.run() as there:
        session = await there.session()
        [first, *_] = there.apps
        monkeypatch.setattr(first.sessions, "_clock", lambda: now)
        for place in first.sessions._sessions.values():
            place.used = place.seen = 0.0
        world.store.fail(how)
        now += 100
        there.at(0)
        assert (await session.post(call("log"))).status == 200
        await first.sessions.tend()
        there.at(0)
        assert (await session.post(call("log"))).status == 200


async def test_a_server_starts_without_its_bus() -> None:
    world = World()
    world.bus.fail("fails")
    async with world.run() as there:
        await there.apps[0].open()
        await refused(await there.post(request("initialize", INITIALIZE)), 1)
        world.bus.fail("")
        for app in there.apps:
            await app.open()
            await app.sessions.tend()
        session = await there.session()
        listening = await session.http("GET")
        await there.servers[1].notify.tools_changed()
        assert (await listening.message())["method"] == "notifications/tools/list_changed"


async def test_words_that_cannot_be_read_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    async with world.run() as there:
        session = await there.session()
        for topic in (session.id, "changes/shop"):
            for data in (b"", b"{}", b"[" * 100_000, b'{"place": 1}', b"\xff"):
                await world.bus.publish(topic, data)
        assert {record.levelno for record in caplog.records if record.name == "backchannel.http"} == {logging.ERROR}
        assert (await session.post(call("log"))).status == 200
        assert (await session.post(notification("notifications/cancelled", {"requestId": "nobody's"}))).status == 202
