"""Correlation: which response belongs to which request, and what becomes of all others."""

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

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
from backchannel.protocol.peer import Cancelled, Dropped, Heard, Incoming, Peer, Progressed, Reply, Resolved
from backchannel.protocol.types.requests import ProgressParams
from tests.protocol.network import Network

IDS: list[RequestId] = [1, "1", 0, "", 2**70, "x"]


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
    event = peer.receive(response)
    assert isinstance(event, Resolved) and (event.waiter, event.outcome) == ("waiter", response)
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


@pytest.mark.rule("R1", "R5", "R6", "R7", "R8", "R55", "R56", "R57", "R58")
def test_no_sequence_of_events_mixes_calls_up_or_leaves_one_open() -> None:
    run_state_machine_as_test(Network, settings=settings(max_examples=150, stateful_step_count=60, deadline=None))


@pytest.mark.rule("R2", "R5")
def test_a_prefix_makes_ids_unlike_those_of_another_peer() -> None:
    ids = [peer.open("waiter") for peer in (Peer(), Peer("a"), Peer("b")) for _ in range(2)]
    assert ids == [1, 2, "a.1", "a.2", "b.1", "b.2"]
    peer = Peer("a")
    id = peer.open("waiter")
    assert peer.receive(Response(1, {})) == Dropped("a response to 1, which nobody waits for")
    assert peer.receive(Response(id, {})) == Resolved("waiter", Response(id, {}))
