"""The table of sessions, and the streams of one."""

import dataclasses

import pytest

from backchannel.protocol.jsonrpc import Notification, Request
from backchannel.server.exchange import Principal
from backchannel.server.http.in_memory import MemoryEvents
from backchannel.server.http.session import HttpSession, Reading
from backchannel.server.http.sessions import Sessions
from backchannel.server.limits import Limits
from backchannel.server.streams import EventStream

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
ALICE, BOB = Principal("alice", "issuer", "app"), Principal("bob", "issuer", "app")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def opened(sessions: Sessions, principal: Principal | None = None) -> HttpSession:
    session = sessions.new(principal)
    assert session is not None
    await sessions.keep(session, None)  # type: ignore[arg-type]  # a session of a fleet has a use for it
    return session


@pytest.mark.rule("R84")
async def test_ids_are_random_and_visible_ascii() -> None:
    sessions = Sessions(Limits())
    ids = {(await opened(sessions)).id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(id) >= 32 and all("!" <= char <= "~" for char in id) for id in ids)


async def test_a_session_has_no_place_until_it_is_kept() -> None:
    sessions = Sessions(Limits())
    session = sessions.new(None)
    assert session is not None
    assert await sessions.find(session.id, None) is None
    assert len(sessions) == 0


@pytest.mark.case("F06")
async def test_a_session_belongs_to_its_principal_whatever_its_token_allows() -> None:
    sessions = Sessions(Limits())
    session = await opened(sessions, ALICE)
    assert await sessions.find(session.id, BOB) is None
    assert await sessions.find(session.id, None) is None
    later = dataclasses.replace(ALICE, scopes=frozenset({"more"}), claims={"exp": 2})
    assert await sessions.find(session.id, later) is session


async def test_a_session_that_is_idle_for_too_long_ends() -> None:
    clock = Clock()
    sessions = Sessions(Limits(session_idle=60), clock)
    used, idle = await opened(sessions), await opened(sessions)
    clock.now += 50
    assert await sessions.find(used.id, None) is used
    clock.now += 20
    assert await sessions.find(idle.id, None) is None
    assert idle.stream.closed
    assert len(sessions) == 1


@pytest.mark.case("C08")
@pytest.mark.parametrize("life", ["call", "question", "stream"])
async def test_running_calls_waiting_questions_and_open_streams_are_life(life: str) -> None:
    clock = Clock()
    sessions = Sessions(Limits(session_idle=60), clock)
    session = await opened(sessions)
    if life == "call":
        session.receive(Request(1, "tools/call"))
    elif life == "question":
        session.peer.open(object())
    else:
        session.readings.append(Reading(session.stream))
    clock.now += 1000
    sessions.expire()
    assert len(sessions) == 1
    session.peer.end()
    session.readings.clear()
    clock.now += 61
    sessions.expire()
    assert len(sessions) == 0


async def test_a_full_table_makes_room_by_ending_what_is_idle() -> None:
    clock = Clock()
    sessions = Sessions(Limits(sessions=2), clock)
    busy, idle = await opened(sessions), await opened(sessions)
    busy.readings.append(Reading(busy.stream))
    new = await opened(sessions)
    assert idle.stream.closed and not busy.stream.closed
    new.readings.append(Reading(new.stream))
    assert sessions.new(None) is None


async def test_closing_ends_all() -> None:
    sessions = Sessions(Limits())
    one, two = await opened(sessions), await opened(sessions)
    reading = Reading(one.stream)
    reading.reader = one.stream.take()
    one.readings.append(reading)
    sessions.hang_up()
    assert await one.stream.next(reading.reader) is None and len(sessions) == 2
    sessions.close()
    assert one.stream.closed and two.stream.closed and len(sessions) == 0


def streamed(session: HttpSession, count: int) -> EventStream:
    stream = EventStream(keep=10)
    session.add(stream)
    for number in range(count):
        stream.append(Notification("n", number))
    return stream


@pytest.mark.rule("R81", "R90")
@pytest.mark.case("F07")
async def test_a_cursor_counts_in_its_own_stream_and_session_only() -> None:
    events = MemoryEvents()
    session, other = HttpSession("a", None, events), HttpSession("b", None, events)
    first, second = streamed(session, 3), streamed(session, 1)
    streamed(other, 5)
    found = await session.find("1-2")
    assert found is not None and found.stream is first and found.after == 2
    found = await session.find("2-0")
    assert found is not None and found.stream is second
    assert await session.find("2-2") is None, "from the future"
    for id in ("3-1", "1", "1-", "1-x", "x-1", "-1", "1--1", "1-1-1", "1-²", f"1-{'9' * 50}", "\n"):
        assert await session.find(id) is None, id
    for nothing in (None, ""):
        found = await session.find(nothing)
        assert found is not None and found.stream is session.stream and found.after is None


async def test_few_streams_that_have_ended_are_kept() -> None:
    session = HttpSession("a", None, MemoryEvents())
    running = streamed(session, 1)
    for _ in range(50):
        stream = streamed(session, 1)
        stream.close()
        await stream.next()
    kept = [number for number in range(1, 60) if await session.find(f"{number}-0") is not None]
    assert kept == [1, *range(43, 52)]
    assert not running.closed


async def test_more_are_kept_of_those_that_were_not_read_but_not_all() -> None:
    session = HttpSession("a", None, MemoryEvents())
    running = streamed(session, 1)
    for _ in range(100):
        streamed(session, 1).close()
    kept = [number for number in range(1, 110) if await session.find(f"{number}-0") is not None]
    assert kept == [1, *range(37, 102)]
    assert not running.closed
