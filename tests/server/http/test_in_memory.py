"""What replicas in one process share."""

import pytest

from backchannel import ConfigurationError, Fleet, MemoryBus, MemoryEvents, MemorySessions, Server, http_app, run
from backchannel.protocol.jsonrpc import Notification
from backchannel.server.http.fleet import Bus, EventStore, SessionStore
from backchannel.server.http.session import STANDING

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def test_a_record_is_changed_by_names_and_lasts_for_its_time() -> None:
    now = 0.0
    sessions = MemorySessions(clock=lambda: now)
    await sessions.write("a", {}, 10)
    assert await sessions.read("a") == {} and len(sessions) == 0, "nothing begins without a text"
    await sessions.write("a", {"one": "1", "two": None}, 10)
    await sessions.write("a", {"three": "", "one": None}, 10)
    assert await sessions.read("a") == {"three": ""}
    now = 9.0
    await sessions.write("a", {}, 10)
    now = 18.0
    assert await sessions.read("a") == {"three": ""}
    now = 19.0
    assert await sessions.read("a") == {}
    await sessions.write("a", {"four": "4"}, 10)
    assert await sessions.read("a") == {"four": "4"}, "and nothing of what was"
    await sessions.delete("a")
    await sessions.delete("a")
    assert await sessions.read("a") == {} and len(sessions) == 0


async def test_records_that_are_over_take_no_room() -> None:
    now = 0.0
    sessions = MemorySessions(clock=lambda: now)
    for number in range(100):
        now = float(number)
        await sessions.write(str(number), {"n": "1"}, 10)
    assert len(sessions) == 10


async def test_a_record_that_was_read_does_not_change() -> None:
    sessions = MemorySessions()
    await sessions.write("a", {"one": "1"}, 10)
    record = await sessions.read("a")
    await sessions.write("a", {"one": "2"}, 10)
    assert record == {"one": "1"}


async def test_a_bus_hands_to_who_listens() -> None:
    bus, heard = MemoryBus(), []

    def once(data: bytes) -> None:
        heard.append(("once", data))
        bus.unsubscribe("t", once)

    def always(data: bytes) -> None:
        heard.append(("always", data))

    await bus.publish("t", b"0")
    await bus.subscribe("t", once)
    await bus.subscribe("t", always)
    await bus.publish("t", b"1")
    await bus.publish("other", b"2")
    await bus.publish("t", b"3")
    assert heard == [("once", b"1"), ("always", b"1"), ("always", b"3")]
    bus.unsubscribe("t", always)
    bus.unsubscribe("t", always)
    assert bus._topics == {}


async def test_streams_are_found_by_session_and_name() -> None:
    events = MemoryEvents()
    stream = events.new()
    events.add("a", "1", stream)
    assert await events.find("a", "1") is stream
    assert await events.find("a", "2") is None and await events.find("b", "1") is None
    events.drop("a", "2")
    events.drop("b")
    events.drop("a", "1")
    assert await events.find("a", "1") is None


async def test_a_session_leaves_with_all_its_streams() -> None:
    events = MemoryEvents()
    streams = {name: events.new() for name in (STANDING, "1", "2")}
    for name, stream in streams.items():
        events.add("a", name, stream)
        events.add("b", name, events.new())
    assert [await events.find("a", name) for name in streams] == list(streams.values())
    events.drop("a", STANDING)
    assert [await events.find("a", name) is None for name in streams] == [True, False, False]
    events.add("a", STANDING, events.new())
    events.drop("a")
    assert [await events.find("a", name) for name in streams] == [None] * 3
    assert None not in [await events.find("b", name) for name in streams]


async def test_of_those_that_have_ended_only_the_last_are_kept() -> None:
    events = MemoryEvents()
    for number in range(1, 101):
        stream = events.new()
        events.add("a", str(number), stream)
        if number % 2:
            stream.append(Notification("unread"))
        stream.close()
    kept = [number for number in range(1, 101) if await events.find("a", str(number)) is not None]
    assert kept == [*range(1, 84, 2), *range(84, 101)], (
        "all that nobody has read yet, and eight of the others, and the last"
    )


async def test_they_are_what_the_seams_say() -> None:
    seams: tuple[SessionStore, EventStore, Bus] = MemorySessions(), MemoryEvents(), MemoryBus()
    http_app(Server("test"), fleet=Fleet(*seams))


async def test_workers_have_sessions_only_in_a_fleet() -> None:
    with pytest.raises(ConfigurationError, match="fleet="):
        run(Server("test"), http="127.0.0.1:0", workers=2, sessions=True)
