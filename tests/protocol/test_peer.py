"""Correlation, with two Peers and a network between them that reorders, repeats and loses."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from backchannel.errors import INVALID_REQUEST
from backchannel.protocol.jsonrpc import (
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    decode,
    encode,
)
from backchannel.protocol.peer import Cancelled, Dropped, Event, Heard, Incoming, Peer, Progressed, Reply, Resolved
from backchannel.protocol.types.requests import ProgressParams

IDS = [1, "1", 0, "", 2**70, "x"]


def over(message: Message) -> Message | Malformed:
    """A message as it comes out of the other end of a wire."""
    return decode(encode(message))


def cancelled(params: Any) -> Message | Malformed:
    return over(Notification("notifications/cancelled", params))


def served(peer: Peer, id: RequestId, handle: Any = "handle", method: str = "tools/call") -> None:
    assert isinstance(peer.receive(over(Request(id, method))), Incoming)
    assert peer.serve(id, handle)


# One request.


@pytest.mark.rule("R4", "R5", "R7")
def test_a_response_wakes_its_waiter_once() -> None:
    peer = Peer()
    id = peer.open("waiter")
    assert peer.pending == 1  # before a byte is written
    response = over(Response(id, {"a": 1}))
    assert peer.receive(response) == Resolved("waiter", response)
    assert peer.pending == 0
    assert peer.close(id) is None


@pytest.mark.rule("R2", "R13")
def test_ids_are_fresh_and_owe_nothing_to_those_of_the_other_side() -> None:
    peer = Peer()
    ids: list[RequestId] = []
    for foreign in range(100, 120):
        served(peer, foreign)
        ids.append(peer.open(f"for {foreign}"))
        if foreign % 2:
            peer.receive(Response(ids[-1], {}))
    assert len(set(ids)) == len(ids) and not set(ids) & set(range(100, 120))


@pytest.mark.rule("R1", "R5")
def test_the_same_id_in_both_directions_does_not_interfere() -> None:
    peer = Peer()
    id = peer.open("ours")
    served(peer, id, "theirs")
    assert peer.receive(Response(id, {})) == Resolved("ours", Response(id, {}))
    assert peer.serving == 1 and peer.finish(id, "theirs")
    id = peer.open("ours")
    served(peer, id, "theirs")
    assert peer.receive(cancelled({"requestId": id})) == Cancelled("theirs", None)
    assert peer.pending == 1


@pytest.mark.rule("R6")
def test_responses_come_in_any_order() -> None:
    peer = Peer()
    ids = [peer.open(number) for number in range(50)]
    order = random.Random(1).sample(range(50), 50)
    events = [peer.receive(over(Response(ids[number], {"n": number}))) for number in order]
    assert [event.waiter for event in events if isinstance(event, Resolved)] == order


@pytest.mark.rule("R8")
@pytest.mark.parametrize("outcome", [Response(7, {}), ErrorResponse(7, ErrorObject(1, "m")), ErrorResponse(None)])
def test_a_response_that_nobody_waits_for_is_dropped(outcome: Message) -> None:
    peer = Peer()
    id = peer.open("waiter")
    assert isinstance(peer.receive(over(outcome)), Dropped)
    assert isinstance(peer.receive(over(Response(str(id), {}))), Dropped)  # "1" is not 1
    peer.receive(over(Response(id, {})))
    assert isinstance(peer.receive(over(Response(id, {}))), Dropped)  # a repetition
    assert peer.pending == 0


@pytest.mark.rule("R8")
def test_any_waiter_will_do() -> None:
    peer = Peer()
    id = peer.open(None)
    assert peer.receive(Response(id, {})) == Resolved(None, Response(id, {}))


@pytest.mark.rule("R170")
def test_a_response_that_cannot_be_read_still_wakes_its_waiter() -> None:
    peer = Peer()
    id = peer.open("waiter")
    event = peer.receive(decode(b'{"jsonrpc":"2.0","result":{"a":"\\ud800"},"id":%d}' % id))
    assert isinstance(event, Resolved) and event.waiter == "waiter" and isinstance(event.outcome, Malformed)
    assert peer.pending == 0


def test_what_is_no_message_is_answered_and_what_was_meant_as_an_answer_is_not() -> None:
    peer = Peer()
    assert isinstance(peer.receive(decode(b"{")), Reply)
    assert isinstance(peer.receive(decode(b'{"jsonrpc":"2.0","id":1,"error":1}')), Dropped)
    assert isinstance(peer.receive(decode(b'{"jsonrpc":"2.0","id":1,"result":')), Dropped)


# Notifications.


@pytest.mark.rule("R10")
def test_notifications_leave_no_entry() -> None:
    peer = Peer()
    notification = over(Notification("notifications/tools/list_changed"))
    assert peer.receive(notification) == Heard(Notification("notifications/tools/list_changed"))
    peer.receive(cancelled({"requestId": 1}))
    assert (peer.pending, peer.serving) == (0, 0)


@pytest.mark.rule("R63")
@pytest.mark.parametrize(
    "params",
    [b"{}", b"null", b"[]", b"[1]", b'"1"', b'{"requestId":null}', b'{"requestId":1.5}', b'{"requestId":[]}'],
)
@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/progress", "notifications/unknown"])
def test_a_malformed_notification_is_not_answered(method: str, params: bytes) -> None:
    peer = Peer()
    served(peer, 1)
    wire = b'{"jsonrpc":"2.0","method":"' + method.encode() + b'","params":' + params + b"}"
    assert isinstance(peer.receive(decode(wire)), Dropped | Heard)
    assert peer.serving == 1


def test_progress_goes_to_the_one_who_waits() -> None:
    peer = Peer()
    id = peer.open("waiter")
    params = ProgressParams(id, 0.5, 1.0, "half")
    assert peer.receive(over(Notification("notifications/progress", params))) == Progressed("waiter", params)
    assert peer.pending == 1
    other = Notification("notifications/progress", ProgressParams(str(id), 0.5))
    assert isinstance(peer.receive(over(other)), Dropped)
    peer.close(id)
    assert isinstance(peer.receive(over(Notification("notifications/progress", params))), Dropped)


# Serving.


@pytest.mark.rule("R11", "R12")
@pytest.mark.case("F05")
@pytest.mark.parametrize("id", IDS)
def test_an_id_in_flight_is_refused_and_the_first_call_goes_on(id: RequestId) -> None:
    peer = Peer()
    served(peer, id, "first")
    for method in ("tools/list", "ping"):
        event = peer.receive(over(Request(id, method)))
        assert isinstance(event, Reply) and isinstance(event.message, ErrorResponse)
        assert event.message.error.code == INVALID_REQUEST
        assert event.message.id == id and type(event.message.id) is type(id)
    assert peer.serving == 1 and peer.finish(id, "first")
    served(peer, id, "second")  # its turn is over, so the id is free


@pytest.mark.rule("R1", "R12")
def test_ids_are_equal_only_with_their_type() -> None:
    peer = Peer()
    for id in IDS:
        served(peer, id, f"for {id!r}")
    assert peer.serving == len(IDS)
    assert peer.receive(cancelled({"requestId": "1"})) == Cancelled("for '1'", None)


@pytest.mark.rule("R166")
@pytest.mark.parametrize("params", [None, {}, {"_meta": {"progressToken": 1}}, {"_meta": 5}])
def test_a_ping_is_answered_at_once_and_leaves_nothing(params: Any) -> None:
    peer = Peer()
    served(peer, 1)
    assert peer.receive(over(Request("p", "ping", params))) == Reply(Response("p", {}))
    assert (peer.pending, peer.serving) == (0, 1)


@pytest.mark.rule("R166")
def test_a_ping_of_the_stateless_protocol_is_a_method_like_any_other() -> None:
    peer = Peer()
    ping = over(Request(1, "ping", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}))
    assert isinstance(peer.receive(ping), Incoming)


# Cancelling.


@pytest.mark.rule("R53", "R7", "R57")
def test_cancelling_names_the_request_in_the_senders_ids() -> None:
    asking, answering = Peer(), Peer()
    for _ in range(3):
        answering.open("something of its own")
    id = asking.open("waiter")
    served(answering, id, "handler")
    notification = asking.close(id, "too slow")
    assert notification is not None and asking.pending == 0
    assert answering.receive(over(notification)) == Cancelled("handler", "too slow")
    assert answering.serving == 0 and answering.pending == 3
    assert not answering.finish(id, "handler")  # so no response is sent
    assert not answering.finish(id)


@pytest.mark.rule("R56")
@pytest.mark.parametrize("id", IDS)
def test_a_request_in_flight_is_cancelled_whatever_its_id(id: RequestId) -> None:
    peer = Peer()
    served(peer, id, "handler")
    assert peer.receive(cancelled({"requestId": id, "reason": "no"})) == Cancelled("handler", "no")
    assert peer.serving == 0


@pytest.mark.rule("R56")
def test_a_request_cancelled_before_it_has_a_handle_is_not_served() -> None:
    peer = Peer()
    peer.receive(over(Request(1, "tools/call")))
    assert peer.receive(cancelled({"requestId": 1})) == Cancelled(None, None)
    assert not peer.serve(1, "handler")
    assert peer.serving == 0


@pytest.mark.rule("R55")
def test_cancelling_what_is_unknown_or_finished_does_nothing() -> None:
    peer = Peer()
    assert isinstance(peer.receive(cancelled({"requestId": 1})), Dropped)
    served(peer, 1)
    served(peer, 2)
    peer.finish(1)
    assert isinstance(peer.receive(cancelled({"requestId": 1})), Dropped)
    assert peer.serving == 1


@pytest.mark.rule("R58")
@pytest.mark.parametrize("outcome", [Response(1, {}), ErrorResponse(1, ErrorObject(1, "m"))])
def test_a_response_that_crosses_a_cancellation_is_ignored(outcome: Message) -> None:
    peer = Peer()
    assert peer.open("waiter") == 1
    assert peer.close(1) is not None
    assert isinstance(peer.receive(over(outcome)), Dropped)
    assert peer.close(1) is None


@pytest.mark.rule("R59")
def test_initialize_is_not_cancelled_by_either_side() -> None:
    asking, answering = Peer(), Peer()
    id = asking.open("waiter", "initialize")
    served(answering, id, method="initialize")
    assert isinstance(answering.receive(cancelled({"requestId": id})), Dropped)
    assert answering.finish(id)
    assert asking.close(id) is None
    assert asking.pending == 0


@pytest.mark.parametrize("method", ["tools/call", "acme/thing", ""])
def test_everything_else_is_cancelled(method: str) -> None:
    asking, answering = Peer(), Peer()
    id = asking.open("waiter", method)
    served(answering, id, method=method)
    notification = asking.close(id)
    assert notification is not None and isinstance(answering.receive(over(notification)), Cancelled)


def test_an_id_used_again_after_a_cancellation_belongs_to_the_new_request() -> None:
    peer = Peer()
    served(peer, 1, "first")
    peer.receive(cancelled({"requestId": 1}))
    served(peer, 1, "second")
    assert not peer.finish(1, "first")  # it ends later than the second began
    assert peer.serving == 1 and peer.finish(1, "second")


# The end.


@pytest.mark.rule("R7")
def test_the_end_wakes_everybody() -> None:
    peer = Peer()
    ids = [peer.open(name) for name in "abc"]
    served(peer, 1, "handler")
    peer.receive(over(Request(2, "tools/call")))  # has no handle yet
    peer.close(ids[1])
    assert peer.end() == (["a", "c"], ["handler"])
    assert (peer.pending, peer.serving) == (0, 0)
    assert peer.end() == ([], [])
    assert not peer.finish(1)


def test_when_nobody_answers_any_more_what_is_served_goes_on() -> None:
    peer = Peer()
    peer.open("a")
    served(peer, 1, "handler")
    assert peer.end_pending() == ["a"]
    assert (peer.pending, peer.serving) == (0, 1)


# Many connections.


@pytest.mark.case("F05")
@pytest.mark.rule("R61")
def test_clients_with_the_same_ids_do_not_get_each_others_responses() -> None:
    clients, servers = [Peer() for _ in range(20)], [Peer() for _ in range(20)]
    shuffle = random.Random(5).shuffle
    calls = [(who, clients[who].open((who, number))) for number in range(50) for who in range(20)]
    assert {id for _, id in calls} == set(range(1, 51))
    handles = {call: object() for call in calls}
    shuffle(calls)
    for who, id in calls:
        served(servers[who], id, handles[who, id])
    servers[3].receive(cancelled({"requestId": 7}))
    assert [server.serving for server in servers] == [50, 50, 50, 49, *[50] * 16]
    shuffle(calls)
    right = 0
    for who, id in calls:
        if servers[who].finish(id, handles[who, id]):
            event = clients[who].receive(over(Response(id, {"who": who})))
            right += isinstance(event, Resolved) and event.waiter == (who, id - 1)
    assert right == 999
    assert [client.pending for client in clients] == [0, 0, 0, 1, *[0] * 16]


# Any sequence of events.


class Side:
    """One end, and what a right Peer must know."""

    def __init__(self, name: str):
        self.name = name
        self.peer = Peer()
        self.inbox: list[bytes] = []
        self.waiting: dict[RequestId, str] = {}
        self.over: set[str] = set()
        self.serving: dict[RequestId, str] = {}
        self.withdrawn: list[tuple[RequestId, str]] = []
        self.other: Side

    def send(self, message: Message) -> None:
        self.other.inbox.append(encode(message))


class Network(RuleBasedStateMachine):
    """Waiters and handles are named, so that every event can be checked for whom it is about."""

    def __init__(self) -> None:
        super().__init__()
        self.sides = {name: Side(name) for name in "ab"}
        self.sides["a"].other, self.sides["b"].other = self.sides["b"], self.sides["a"]
        self.named = 0

    def name(self, what: str) -> str:
        self.named += 1
        return f"{what} {self.named}"

    sides_, places = st.sampled_from("ab"), st.integers(0, 30)

    @rule(side=sides_)
    def call(self, side: str) -> None:
        one, waiter = self.sides[side], self.name(f"waiter of {side}")
        id = one.peer.open(waiter, "tools/call")
        assert id not in one.waiting
        one.waiting[id] = waiter
        one.send(Request(id, "tools/call", {"for": waiter}))

    @rule(side=sides_, place=places)
    def deliver(self, side: str, place: int) -> None:
        one = self.sides[side]
        if one.inbox:
            message = decode(one.inbox.pop(place % len(one.inbox)))
            self.check(one, message, one.peer.receive(message))

    @rule(side=sides_)
    def deliver_the_next_ones(self, side: str) -> None:
        for _ in range(3):
            self.deliver(side, 0)

    @rule(side=sides_, place=places)
    def repeat(self, side: str, place: int) -> None:
        inbox = self.sides[side].inbox
        if inbox:
            inbox.append(inbox[place % len(inbox)])

    @rule(side=sides_, place=places)
    def lose(self, side: str, place: int) -> None:
        inbox = self.sides[side].inbox
        if inbox:
            inbox.pop(place % len(inbox))

    @rule(side=sides_, place=places, fails=st.booleans())
    def answer(self, side: str, place: int, fails: bool) -> None:
        one = self.sides[side]
        if one.serving:
            id = list(one.serving)[place % len(one.serving)]
            handle = one.serving.pop(id)
            assert one.peer.finish(id, handle)
            assert not one.peer.finish(id, handle)
            waiter = handle.partition(" for ")[2]
            one.send(ErrorResponse(id, ErrorObject(1, waiter)) if fails else Response(id, {"for": waiter}))

    @rule(side=sides_, place=places)
    def answer_what_was_cancelled(self, side: str, place: int) -> None:
        one = self.sides[side]
        if one.withdrawn:
            id, handle = one.withdrawn[place % len(one.withdrawn)]
            assert not one.peer.finish(id, handle)

    @rule(side=sides_, place=places)
    def cancel(self, side: str, place: int) -> None:
        one = self.sides[side]
        if one.waiting:
            id = list(one.waiting)[place % len(one.waiting)]
            one.over.add(one.waiting.pop(id))
            notification = one.peer.close(id, "why not")
            assert notification is not None
            one.send(notification)
            assert one.peer.close(id) is None

    @rule(side=sides_, place=places)
    def progress(self, side: str, place: int) -> None:
        one = self.sides[side]
        if one.serving:
            id = list(one.serving)[place % len(one.serving)]
            one.send(Notification("notifications/progress", ProgressParams(id, 1)))

    @rule(side=sides_, id=st.integers(0, 40) | st.just("1"), junk=st.integers(0, 7))
    def junk(self, side: str, id: RequestId, junk: int) -> None:
        name = encode(id)
        self.sides[side].inbox.append(
            [
                b'{"jsonrpc":"2.0","id":%b,"result":{"a":"\\ud800"}}' % name,
                b'{"jsonrpc":"2.0","error":"?","id":%b}' % name,
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[%b]}' % name,
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.5}}',
                b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % name,
                b'{"jsonrpc":"2.0","id":%b,"method":5}' % name,
                b'{"jsonrpc":"2.0","id":"stranger","result":{}}',
                b"\xff{",
            ][junk]
        )

    @precondition(lambda self: any(one.waiting or one.serving for one in self.sides.values()))
    @rule(side=sides_)
    def hang_up(self, side: str) -> None:
        self.end(self.sides[side])

    def check(self, one: Side, message: Message | Malformed, event: Event) -> None:
        if isinstance(event, Incoming):
            assert event.request.id not in one.serving
            handle = self.name("handle") + " for " + decoded(event.request.params)["for"]
            assert one.peer.serve(event.request.id, handle)
            one.serving[event.request.id] = handle
        elif isinstance(event, Resolved):
            assert isinstance(message, Response | ErrorResponse | Malformed) and message.id is not None
            waiter = one.waiting.pop(message.id)
            assert event.waiter == waiter and waiter not in one.over
            one.over.add(waiter)
            if isinstance(message, Response):
                assert decoded(message.result)["for"] in (waiter, None)
            elif isinstance(message, ErrorResponse):
                assert message.error.message == waiter or message.error.code == INVALID_REQUEST
        elif isinstance(event, Cancelled):
            (id,) = [id for id, handle in one.serving.items() if handle == event.handle]
            one.withdrawn.append((id, one.serving.pop(id)))
        elif isinstance(event, Progressed):
            assert event.waiter in one.waiting.values()
        elif isinstance(event, Reply):
            assert not isinstance(message, Notification | Response | ErrorResponse)
            assert isinstance(message, Request) or not (message.is_response or message.is_notification)
            one.send(event.message)
        else:
            self.check_dropped(one, message)

    def check_dropped(self, one: Side, message: Message | Malformed) -> None:
        """Nobody is left waiting for what was dropped."""
        if isinstance(message, Response | ErrorResponse | Malformed) and not getattr(message, "is_notification", False):
            assert message.id not in one.waiting
        if isinstance(message, Notification) and message.method == "notifications/cancelled":
            assert decoded(message.params)["requestId"] not in one.serving

    def end(self, one: Side) -> None:
        waiters, handles = one.peer.end()
        assert sorted(waiters) == sorted(one.waiting.values()) and sorted(handles) == sorted(one.serving.values())
        one.over |= set(waiters)
        one.waiting.clear()
        one.serving.clear()

    @invariant()
    def tables_hold_what_is_open(self) -> None:
        for one in self.sides.values():
            assert (one.peer.pending, one.peer.serving) == (len(one.waiting), len(one.serving))

    def teardown(self) -> None:
        """When all was delivered and answered, nothing but what was lost is open, and the end wakes that."""
        for _ in range(10_000):
            for one in self.sides.values():
                self.deliver(one.name, 0)
                self.answer(one.name, 0, False)
            if not any(one.inbox or one.serving for one in self.sides.values()):
                break
        else:
            raise AssertionError("the two never stop to talk")
        for one in self.sides.values():
            self.end(one)
            assert (one.peer.pending, one.peer.serving) == (0, 0)


def decoded(raw: Any) -> Any:
    value = msgspec.json.decode(raw)
    return {"for": None} if value == {} else value  # the answer to a ping


@pytest.mark.rule("R1", "R5", "R6", "R7", "R8", "R55", "R56", "R57", "R58")
def test_no_sequence_of_events_mixes_calls_up_or_leaves_one_open() -> None:
    run_state_machine_as_test(Network, settings=settings(max_examples=150, stateful_step_count=60, deadline=None))
