"""Correlation, whatever comes in whatever order."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from backchannel.errors import INVALID_REQUEST
from backchannel.protocol.jsonrpc import ErrorResponse, Malformed, Notification, Request, RequestId, Response, decode
from backchannel.protocol.peer import Cancelled, Dropped, Incoming, Peer, Progressed, Reply, Resolved
from backchannel.protocol.types.requests import ProgressParams
from tests.protocol.correlation import EDGES, Correlation, key, over

ids = st.integers() | st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(EDGES)


@pytest.mark.rule("R1", "R2", "R4", "R5", "R6", "R7", "R8", "R10", "R11", "R12", "R13")
@pytest.mark.rule("R53", "R55", "R56", "R57", "R58", "R59")
def test_no_sequence_of_messages_makes_a_peer_differ_from_its_model() -> None:
    run_state_machine_as_test(Correlation, settings=settings(max_examples=200, stateful_step_count=60, deadline=None))


# Ids.


@pytest.mark.rule("R1", "R5", "R8", "R12")
@settings(deadline=None)
@given(st.lists(ids, unique_by=key, max_size=40), st.randoms())
def test_each_id_is_its_own(wanted: list[RequestId], chance: Any) -> None:
    """Ids that are alike, such as "5" and 5, are two requests: each is cancelled, finished and refused by itself."""
    peer, handles = Peer(), {}
    for id in wanted:
        event = peer.receive(over(Request(id, "tools/call")))
        assert isinstance(event, Incoming) and key(event.request.id) == key(id)
        handles[key(id)] = object()
        assert peer.serve(id, handles[key(id)])
    assert peer.serving == len(wanted)
    chance.shuffle(wanted)
    for number, id in enumerate(wanted):
        refused = peer.receive(over(Request(id, "tools/call")))
        assert isinstance(refused, Reply) and isinstance(refused.message, ErrorResponse)
        assert refused.message.error.code == INVALID_REQUEST and key(refused.message.id or 0) == key(id or 0)
        if number % 2:
            assert peer.finish(id, handles[key(id)])
        else:
            told = over(Notification("notifications/cancelled", {"requestId": id}))
            assert peer.receive(told) == Cancelled(handles[key(id)], None)
        assert peer.serving == len(wanted) - number - 1


@pytest.mark.rule("R5", "R8", "R58")
@settings(deadline=None)
@given(ids)
def test_a_response_of_the_other_type_answers_nobody(id: RequestId) -> None:
    peer = Peer()
    ours = [peer.open(number) for number in range(5)]
    event = peer.receive(over(Response(id, {})))
    assert isinstance(event, Resolved if id in ours else Dropped)
    for one in ours:
        assert isinstance(peer.receive(over(Response(str(one), {}))), Dropped)
    assert peer.pending == 5 - (id in ours)


@pytest.mark.rule("R3", "R8", "R63")
@pytest.mark.parametrize("id", ["1.0", "1e0", "true", "null", "[1]", "{}", "1.5", "-1.0", '"\\ud800"', "01", "NaN"])
def test_what_is_no_id_touches_no_table(id: str) -> None:
    """`True`, `1.0` and 1 are one key of a dict."""
    peer = Peer()
    assert peer.open("waiter") == 1
    assert isinstance(peer.receive(over(Request(1, "tools/call"))), Incoming)
    for rest in ('"result":{}', '"error":{"code":1,"message":"m"}', '"method":"tools/list"'):
        peer.receive(decode(f'{{"jsonrpc":"2.0","id":{id},{rest}}}'.encode()))
    for method, name in (("cancelled", "requestId"), ("progress", "progressToken")):
        params = f'{{"{name}":{id},"progress":1}}'
        event = peer.receive(
            decode(f'{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}'.encode())
        )
        assert isinstance(event, Dropped | Reply)
    assert (peer.pending, peer.serving) == (1, 1)


@pytest.mark.rule("R1", "R2", "R13")
def test_the_ids_of_one_side_are_what_they_would_be_without_the_other() -> None:
    alone, busy = Peer(), Peer()
    for id in EDGES:
        busy.receive(over(Request(id, "tools/call")))
        busy.receive(over(Response(id, {})))
    assert [alone.open(n) for n in range(9)] == [busy.open(n) for n in range(9)]


@pytest.mark.rule("R13")
@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=60))
def test_gaps_are_legal_and_no_id_comes_back(answered: list[bool]) -> None:
    peer, given_out = Peer(), []
    for at_once in answered:
        given_out.append(peer.open("waiter"))
        if at_once:
            peer.close(given_out[-1])
    assert len(set(given_out)) == len(given_out) and peer.pending == answered.count(False)


# What each kind of message does to the tables, in each state of the id that it names.

STATES = ["unknown", "asked", "asked initialize", "received", "served", "served initialize", "both", "over"]
MESSAGES: dict[str, str] = {
    "result": '{"jsonrpc":"2.0","id":1,"result":{}}',
    "error": '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}',
    "broken": '{"jsonrpc":"2.0","id":1,"result":"\\ud800"}',
    "request": '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    "ping": '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "cancelled": '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    "progress": '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}',
}
ASKED, SERVED = {"asked", "asked initialize", "both"}, {"received", "served", "served initialize", "both"}


def in_state(state: str) -> Peer:
    peer = Peer()
    if state in ASKED:
        peer.open("waiter", "initialize" if "initialize" in state else "sampling/createMessage")
    if state in SERVED:
        peer.receive(over(Request(1, "initialize" if "initialize" in state else "tools/call")))
        if state != "received":
            assert peer.serve(1, "handle")
    if state == "over":
        peer.close(peer.open("waiter"))
        peer.receive(over(Request(1, "tools/call")))
        peer.finish(1)
    return peer


def expected(state: str, message: str) -> tuple[type, bool, bool]:
    """The event, and whether the id is in each of the two tables then."""
    asked, served = state in ASKED, state in SERVED
    if message in ("result", "error", "broken"):
        return (Resolved if asked else Dropped), False, served
    if message == "request":
        return (Reply if served else Incoming), asked, True
    if message == "ping":
        return Reply, asked, served
    if message == "cancelled":
        fires = served and "initialize" not in state
        return (Cancelled if fires else Dropped), asked, served and not fires
    return (Progressed if asked else Dropped), asked, served


@pytest.mark.rule("R1", "R3", "R5", "R7", "R8", "R10", "R11", "R55", "R56", "R59")
@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("state", STATES)
def test_the_table_of_messages_and_states(state: str, message: str) -> None:
    peer = in_state(state)
    event = peer.receive(decode(MESSAGES[message].encode()))
    kind, asked, served = expected(state, message)
    assert type(event) is kind
    assert (peer.pending, peer.serving) == (asked, served)
    if isinstance(event, Resolved | Progressed):
        assert event.waiter == "waiter"
    if isinstance(event, Cancelled):
        assert event.handle == (None if state == "received" else "handle")
    if isinstance(event, Resolved):
        assert isinstance(event.outcome, Malformed) == (message == "broken")


# A cancellation that meets the response, at every point.

ASKING = [["ask", "give up", "receive", "receive"], ["ask", "receive", "give up", "receive"]]
ANSWERING = ["receive", "serve", "answer", "receive"]


def interleavings(a: list[str], b: list[str]) -> Iterator[list[tuple[str, str]]]:
    """Every order of the steps of two sides that keeps the order of each."""
    size = len(a) + len(b)
    for places in itertools.combinations(range(size), len(a)):
        left, right = iter(a), iter(b)
        yield [("asking", next(left)) if place in places else ("answering", next(right)) for place in range(size)]


class Race:
    """One request between two Peers whose messages arrive in order, and when a side looks."""

    def __init__(self, method: str, id_offset: int):
        self.asking, self.answering = Peer(), Peer()
        self.method = method
        for _ in range(id_offset):
            self.asking.close(self.asking.open("before"))
        self.to_asking: list[bytes] = []
        self.to_answering: list[bytes] = []
        self.id: RequestId | None = None
        self.outcomes: list[str] = []
        self.handler = ""

    def send(self, message: Any, to: list[bytes]) -> None:
        to.append(json.dumps(message).encode())

    def step(self, side: str, what: str) -> None:
        if side == "asking":
            self.ask(what)
        else:
            self.answer(what)

    def ask(self, what: str) -> None:
        if what == "ask":
            self.id = self.asking.open("waiter", self.method)
            self.send({"jsonrpc": "2.0", "id": self.id, "method": self.method}, self.to_answering)
        elif what == "give up" and self.id is not None:
            waited = self.asking.pending
            told = self.asking.close(self.id)
            if waited:
                self.outcomes.append("given up")
            assert (told is not None) == bool(waited and self.method != "initialize")
            if told is not None:
                params = {"requestId": self.id}
                self.send({"jsonrpc": "2.0", "method": told.method, "params": params}, self.to_answering)
        elif what == "receive" and self.to_asking:
            event = self.asking.receive(decode(self.to_asking.pop(0)))
            if isinstance(event, Resolved):
                assert event.waiter == "waiter"
                self.outcomes.append("answered")
            else:
                assert isinstance(event, Dropped)

    def answer(self, what: str) -> None:
        if what == "receive" and self.to_answering:
            event = self.answering.receive(decode(self.to_answering.pop(0)))
            if isinstance(event, Incoming):
                self.handler = "received"
            elif isinstance(event, Cancelled):
                assert event.handle == ("handle" if self.handler == "serving" else None)
                self.handler = "cancelled"
            else:
                assert isinstance(event, Dropped) and self.handler in ("answered", "cancelled", "received", "serving")
        elif what == "serve" and self.handler in ("received", "cancelled"):
            assert self.id is not None
            served = self.answering.serve(self.id, "handle")
            assert served == (self.handler == "received")
            self.handler = "serving" if served else self.handler
        elif what == "answer" and self.handler in ("serving", "cancelled"):
            assert self.id is not None
            may_send = self.answering.finish(self.id, "handle")
            assert may_send == (self.handler == "serving"), "no response to a cancelled request, one to any other"
            if may_send:
                self.handler = "answered"
                self.send({"jsonrpc": "2.0", "id": self.id, "result": {}}, self.to_asking)

    def end(self) -> None:
        """Whatever is still under way arrives."""
        for what in ("receive", "serve", "answer", "receive"):
            self.answer(what)
        self.ask("receive")
        self.ask("receive")


@pytest.mark.rule("R7", "R8", "R53", "R55", "R56", "R57", "R58", "R59")
@pytest.mark.parametrize("method", ["tools/call", "initialize", "elicitation/create"])
def test_a_cancellation_meets_the_response_at_every_point(method: str) -> None:
    seen = set()
    orders = (order for asking in ASKING for order in interleavings(asking, ANSWERING))
    for number, order in enumerate(orders):
        race = Race(method, number % 3)
        for side, what in order:
            race.step(side, what)
        race.end()
        assert len(race.outcomes) == 1, (order, race.outcomes)
        assert (race.asking.pending, race.asking.serving) == (0, 0), order
        assert (race.answering.pending, race.answering.serving) == (0, 0), order
        seen.add((race.outcomes[0], race.handler))
    ends = {("answered", "answered"), ("given up", "answered")}
    assert seen == (ends if method == "initialize" else ends | {("given up", "cancelled")})


# Many calls, both ways.


@pytest.mark.rule("R1", "R5", "R6", "R9", "R12", "R61")
@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(1, 30), st.randoms(), st.booleans())
def test_calls_of_both_directions_share_a_wire_and_no_id(ours: int, theirs: int, chance: Any, repeated: bool) -> None:
    a, b = Peer(), Peer()
    asked = {"a": [a.open(("a", n)) for n in range(ours)], "b": [b.open(("b", n)) for n in range(theirs)]}
    peers = {"a": a, "b": b}
    for side, other in (("a", b), ("b", a)):
        for id in asked[side]:
            assert isinstance(other.receive(over(Request(id, "tools/call"))), Incoming)
            assert other.serve(id, f"handle of {side}")
    answers = [(side, n, id) for side, numbers in asked.items() for n, id in enumerate(numbers)]
    chance.shuffle(answers)
    for side, number, id in answers:
        other = peers["b" if side == "a" else "a"]
        assert other.finish(id)
        response = over(Response(id, {"n": number}))
        assert peers[side].receive(response) == Resolved((side, number), response)
        if repeated:
            assert isinstance(peers[side].receive(response), Dropped)
    assert [(peer.pending, peer.serving) for peer in (a, b)] == [(0, 0), (0, 0)]


@pytest.mark.rule("R10", "R60")
def test_progress_is_no_entry_and_what_was_told_before_a_cancellation_stays_told() -> None:
    peer = Peer()
    id = peer.open("waiter")
    params = ProgressParams(id, 1)
    assert peer.receive(over(Notification("notifications/progress", params))) == Progressed("waiter", params)
    assert peer.close(id) is not None
    for _ in range(3):
        assert isinstance(peer.receive(over(Notification("notifications/progress", params))), Dropped)
    assert (peer.pending, peer.serving) == (0, 0)
