"""`client.gauges()`."""

import anyio
import pytest

from backchannel import Client, ConnectionLost
from backchannel.client.gauges import Gauges
from backchannel.client.http import HttpTransport
from backchannel.client.listener import MOST
from backchannel.client.sse import Fallback
from tests.client import fake_time
from tests.client.http_server import Got, message, response, serving
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, Script, form, questions

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
DONE: Json = {"resultType": "complete", "content": []}
NOTHING = Gauges()


@pytest.mark.parametrize("version", BOTH)
async def test_what_goes_on(version: str) -> None:
    script, answered = Script(version), anyio.Event()

    async def answer(question: object) -> Json:
        await answered.wait()
        return {"n": 1}

    client = Client(script, version=version, elicit=answer, max_parallel=1)
    assert client.gauges() == NOTHING
    async with client, anyio.create_task_group() as group:
        assert client.gauges() == NOTHING
        for _ in range(3):
            group.start_soon(client.call_tool, "t")
        calls = [await script.next("tools/call") for _ in range(3)]
        assert client.gauges() == Gauges(calls=3)
        asks = {"a": ("elicitation/create", form()), "b": ("elicitation/create", form())}
        if version == MODERN:
            script.result(calls[0], questions("s", **asks))
        else:
            for id, (method, params) in asks.items():
                script.ask(id, method, params)
        await anyio.wait_all_tasks_blocked()
        assert client.gauges() == Gauges(calls=3, questions=2), "one is asked, and one waits for its turn"
        answered.set()
        if version == MODERN:
            calls[0] = await script.next("tools/call")
        await anyio.wait_all_tasks_blocked()
        assert client.gauges() == Gauges(calls=3)
        for call in calls:
            script.result(call, DONE)
        script.give({"id": 999, "result": {}})
        await anyio.wait_all_tasks_blocked()
        assert client.gauges() == Gauges(dropped=1)
    assert client.gauges() == Gauges(dropped=1)


async def test_a_question_that_is_given_up_is_not_open_any_more() -> None:
    script = Script(LEGACY)
    async with Client(script, version=LEGACY, elicit=lambda question: {"n": 1}) as client:
        script.ask(1, "elicitation/create", form())
        script.give({"method": "notifications/cancelled", "params": {"requestId": 1}})
        await anyio.wait_all_tasks_blocked()
        assert client.gauges() == NOTHING


async def test_log_messages_that_the_host_is_too_slow_for() -> None:
    script, go_on = Script(LEGACY), anyio.Event()

    async def slow(message: object) -> None:
        await go_on.wait()

    async with Client(script, version=LEGACY, log=slow) as client:
        for number in range(MOST + 3):
            script.give({"method": "notifications/message", "params": {"level": "info", "data": number}})
        await anyio.wait_all_tasks_blocked()
        assert client.gauges() == Gauges(dropped=2)
        go_on.set()


async def test_subscriptions() -> None:
    script = Script(LEGACY, {"resources/subscribe": lambda params: {}, "resources/unsubscribe": lambda params: {}})
    script.capabilities = {"resources": {"subscribe": True}}
    async with Client(script, version=LEGACY) as client:
        async with client.listen(resources=["a://1"]), client.listen(resources=["a://1", "a://2"]):
            assert client.gauges().subscriptions == 2
        assert client.gauges() == NOTHING
        with pytest.raises(ConnectionLost):
            async with client.listen(resources=["a://1"]):
                script.lose(ConnectionLost("gone"))
                await anyio.lowlevel.checkpoint()
                raise ConnectionLost("gone")
        assert client.gauges() == NOTHING


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_streams_and_reconnects(anyio_backend: str) -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    async def script(got: Got) -> None:
        if got.method == "POST" and got.json.get("method") == "initialize":
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": info}
            await got.result(result, mcp_session_id="session")
        elif got.method == "GET" and "last-event-id" in got.headers:
            await got.stream()
            await got.event(response(got.json.get("id") or 2, DONE))
            await got.end()
        elif got.method == "GET":
            await got.stream()
            await got.raw("event: message\ndata: junk\n\n")
            await got.wait()
        elif got.json.get("method") == "tools/call":
            await got.stream()
            await got.event(message("n"), id="1", retry=1)
            begun.set()
            await go_on.wait()
            await got.end()
        else:
            await got.reply(202)

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        client = Client(Fallback(transport, lambda: transport), version=LEGACY)
        async with client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "t")
            await begun.wait()
            assert client.gauges().streams == 2
            go_on.set()
        assert client.gauges() == Gauges(reconnects=1, dropped=1)
