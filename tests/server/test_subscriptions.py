"""Who hears of changes: `subscriptions/listen`, and legacy sessions."""

import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Limits, Principal, Server
from backchannel.protocol.jsonrpc import Malformed, Message, decode
from backchannel.protocol.types.subscriptions import Filter
from backchannel.server.channel import serve
from backchannel.server.dispatch import start
from backchannel.server.outbox import encoded
from backchannel.server.subscriptions import TOOLS, UPDATED, Change, honour
from tests.server.replay import LEGACY, MODERN, Driver, driver

pytestmark = pytest.mark.anyio
ID = "io.modelcontextprotocol/subscriptionId"
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
A = "file:///a"


@pytest.fixture
def server() -> Server:
    server = Server("test")
    server.add_tool(lambda: "", name="t")
    server.add_prompt(lambda: "", name="p")
    server.add_resource(lambda: "", A, name="a")
    return server


class Line:
    """The client's end of a channel that the server serves, message by message."""

    def __init__(self) -> None:
        self.send, self._incoming = anyio.create_memory_object_stream[Any](1000)
        self._outgoing, self._receive = anyio.create_memory_object_stream[Any](20_000)
        self.got: list[dict[str, Any]] = []
        self._unsent: list[Any] = []

    async def receive(self) -> list[Message | Malformed]:
        return [await self._incoming.receive()]

    def write(self, messages: list[bytes]) -> bool:
        self._unsent = [json.loads(message) for message in messages]
        with contextlib.suppress(anyio.WouldBlock):
            while self._unsent:
                self._outgoing.send_nowait(self._unsent[0])
                del self._unsent[0]
        return not self._unsent

    async def flush(self) -> None:
        for message in self._unsent:
            await self._outgoing.send(message)

    def close(self) -> None:
        for stream in (self.send, self._incoming, self._outgoing, self._receive):
            stream.close()

    def say(self, method: str, params: dict[str, Any] | None = None, id: Any = None, modern: bool = True) -> None:
        params = dict(params or {})
        if modern and id is not None:
            meta = {"protocolVersion": MODERN, "clientCapabilities": {}}
            params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        self.send.send_nowait(decode(json.dumps(message).encode()))

    async def next(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._receive.receive()
        self.got.append(message)
        return message

    async def listen(self, id: Any = 1, **wanted: Any) -> dict[str, Any]:
        self.say("subscriptions/listen", {"notifications": wanted}, id)
        return await self.next()

    async def initialize(self) -> None:
        client = {"name": "c", "version": "1"}
        self.say("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}, 0, modern=False)
        await self.next()
        self.say("notifications/initialized")
        self.say("ping", id=99, modern=False)
        await self.next()

    @property
    def quiet(self) -> bool:
        return self._receive.statistics().current_buffer_used == 0


class _Channel:
    def __init__(self, line: Line):
        self.receive, self.write, self.flush = line.receive, line.write, line.flush


@contextlib.asynccontextmanager
async def serving(server: Server, lines: int = 1) -> AsyncIterator[list[Line]]:
    """The server on several channels at once."""
    ends = [Line() for _ in range(lines)]
    with anyio.fail_after(60):
        async with start(server) as dispatcher, anyio.create_task_group() as group:
            for line in ends:
                group.start_soon(serve, dispatcher, _Channel(line))
            yield ends
            for line in ends:
                line.send.close()
    for line in ends:
        line.close()


# The stateless protocol.


@pytest.mark.rule("R163", "R137")
async def test_acknowledged_first_and_the_id_is_on_every_frame(server: Server) -> None:
    async with serving(server) as [line]:
        assert await line.listen(7, **ALL, resourceSubscriptions=[A]) == {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": {**ALL, "resourceSubscriptions": [A]}, "_meta": {ID: 7}},
        }
        for notify, method in (
            (server.notify.tools_changed, "tools/list_changed"),
            (server.notify.prompts_changed, "prompts/list_changed"),
            (server.notify.resources_changed, "resources/list_changed"),
        ):
            assert await notify() == 1
            told = await line.next()
            assert (told["method"], told["params"]) == (f"notifications/{method}", {"_meta": {ID: 7}})
        assert await server.notify.resource_updated(A) == 1
        assert (await line.next())["params"] == {"uri": A, "_meta": {ID: 7}}


@pytest.mark.rule("R163", "R138")
async def test_the_filter_is_honoured(server: Server) -> None:
    async with serving(server) as [line]:
        first = await line.listen("tools", toolsListChanged=True, promptsListChanged=False)
        assert first["params"]["notifications"] == {"toolsListChanged": True}
        await line.listen("a", resourceSubscriptions=[A])
        assert (await line.listen("none"))["params"]["notifications"] == {}
        assert await server.notify.prompts_changed() == 0
        assert await server.notify.resource_updated("file:///a/b") == 0
        assert await server.notify.resource_updated("file:///A") == 0
        assert line.quiet
        assert await server.notify.tools_changed() == 1
        assert (await line.next())["params"]["_meta"] == {ID: "tools"}
        assert await server.notify.resource_updated(A) == 1
        assert (await line.next())["params"]["_meta"] == {ID: "a"}


@pytest.mark.rule("R136")
async def test_what_the_server_has_not_is_not_acknowledged() -> None:
    server = Server("test")
    async with serving(server) as [line]:
        first = await line.listen(**ALL, resourceSubscriptions=[A])
        assert first["params"]["notifications"] == {"toolsListChanged": True}
        server.add_prompt(lambda: "", name="p")
        assert await server.notify.prompts_changed() == 0
        assert await server.notify.resource_updated(A) == 0


def test_honour() -> None:
    capabilities: dict[str, dict[str, object]] = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
    wanted = Filter(True, True, True, [A, "x://hidden"])
    assert honour(wanted, capabilities, {"x://hidden"}) == Filter(True, None, None, [A])
    assert honour(Filter(), capabilities) == Filter()
    assert honour(wanted, {}) == Filter()


@pytest.mark.parametrize("uri", ["x://mine", "y://1"])
async def test_nobody_hears_of_what_only_others_can_see(server: Server, uri: str) -> None:
    def mine(principal: Principal | None) -> bool:
        return principal is not None

    server.add_resource(lambda: "", "x://mine", name="mine", visible=mine)
    server.add_resource(lambda n: "", "y://{n}", name="template", visible=mine)
    for who, there in ((Principal("me"), [A, uri, "z://"]), (None, [A, "z://"])):
        async with driver(server, principal=who) as wire, anyio.create_task_group() as group:
            params = {"notifications": {"resourceSubscriptions": [A, uri, "z://"]}}
            group.start_soon(wire.serve, wire.exchange("subscriptions/listen", params))
            assert (await wire.next())["params"]["notifications"]["resourceSubscriptions"] == there
            assert await server.notify.resource_updated(uri) == (uri in there)
            wire.dispatcher.closing.set()


@pytest.mark.rule("R163")
async def test_a_cap_answers_with_a_clear_error_and_leaving_frees_the_place() -> None:
    server = Server("test", limits=Limits(listeners=2))
    async with serving(server) as [line]:
        await line.listen(1, toolsListChanged=True)
        await line.listen(2, toolsListChanged=True)
        refused = (await line.listen(3, toolsListChanged=True))["error"]
        assert refused["code"] == -32603 and "limit of 2 listeners" in refused["message"]
        line.say("notifications/cancelled", {"requestId": 1})
        line.say("tools/list", id=4)
        await line.next()
        assert len(server.notify) == 1
        assert (await line.listen(5, toolsListChanged=True))["params"]["_meta"] == {ID: 5}
        assert await server.notify.tools_changed() == 2
        assert [(await line.next())["params"]["_meta"][ID] for _ in range(2)] == [2, 5]
    assert len(server.notify) == 0


@pytest.mark.rule("R163")
@pytest.mark.rule("R163")
async def test_one_subscription_has_so_many_resources() -> None:
    server = Server("test", limits=Limits(listeners=2))
    server.add_resource(lambda: "", A, name="a")
    async with serving(server) as [line]:
        refused = (await line.listen(1, resourceSubscriptions=[A] * 3))["error"]
        assert refused["code"] == -32602 and "at most 2 resources in one subscription" in refused["message"]
        assert (await line.listen(2, resourceSubscriptions=[A] * 2))["method"].endswith("acknowledged")


async def test_the_end_of_a_channel_ends_its_subscriptions_at_once_with_a_result() -> None:
    server = Server("test", limits=Limits(grace=600))
    async with serving(server, 2) as [line, other]:
        await line.listen(1, toolsListChanged=True)
        await other.listen(1, toolsListChanged=True)
        line.say("subscriptions/listen", {"notifications": {}}, 2)  # it has not even begun
        line.send.close()
        ended = {
            message["id"]: message["result"] for message in [await line.next() for _ in range(3)] if "id" in message
        }
        assert [ended[id]["_meta"][ID] for id in (1, 2)] == [1, 2]
        assert ended[1]["resultType"] == "complete"
        assert await server.notify.tools_changed() == 1
        assert (await other.next())["method"] == "notifications/tools/list_changed"


@pytest.mark.rule("R163")
async def test_a_server_that_ends_sends_the_result(server: Server) -> None:
    async with driver(server) as wire, anyio.create_task_group() as group:
        exchange = wire.exchange("subscriptions/listen", {"notifications": ALL})
        group.start_soon(wire.serve, exchange)
        await wire.next()
        wire.dispatcher.closing.set()
        response = await wire.next()
        assert response["id"] == exchange.request.id
        assert response["result"]["_meta"][ID] == exchange.request.id
    assert len(server.notify) == 0


async def test_a_channel_that_nobody_reads_takes_no_subscription(server: Server) -> None:
    async with driver(server) as wire:
        for _ in range(10_000):
            wire.session.stream.append(decode(b'{"jsonrpc":"2.0","method":"x"}'))  # type: ignore[arg-type]
        await wire.serve(wire.exchange("subscriptions/listen", {"notifications": ALL}))
        response = await wire.until(lambda message: "id" in message)
        assert "too many messages" in response["error"]["message"]
    assert len(server.notify) == 0


# Slow and many.


@pytest.mark.rule("R163")
@pytest.mark.case("E04")
async def test_a_slow_listener_delays_nobody(server: Server) -> None:
    async with driver(server) as slow, anyio.create_task_group() as group:
        group.start_soon(slow.serve, slow.exchange("subscriptions/listen", {"notifications": ALL}))
        await slow.next()
        for _ in range(10_000):
            assert await server.notify.tools_changed() == 1
        quick = Driver(slow.dispatcher, MODERN, {})
        group.start_soon(quick.serve, quick.exchange("subscriptions/listen", {"notifications": ALL}))
        await quick.next()
        before = time.perf_counter()
        assert await server.notify.tools_changed() == 1, "one is full, and was not counted"
        assert (await quick.next())["method"] == "notifications/tools/list_changed"
        assert time.perf_counter() - before < 1
        assert slow.session.stream.dropped == 1
        slow.dispatcher.closing.set()


async def test_a_thousand_listeners(server: Server) -> None:
    async with start(server) as dispatcher, anyio.create_task_group() as group:
        wires = [Driver(dispatcher, MODERN, {}) for _ in range(1000)]
        for wire in wires:
            group.start_soon(wire.serve, wire.exchange("subscriptions/listen", {"notifications": ALL}))
        for wire in wires:
            await wire.next()
        assert (len(server.notify), await server.notify.tools_changed()) == (1000, 1000)
        for wire in wires:
            assert (await wire.next())["method"] == "notifications/tools/list_changed"
        dispatcher.closing.set()
    assert len(server.notify) == 0


# Legacy sessions.


@pytest.mark.case("E04")
@pytest.mark.rule("R137", "R138")
async def test_three_clients_of_which_two_subscribed(server: Server) -> None:
    async with serving(server, 4) as [one, two, three, modern]:
        for line in (one, two, three):
            await line.initialize()
        for line in (one, two):
            line.say("resources/subscribe", {"uri": A}, 1, modern=False)
            assert (await line.next())["result"] == {}
        await modern.listen(resourceSubscriptions=["file:///b"])
        assert await server.notify.resource_updated(A) == 2
        for line in (one, two):
            told = await line.next()
            assert (told["method"], told["params"]) == ("notifications/resources/updated", {"uri": A})
        assert three.quiet and modern.quiet
        one.say("resources/unsubscribe", {"uri": A}, 2, modern=False)
        await one.next()
        assert await server.notify.resource_updated(A) == 1


@pytest.mark.rule("R94", "R135", "R136")
async def test_a_session_hears_of_the_lists_that_were_declared_to_it() -> None:
    server = Server("test")
    async with serving(server, 2) as [early, late]:
        await early.initialize()
        server.add_prompt(lambda: "", name="p")
        await late.initialize()
        assert await server.notify.tools_changed() == 2
        assert await server.notify.prompts_changed() == 1
        assert await early.next() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert [(await late.next())["method"] for _ in range(2)] == [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
        ]
        assert early.quiet


async def test_a_session_is_told_nothing_before_it_is_ready(server: Server) -> None:
    async with driver(server, LEGACY) as wire:
        assert await server.notify.tools_changed() == 1
        other = Driver(wire.dispatcher, LEGACY, {})
        await other.bring_up(initialized=False)
        assert await server.notify.tools_changed() == 1
        other.tell("notifications/initialized")
        assert await server.notify.tools_changed() == 2
        other.session.close()
        assert (await server.notify.tools_changed(), len(server.notify)) == (1, 1)


async def test_subscribing(server: Server) -> None:
    server.limits = Limits(listeners=1)
    server.add_resource(lambda n: n, "b://{n}", name="b")
    async with driver(server, LEGACY) as wire:
        for uri, error in (
            ("x://", (-32002, "Resource not found")),
            (A, None),
            ("b://1", (-32603, "as many resources")),
        ):
            await wire.serve(wire.exchange("resources/subscribe", {"uri": uri}))
            response = await wire.next()
            if error is None:
                assert response["result"] == {}
            else:
                assert response["error"]["code"] == error[0] and error[1] in response["error"]["message"]
        await wire.serve(wire.exchange("resources/unsubscribe", {"uri": "never://"}))
        assert (await wire.next())["result"] == {}


async def test_who_gets_the_same_shares_one_message() -> None:
    change = Change(UPDATED, A)
    assert change.message(1) is change.message(1) and change.message() is change.message()
    told = [json.loads(encoded(change.message(id)))["params"] for id in (1, "1", 0, None)]
    assert [params.get("_meta", {}).get(ID) for params in told] == [1, "1", 0, None]
    assert {params["uri"] for params in told} == {A} and "_meta" not in told[-1]
    changed = Change(TOOLS, None)
    assert changed.message().params is None
    assert json.loads(encoded(changed.message(1)))["params"] == {"_meta": {ID: 1}}
