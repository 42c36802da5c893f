"""A new session where the server has lost the old one."""

import math
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from backchannel.client.client import Client
from backchannel.client.subscriptions import Change
from backchannel.client.transport import SessionGone
from backchannel.errors import (
    ConnectionFailed,
    ConnectionLost,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestTimeout,
    UnsupportedVersion,
)
from backchannel.protocol.jsonrpc import Message
from tests.client import fake_time
from tests.client.scripted import LEGACY, MODERN, Json, RpcError, Script

pytestmark = [pytest.mark.anyio, pytest.mark.case("F04")]
anyio_backend = fake_time.anyio_backend
DONE: Json = {"content": [{"type": "text", "text": "done"}]}
CAPABLE: Json = {"tools": {}, "logging": {}, "resources": {"subscribe": True, "listChanged": True}}


class Forgetful(Script):
    """A server that loses its session when the test says so, and `lasting` says how many messages each later one
    lasts."""

    def __init__(self, on: Any = None, *, lasting: float = math.inf, request_streams: bool = True):
        answers = {
            name: lambda params: {}
            for name in ("tools/call", "resources/subscribe", "resources/unsubscribe", "logging/setLevel", "ping")
        }
        answers["tools/call"] = lambda params: DONE
        super().__init__(LEGACY, {**answers, **(on or {})}, request_streams=request_streams, capabilities=CAPABLE)
        self.refused: list[str] = []
        self.left = math.inf
        self.lasting = lasting

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        method = getattr(message, "method", "")
        if method == "initialize":
            self.left = self.lasting if self.left <= 0 else self.left
        elif self.left <= 0:
            await anyio.lowlevel.checkpoint()
            self.refused.append(method)
            raise SessionGone("the server does not know this session any more")
        else:
            self.left -= 1
        await super().send(message, headers)

    def forget(self) -> None:
        self.left = 0
        self.sent.clear()

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.sent if "method" in message]


async def test_calls_that_find_the_session_gone_begin_one_new_one_and_are_sent_again() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY) as client, anyio.create_task_group() as group:
        script.forget()
        for _ in range(10):
            group.start_soon(client.call_tool, "t")
    assert script.refused == ["tools/call"] * 10
    assert script.methods == ["initialize", "notifications/initialized", *["tools/call"] * 10]
    assert script.listening == 2


@pytest.mark.rule("R93", "R99")
async def test_the_new_session_is_as_the_old_one_was() -> None:
    script = Forgetful()
    client = Client(script, version=LEGACY, elicit=lambda q: True, roots=[], log_level="warning")
    async with client, client.listen(resources=["note://1", "note://2"], tools=True) as changes:
        await client.set_log_level("error")
        [first] = script.requests("initialize")
        client.answers.sample = lambda question: "capabilities cannot grow"
        script.forget()
        await client.ping()
        assert script.requests("initialize") == [first]
        assert script.methods[2:] == ["logging/setLevel", "resources/subscribe", "resources/subscribe", "ping"]
        assert script.requests("logging/setLevel") == [{"level": "error"}]
        assert script.requests("resources/subscribe") == [{"uri": "note://1"}, {"uri": "note://2"}]
        told = [await anext(changes) for _ in range(3)]
        assert set(told) == {Change("tools"), Change("resource", "note://1"), Change("resource", "note://2")}
        script.give({"method": "notifications/resources/updated", "params": {"uri": "note://2"}})
        assert await anext(changes) == Change("resource", "note://2")
    assert script.requests("resources/unsubscribe") == [{"uri": "note://2"}, {"uri": "note://1"}]


async def test_a_subscription_that_is_not_taken_any_more_does_not_keep_the_session_from_beginning() -> None:
    def refuse(params: Json) -> Json:
        if script.refused:
            raise RpcError(-32602)
        return {}

    script = Forgetful({"resources/subscribe": refuse})
    async with Client(script, version=LEGACY) as client, client.listen(resources=["note://1"]):
        script.forget()
        assert (await client.call_tool("t")).text == "done"


@pytest.mark.parametrize("lasting", [0, 1])
async def test_a_session_that_is_lost_at_once_is_an_error_and_no_loop(lasting: int) -> None:
    """1: `initialized` is taken, and the call is not."""
    script = Forgetful(lasting=lasting)
    async with Client(script, version=LEGACY) as client:
        script.forget()
        with pytest.raises(SessionGone, match="does not know this session") as caught:
            await client.call_tool("t")
        assert isinstance(caught.value, ConnectionFailed) and caught.value.pending is not None
        assert len(script.requests("initialize")) == 1
        script.lasting = math.inf
        assert (await client.call_tool("t")).text == "done", "the next call tries again"
        result = await client.resume(caught.value.pending)
        assert result.text == "done"


async def test_it_can_be_switched_off() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY, renew=False) as client:
        script.forget()
        with pytest.raises(SessionGone):
            await client.call_tool("t")
        assert script.methods == []
        script.lose(SessionGone("the stream of the session found it out"))
        with pytest.raises(ConnectionLost, match="found it out"):
            await client.call_tool("t")
    assert script.closed


async def test_who_gives_up_does_not_keep_the_others_from_the_new_session() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY) as client, anyio.create_task_group() as group:
        script.forget()
        begin: Any = script.on.pop("initialize")
        scopes = [anyio.CancelScope() for _ in range(3)]
        results = []

        async def call(scope: anyio.CancelScope) -> None:
            with scope:
                results.append(await client.call_tool("t"))

        for scope in scopes:
            group.start_soon(call, scope)
        request = await script.next("initialize")
        while request["id"] == 1:  # the first session's
            request = await script.next("initialize")
        scopes[0].cancel()
        await anyio.wait_all_tasks_blocked()
        script.result(request, begin({}))
    assert [result.text for result in results] == ["done", "done"]
    assert script.methods.count("initialize") == 1


async def test_a_server_that_is_away_for_a_moment_is_tried_again() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY) as client:
        begin, script.on["initialize"] = script.on["initialize"], ConnectionFailed("connection refused")
        script.forget()
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "t")
            await script.next("initialize")
            await anyio.sleep(0.05)
            script.on["initialize"] = begin
        assert script.methods[-1] == "tools/call"


@pytest.mark.case("G03")
@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (RpcError(-32603, "broken"), RemoteProtocolError, "broken"),
        ({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}},
         UnsupportedVersion, "2024-11-05"),
        (ConnectionFailed("connection refused"), ConnectionFailed, "no new one has begun: connection refused"),
        (ConnectionLost("hung up"), ConnectionFailed, "no new one has begun: hung up"),
    ],
)  # fmt: skip
async def test_where_no_new_session_begins_every_call_gets_a_plain_error_of_its_own(
    answer: Any, kind: type[Exception], words: str
) -> None:
    script, errors = Forgetful(), []

    def refuse(params: Json) -> Json:
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def call(client: Client) -> None:
        with pytest.raises(kind, match=words) as caught:
            await client.call_tool("t")
        errors.append(caught.value)

    async with Client(script, version=LEGACY) as client:
        script.forget()
        script.on["initialize"] = answer if isinstance(answer, ConnectionFailed | ConnectionLost) else refuse
        async with anyio.create_task_group() as group:
            group.start_soon(call, client)
            group.start_soon(call, client)
    assert [type(error) for error in errors] == [kind, kind]
    if kind is ConnectionFailed:
        assert errors[0] is not errors[1]
        assert all(error.pending is not None for error in errors)


async def test_a_new_session_has_a_limit_of_time() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY, timeout=10) as client:
        del script.on["initialize"]
        script.forget()
        with pytest.raises(RequestTimeout, match="total"):
            await client.call_tool("t", total_timeout=5)
        with pytest.raises(ConnectionFailed, match="no response to initialize"):
            await client.call_tool("t")


async def test_the_stream_of_the_session_may_find_out_and_what_is_in_flight_goes_on() -> None:
    script = Forgetful()
    del script.on["tools/call"]
    async with Client(script, version=LEGACY) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "t")
        request = await script.next("tools/call")
        script.sent.clear()
        script.lose(SessionGone("gone"))
        await anyio.wait_all_tasks_blocked()
        assert script.methods == ["initialize", "notifications/initialized"], "without any call"
        script.result(request, DONE)


@pytest.mark.rule("R116")
@pytest.mark.parametrize("read_only", [True, False])
async def test_on_one_pipe_what_was_in_flight_is_lost_with_the_session(read_only: bool) -> None:
    tool = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": read_only}}
    script = Forgetful({"tools/list": lambda params: {"tools": [tool]}}, request_streams=False)
    del script.on["tools/call"]
    errors, results = [], []
    async with Client(script, version=LEGACY) as client:
        assert [one.name async for one in client.tools()] == ["t"]

        async def call() -> None:
            try:
                results.append(await client.call_tool("t"))
            except OutcomeUnknown as error:
                errors.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await script.next("tools/call")
            script.lose(SessionGone("the server exited with code 3"))
            if read_only:
                script.result(await script.next("tools/call"), DONE)
        if errors:
            assert "exited with code 3" in str(errors[0])
            async with anyio.create_task_group() as group:
                group.start_soon(client.resume, errors[0].pending)
                script.result(await script.next("tools/call"), DONE)
    assert (len(results), len(errors)) == ((1, 0) if read_only else (0, 1))
    assert len(script.requests("initialize")) == 2


async def test_who_hears_late_that_an_old_session_is_gone_uses_the_new_one() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY) as client:
        renewal = client._opened().renewal
        assert renewal is not None
        script.forget()
        await client.call_tool("t")
        assert (renewal.session, renewal.done) == (1, 1)
        renewal.lose(0)
        assert not renewal.needed
        renewal.lose(1)
        assert renewal.needed


async def test_other_roots_are_told_in_the_new_session() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY, roots=[]) as client:
        script.forget()
        await client.set_roots(["/tmp"])
        assert script.methods == ["initialize", "notifications/initialized", "notifications/roots/list_changed"]


async def test_a_subscription_that_is_being_added_waits_for_the_new_session() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY) as client, client.listen(resources=["note://1"]):
        script.forget()
        async with client.listen(resources=["note://2"]) as changes:
            assert changes.honoured.resources == ("note://2",)
        uris = [params["uri"] for params in script.requests("resources/subscribe")]
    assert uris == ["note://1", "note://2"]


async def test_closing_while_a_session_begins() -> None:
    script, errors = Forgetful(), []
    client = Client(script, version=LEGACY)
    await client.open()
    del script.on["initialize"]
    script.forget()

    async def call() -> None:
        with pytest.raises(ConnectionLost) as caught:
            await client.call_tool("t")
        errors.append(caught.value)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        await client.close()
    assert len(errors) == 1


async def test_on_the_stateless_protocol_a_server_that_was_started_again_is_asked_who_it_is() -> None:
    script = Script(MODERN, {"tools/call": lambda params: {"resultType": "complete", **DONE}})
    async with Client(script, version=MODERN) as client:
        script.lose(SessionGone("the server exited with code 3"))
        assert (await client.call_tool("t")).text == "done"
    assert [message["method"] for message in script.sent] == ["server/discover", "server/discover", "tools/call"]


async def test_a_subscription_of_the_stateless_protocol_ends_with_the_server() -> None:
    script = Script(MODERN)
    async with Client(script, version=MODERN) as client:

        async def acknowledge() -> None:
            request = await script.next("subscriptions/listen")
            meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
            params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
            script.give({"method": "notifications/subscriptions/acknowledged", "params": params})

        async with anyio.create_task_group() as group:
            group.start_soon(acknowledge)
            async with client.listen(tools=True) as changes:
                script.lose(SessionGone("the server exited with code 3"))
                with pytest.raises(ConnectionLost, match="exited with code 3"):
                    await anext(changes)


@pytest.mark.case("B14")
async def test_the_time_that_a_new_session_takes_is_no_idle_time() -> None:
    script = Forgetful()
    async with Client(script, version=LEGACY, timeout=10) as client, anyio.create_task_group() as group:
        begin: Any = script.on.pop("initialize")
        script.forget()
        while script._unread:
            await script.next()

        async def call() -> None:
            assert (await client.call_tool("t", timeout=1)).text == "done"

        group.start_soon(call)
        request = await script.next("initialize")
        await anyio.sleep(5)
        script.result(request, begin({}))
