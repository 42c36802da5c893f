"""The table of sessions, and the streams of one."""

import dataclasses

import pytest

from backchannel.protocol.jsonrpc import Notification, Request
from backchannel.server.exchange import Principal
from backchannel.server.http.sessions import HttpSession, Sessions
from backchannel.server.limits import Limits
from backchannel.server.streams import EventStream

ALICE, BOB = Principal("alice", "issuer", "app"), Principal("bob", "issuer", "app")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def opened(sessions: Sessions, principal: Principal | None = None) -> HttpSession:
    session = sessions.new(principal)
    assert session is not None
    sessions.keep(session)
    return session


@pytest.mark.rule("R84")
def test_ids_are_random_and_visible_ascii() -> None:
    sessions = Sessions(Limits())
    ids = {opened(sessions).id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(id) >= 32 and all("!" <= char <= "~" for char in id) for id in ids)


def test_a_session_has_no_place_until_it_is_kept() -> None:
    sessions = Sessions(Limits())
    session = sessions.new(None)
    assert session is not None
    assert sessions.find(session.id, None) is None
    assert len(sessions) == 0


@pytest.mark.case("F06")
def test_a_session_belongs_to_its_principal_whatever_its_token_allows() -> None:
    sessions = Sessions(Limits())
    session = opened(sessions, ALICE)
    assert sessions.find(session.id, BOB) is None
    assert sessions.find(session.id, None) is None
    later = dataclasses.replace(ALICE, scopes=frozenset({"more"}), claims={"exp": 2})
    assert sessions.find(session.id, later) is session


def test_a_session_that_is_idle_for_too_long_ends() -> None:
    clock = Clock()
    sessions = Sessions(Limits(session_idle=60), clock)
    used, idle = opened(sessions), opened(sessions)
    clock.now += 50
    assert sessions.find(used.id, None) is used
    clock.now += 20
    assert sessions.find(idle.id, None) is None
    assert idle.stream.closed
    assert len(sessions) == 1


@pytest.mark.parametrize("life", ["call", "question", "stream"])
def test_running_calls_waiting_questions_and_open_streams_are_life(life: str) -> None:
    clock = Clock()
    sessions = Sessions(Limits(session_idle=60), clock)
    session = opened(sessions)
    if life == "call":
        session.receive(Request(1, "tools/call"))
    elif life == "question":
        session.peer.open(object())
    else:
        session.listeners = 1
    clock.now += 1000
    sessions.expire()
    assert len(sessions) == 1
    session.peer.end()
    session.listeners = 0
    clock.now += 61
    sessions.expire()
    assert len(sessions) == 0


def test_a_full_table_makes_room_by_ending_what_is_idle() -> None:
    clock = Clock()
    sessions = Sessions(Limits(sessions=2), clock)
    busy, idle = opened(sessions), opened(sessions)
    busy.listeners = 1
    new = opened(sessions)
    assert idle.stream.closed and not busy.stream.closed
    new.listeners = 1
    assert sessions.new(None) is None


def test_closing_ends_all() -> None:
    sessions = Sessions(Limits())
    one, two = opened(sessions), opened(sessions)
    sessions.hang_up()
    assert one.stream.closed and len(sessions) == 2
    sessions.close()
    assert two.stream.closed and len(sessions) == 0


def streamed(session: HttpSession, count: int) -> EventStream:
    stream = EventStream(keep=10)
    session.add(stream)
    for number in range(count):
        stream.append(Notification("n", number))
    return stream


@pytest.mark.rule("R81", "R90")
@pytest.mark.case("F07")
def test_a_cursor_counts_in_its_own_stream_and_session_only() -> None:
    session, other = HttpSession("a", None), HttpSession("b", None)
    first, second = streamed(session, 3), streamed(session, 1)
    streamed(other, 5)
    found = session.find("1-2")
    assert found is not None and found.stream is first and found.after == 2
    found = session.find("2-0")
    assert found is not None and found.stream is second
    assert session.find("2-2") is None, "from the future"
    for id in ("3-1", "1", "1-", "1-x", "x-1", "-1", "1--1", "1-1-1", "1-²", f"1-{'9' * 50}", "\n"):
        assert session.find(id) is None, id
    for nothing in (None, ""):
        found = session.find(nothing)
        assert found is not None and found.stream is session.stream and found.after is None


def test_few_streams_that_have_ended_are_kept() -> None:
    session = HttpSession("a", None)
    running = streamed(session, 1)
    for _ in range(50):
        streamed(session, 1).close()
    kept = [number for number in range(1, 60) if session.find(f"{number}-0") is not None]
    assert kept == [1, *range(43, 52)]
    assert not running.closed
