"""`client.middleware`: an onion around every request of the client, over all its rounds."""

import json
from typing import Any

import anyio
import pytest

from backchannel import Client, Context, Pending, Server
from backchannel.errors import LocalProtocolError, RemoteProtocolError, RequestTimeout
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, RpcError, Script, form, questions

pytestmark = [pytest.mark.anyio, pytest.mark.rule("R131", "R132")]
anyio_backend = fake_time.anyio_backend
DONE: Json = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
both = pytest.mark.parametrize("version", BOTH)


def watched(client: Client, seen: list[str], name: str = "") -> None:
    @client.middleware
    async def note(call: Pending[Any], call_next: Any) -> Any:
        seen.append(f"{name}> {call.method}")
        try:
            result = await call_next(call)
        except Exception as error:
            seen.append(f"{name}! {type(error).__name__}")
            raise
        seen.append(f"{name}< {call.method}")
        return result


@both
async def test_the_first_is_outermost_and_a_call_passes_once_however_often_it_asks(version: str) -> None:
    server, seen = Server("s"), list[str]()

    @server.tool
    async def twice(ctx: Context) -> str:
        return f"{await ctx.confirm('One?')} {await ctx.confirm('Two?')}"

    client = Client(server, elicit=lambda question: True, version=version)
    watched(client, seen, "a")
    watched(client, seen, "b")
    async with client:
        assert seen == [], "not around what brings the connection up"
        assert (await client.call_tool("twice")).text == "True True"
    assert seen == ["a> tools/call", "b> tools/call", "b< tools/call", "a< tools/call"]


@both
async def test_every_method_passes(version: str) -> None:
    server, seen = Server("s"), list[str]()

    @server.resource("note://1")
    async def note() -> str:
        return "text"

    client = Client(server, version=version)
    watched(client, seen)
    async with client:
        await client.read("note://1")
        assert [resource.uri async for resource in client.resources()] == ["note://1"]
        await client.ping()
        await client.set_log_level("info")
        await client.begin("resources/read", {"uri": "note://1"})
    passed = [one[2:] for one in seen if one.startswith(">")]
    ping = ["server/discover"] if version == MODERN else ["ping", "logging/setLevel"]
    assert passed == ["resources/read", "resources/list", *ping, "resources/read"]


@both
@pytest.mark.rule("R153", "R156")
async def test_it_may_add_to_what_is_sent(version: str) -> None:
    script = Script(version, {"tools/call": lambda params: DONE})
    client = Client(script, version=version)

    @client.middleware
    async def trace(call: Pending[Any], call_next: Any) -> Any:
        return await call_next(call.with_meta(traceparent="ours", tracestate="ours"))

    mine: Json = {"traceparent": "mine"}
    async with client:
        await client.call_tool("t", {"a": 1}, meta=mine)
        await client.call_tool("t")
    first, second = script.requests("tools/call")
    assert (first["_meta"]["traceparent"], first["_meta"]["tracestate"]) == ("mine", "ours")
    assert (second["_meta"]["traceparent"], second["arguments"]) == ("ours", {})
    assert first["arguments"] == {"a": 1}
    assert mine == {"traceparent": "mine"}


async def test_what_it_adds_is_in_every_round() -> None:
    rounds = [questions("s", a=("elicitation/create", form())), DONE]
    script = Script(MODERN, {"tools/call": lambda params: rounds.pop(0)})
    client = Client(script, version=MODERN, elicit=lambda question: {"n": 1})

    @client.middleware
    async def trace(call: Pending[Any], call_next: Any) -> Any:
        return await call_next(call.with_meta(traceparent="ours"))

    async with client:
        await client.call_tool("t")
    assert [params["_meta"]["traceparent"] for params in script.requests("tools/call")] == ["ours", "ours"]


@both
async def test_it_may_answer_by_itself(version: str) -> None:
    script = Script(version)
    client = Client(script, version=version)

    @client.middleware
    async def kept(call: Pending[Any], call_next: Any) -> Any:
        return {"content": [{"type": "text", "text": call.params["name"]}]}

    async with client:
        assert (await client.call_tool("t")).text == "t"
        assert json.loads(bytes(await client.request("tools/call", {"name": "u"})))["content"][0]["text"] == "u"
        begun = await client.begin("tools/call", {"name": "v", "arguments": {}})
        assert not isinstance(begun, Pending) and begun.text == "v"
    assert script.requests("tools/call") == []


async def test_a_result_of_its_own_has_the_form_of_json() -> None:
    client = Client(Script(LEGACY), version=LEGACY)

    @client.middleware
    async def broken(call: Pending[Any], call_next: Any) -> Any:
        return object()

    async with client:
        with pytest.raises(LocalProtocolError, match="middleware"):
            await client.call_tool("t")


async def test_by_hand_it_sees_the_call_with_its_questions() -> None:
    rounds = [questions("s", a=("elicitation/create", form())), DONE]
    script, seen = Script(MODERN, {"tools/call": lambda params: rounds.pop(0)}), list[Any]()
    client = Client(script, version=MODERN)

    @client.middleware
    async def note(call: Pending[Any], call_next: Any) -> Any:
        result = await call_next(call)
        seen.append((list(call.questions), list(result.questions) if isinstance(result, Pending) else "result"))
        return result

    async with client:
        pending = await client.begin("tools/call", {"name": "t", "arguments": {}})
        assert isinstance(pending, Pending)
        await client.resume(pending, {"a": {"n": 1}})
    assert seen == [([], ["a"]), (["a"], "result")]


@both
async def test_it_sees_what_goes_wrong(version: str) -> None:
    def refuse(params: Json) -> Json:
        raise RpcError(-32602)

    script, seen = Script(version, {"prompts/get": refuse}), list[str]()
    client = Client(script, version=version, timeout=1)
    watched(client, seen)
    async with client:
        with pytest.raises(RemoteProtocolError):
            await client.get_prompt("p")
        with pytest.raises(RequestTimeout):
            await client.call_tool("t")
    assert seen == ["> prompts/get", "! RemoteProtocolError", "> tools/call", "! RequestTimeout"]


@both
async def test_calls_at_the_same_time_pass_each_for_itself(version: str) -> None:
    script, open, most = Script(version), 0, 0
    client = Client(script, version=version)

    @client.middleware
    async def count(call: Pending[Any], call_next: Any) -> Any:
        nonlocal open, most
        open += 1
        most = max(most, open)
        try:
            return await call_next(call)
        finally:
            open -= 1

    async with client, anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(client.call_tool, "t")
        for request in [await script.next("tools/call") for _ in range(10)]:
            script.result(request, DONE)
    assert (open, most) == (0, 10)
