"""Two Peers, a network between them that reorders, repeats and loses, and a model of what each of them must know."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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
from backchannel.protocol.peer import Cancelled, Event, Incoming, Peer, Progressed, Reply, Resolved
from backchannel.protocol.types.requests import ProgressParams


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
