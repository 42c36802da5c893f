"""A session: one end of a connection, and what `initialize` gives it. No event loop but for what waits."""

from typing import Any

import msgspec
import pytest

from backchannel.errors import INVALID_REQUEST, LocalProtocolError, SessionClosed, UnsupportedVersion
from backchannel.protocol.http import Headers, Refusal, read_request
from backchannel.protocol.jsonrpc import ErrorResponse, Malformed, Notification, Request, Response, decode, encode
from backchannel.protocol.lifecycle import State
from backchannel.protocol.methods import METHODS
from backchannel.protocol.peer import Incoming, Reply
from backchannel.protocol.types.base import Implementation
from backchannel.protocol.types.bringup import InitializeParams
from backchannel.protocol.versions import Version
from backchannel.server.channel import read
from backchannel.server.session import Session
from backchannel.server.streams import EventStream
from backchannel.waiter import Waiter

PARAMS = InitializeParams(
    protocol_version="2025-11-25", capabilities={"roots": {}}, client_info=Implementation("client", "1")
)
INITIALIZED = Notification("notifications/initialized")


class Handle:
    """Stands for an exchange."""

    method = METHODS["tools/call"]

    def __init__(self) -> None:
        self.reasons: list[str | None] = []

    def cancel(self, reason: str | None = None) -> None:
        self.reasons.append(reason)


def ready() -> Session:
    session = Session(EventStream())
    session.initialize(PARAMS)
    session.receive(INITIALIZED)
    return session


def cancelled(id: int) -> Notification:
    return Notification("notifications/cancelled", msgspec.Raw(b'{"requestId":%d,"reason":"enough"}' % id))


def test_initialize_gives_version_and_client() -> None:
    session = Session(EventStream())
    assert session.initialize(PARAMS) == "2025-11-25"
    assert session.client.name == "client"
    assert session.client.capabilities == {"roots": {}}
    assert session.state is State.INITIALIZING
    assert session.receive(INITIALIZED) is None
    assert session.state is State.READY


@pytest.mark.rule("R99")
@pytest.mark.parametrize("session", [ready()])
def test_a_session_is_initialized_once(session: Session) -> None:
    with pytest.raises(LocalProtocolError, match="initialized once") as caught:
        session.initialize(PARAMS)
    assert caught.value.code == INVALID_REQUEST


@pytest.mark.rule("R96")
def test_requests_are_served_from_initialize_on_and_not_before() -> None:
    session = Session(EventStream())
    with pytest.raises(LocalProtocolError, match="send initialize first"):
        session.check(Request(1, "tools/list"))
    session.initialize(PARAMS)
    session.check(Request(1, "tools/list"))


def test_a_session_can_be_assumed() -> None:
    session = Session(EventStream())
    session.assume(Version.V2025_03_26)
    session.check(Request(1, "tools/list"))
    assert session.version == "2025-03-26"


@pytest.mark.rule("R96")
def test_what_has_to_wait_for_initialized_waits() -> None:
    session = Session(EventStream())
    session.initialize(PARAMS)
    done: list[int] = []
    session.when_ready(lambda: done.append(1))
    session.when_ready(lambda: done.append(2))
    assert done == []
    session.receive(INITIALIZED)
    assert done == [1, 2]
    session.when_ready(lambda: done.append(3))
    session.receive(INITIALIZED)
    assert done == [1, 2, 3]


@pytest.mark.rule("R95", "R143")
@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/unknown"])
def test_notifications_get_no_reply_whenever_they_come(method: str) -> None:
    for session in (Session(EventStream()), ready()):
        assert session.receive(Notification(method)) is None
        session.close()
        assert session.receive(Notification(method)) is None


@pytest.mark.rule("R11")
def test_an_id_in_flight_is_refused_and_the_first_call_goes_on() -> None:
    session = ready()
    assert isinstance(session.receive(Request(1, "tools/call")), Incoming)
    session.peer.serve(1, handle := Handle())
    reply = session.receive(Request(1, "tools/call"))
    assert isinstance(reply, Reply) and isinstance(reply.message, ErrorResponse)
    assert reply.message.error.code == INVALID_REQUEST
    assert handle.reasons == []
    assert session.peer.finish(1)
    assert isinstance(session.receive(Request(1, "tools/call")), Incoming)


@pytest.mark.rule("R5", "R8")
def test_a_response_resolves_who_waits_for_it_and_nobody_else() -> None:
    session = ready()
    one, two = Waiter(), Waiter()
    first, second = session.peer.open(one), session.peer.open(two)
    for answer in (Response("1", {}), Response(second + 1, {}), Response(second, {"a": 1})):
        assert session.receive(answer) is None
    assert two.done and not one.done
    assert session.receive(Malformed(-32600, "bad", first, True)) is None
    assert one.done


@pytest.mark.rule("R55", "R56")
def test_a_cancellation_reaches_the_call_it_names() -> None:
    session = ready()
    handle, other = Handle(), Handle()
    for id, one in ((1, handle), (2, other)):
        session.receive(Request(id, "tools/call"))
        session.peer.serve(id, one)
    session.receive(cancelled(1))
    session.receive(cancelled(1))
    session.receive(cancelled(7))
    assert handle.reasons == ["enough"]
    assert other.reasons == []


@pytest.mark.anyio
@pytest.mark.rule("R51")
async def test_the_end_cancels_calls_and_fails_questions() -> None:
    session = ready()
    session.receive(Request(1, "tools/call"))
    session.peer.serve(1, handle := Handle())
    session.peer.open(waiter := Waiter())
    session.when_ready(lambda: None)
    session.close()
    assert handle.reasons == ["the session ended"]
    with pytest.raises(SessionClosed):
        await waiter.wait()
    assert session.stream.closed
    assert session.peer.serving == session.peer.pending == 0
    session.close()


@pytest.mark.anyio
async def test_a_client_that_hangs_up_answers_nothing_and_its_calls_go_on() -> None:
    session = ready()
    session.receive(Request(1, "tools/call"))
    session.peer.serve(1, handle := Handle())
    session.peer.open(waiter := Waiter())
    session.hang_up()
    with pytest.raises(SessionClosed):
        await waiter.wait()
    assert handle.reasons == []
    assert session.peer.serving == 1


def test_what_waits_for_initialized_is_forgotten_at_the_end() -> None:
    session = Session(EventStream())
    session.initialize(PARAMS)
    done: list[Any] = []
    session.when_ready(lambda: done.append(1))
    session.close()
    session.receive(INITIALIZED)
    assert done == []


@pytest.mark.rule("R160")
@pytest.mark.parametrize(
    ("wanted", "supported"),
    [
        ("2025-11-25", ["2026-07-28"]),
        ("2099-01-01", ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]),
        ("x" * 5000, ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]),
    ],
)
def test_a_version_that_is_not_served_is_refused_as_over_http(wanted: str, supported: list[str]) -> None:
    names = {"protocolVersion": wanted, "clientCapabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in names.items()}
    body = encode(Request(1, "tools/list", {"_meta": meta}))
    request = decode(body)
    assert isinstance(request, Request)
    with pytest.raises(UnsupportedVersion) as caught:
        read(request, session := ready(), session.stream, METHODS)
    assert str(caught.value) == "Unsupported protocol version"
    assert caught.value.data == {"supported": supported, "requested": wanted[:200]}
    headers = [(b"content-type", b"application/json"), (b"mcp-protocol-version", wanted.encode())]
    refusal = read_request(Headers(headers), body)
    assert isinstance(refusal, Refusal) and refusal.error is not None
    error = refusal.error.error
    assert (error.code, error.message, error.data) == (caught.value.code, str(caught.value), caught.value.data)
