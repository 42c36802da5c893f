"""A Peer against a model of it: requests both ways with ids of every kind, and responses that are late, repeated or for
somebody else. The other end obeys no rule."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

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

EDGES: list[RequestId] = [
    *(0, 1, 2, 3, -1, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, 2**70, -(2**63)),
    *("", "0", "1", "2", "3", "-1", "1.0", " 1", "x", "é", "1\n", str(2**53)),
]
"""Ids that a careless table takes for one another."""
METHODS = ["tools/call", "tools/list", "initialize", "acme/thing"]


def over(message: Message) -> Message | Malformed:
    """A message as it comes out of the other end of a wire."""
    return decode(encode(message))


def key(id: RequestId) -> tuple[str, RequestId]:
    """An id is what it is, and of its type."""
    return type(id).__name__, id


class Correlation(RuleBasedStateMachine):
    """`asked` and `served` are what the Peer's two tables must hold: id -> method and who it is for."""

    ids = st.sampled_from(EDGES) | st.integers(1, 12)

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer()
        self.asked: dict[Any, tuple[str, str]] = {}
        self.served: dict[Any, tuple[str, str | None]] = {}
        self.ever: set[Any] = set()
        self.named = 0

    def name(self, what: str) -> str:
        self.named += 1
        return f"{what} {self.named}"

    @rule(method=st.sampled_from(METHODS))
    def ask(self, method: str) -> None:
        waiter = self.name("waiter")
        id = self.peer.open(waiter, method)
        assert key(id) not in self.ever, "an id is never given out twice"
        self.ever.add(key(id))
        self.asked[key(id)] = method, waiter

    @rule(id=ids, fails=st.booleans())
    def response(self, id: RequestId, fails: bool) -> None:
        outcome = over(ErrorResponse(id, ErrorObject(1, "no")) if fails else Response(id, {}))
        event = self.peer.receive(outcome)
        _, waiter = self.asked.pop(key(id), ("", None))
        if waiter is None:
            assert isinstance(event, Dropped)
        else:
            assert event == Resolved(waiter, outcome)

    @rule(id=ids)
    def unreadable_response(self, id: RequestId) -> None:
        event = self.peer.receive(decode(b'{"jsonrpc":"2.0","id":%b,"result":"\\ud800"}' % encode(id)))
        scannable = isinstance(id, str) or abs(id) < 10**18
        _, waiter = self.asked.pop(key(id), ("", None)) if scannable else ("", None)
        assert (event.waiter == waiter) if isinstance(event, Resolved) else waiter is None

    @rule(id=ids, reason=st.none() | st.just("why"))
    def give_up(self, id: RequestId, reason: str | None) -> None:
        method, waiter = self.asked.pop(key(id), ("", None))
        told = self.peer.close(id, reason)
        assert (told is not None) == (waiter is not None and method != "initialize")
        if told is not None:
            assert (told.method, told.params.request_id, told.params.reason) == ("notifications/cancelled", id, reason)

    @rule(id=ids, method=st.sampled_from([*METHODS, "ping"]))
    def request(self, id: RequestId, method: str) -> None:
        event = self.peer.receive(over(Request(id, method)))
        if key(id) in self.served:
            assert isinstance(event, Reply) and isinstance(event.message, ErrorResponse)
            assert event.message.error.code == INVALID_REQUEST
            assert event.message.id is not None and key(event.message.id) == key(id)
        elif method == "ping":
            assert event == Reply(Response(id, {}))
        else:
            assert isinstance(event, Incoming) and key(event.request.id) == key(id)
            self.served[key(id)] = method, None

    @rule(id=ids)
    def serve(self, id: RequestId) -> None:
        method, before = self.served.get(key(id), ("", None))
        handle = before or self.name("handle")
        assert self.peer.serve(id, handle) == (key(id) in self.served)
        if method:
            self.served[key(id)] = method, handle

    @rule(id=ids, stranger=st.booleans())
    def finish(self, id: RequestId, stranger: bool) -> None:
        method, handle = self.served.get(key(id), ("", None))
        mine = "a stranger" if stranger else handle
        assert self.peer.finish(id, mine) == (method != "" and not stranger)
        if not stranger:
            self.served.pop(key(id), None)

    @rule(id=ids)
    def cancelled(self, id: RequestId) -> None:
        event = self.peer.receive(over(Notification("notifications/cancelled", {"requestId": id})))
        method, handle = self.served.get(key(id), ("initialize", None))
        if method == "initialize":
            assert isinstance(event, Dropped)
        else:
            assert event == Cancelled(handle, None)
            del self.served[key(id)]

    @rule(id=ids)
    def progress(self, id: RequestId) -> None:
        params = ProgressParams(id, 1)
        event = self.peer.receive(over(Notification("notifications/progress", params)))
        _, waiter = self.asked.get(key(id), ("", None))
        assert isinstance(event, Dropped) if waiter is None else event == Progressed(waiter, params)

    @rule(method=st.sampled_from(["notifications/message", "acme/told", "tools/call"]))
    def notification(self, method: str) -> None:
        assert isinstance(self.peer.receive(over(Notification(method))), Heard)

    @rule()
    def nobody_answers_any_more(self) -> None:
        assert sorted(self.peer.end_pending()) == sorted(waiter for _, waiter in self.asked.values())
        self.asked.clear()

    @rule()
    def end(self) -> None:
        waiters, handles = self.peer.end()
        assert sorted(waiters) == sorted(waiter for _, waiter in self.asked.values())
        assert sorted(handles) == sorted(handle for _, handle in self.served.values() if handle is not None)
        self.asked.clear()
        self.served.clear()

    @invariant()
    def the_tables_are_those_of_the_model(self) -> None:
        assert (self.peer.pending, self.peer.serving) == (len(self.asked), len(self.served))
