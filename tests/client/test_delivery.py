"""A connection that drops under a call: what is sent again, what is not, and what is left to go on with."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from backchannel import OutcomeUnknown, Pending
from backchannel.client import delivery
from backchannel.client.call import Call
from backchannel.client.client import Client
from backchannel.client.delivery import PAUSES
from backchannel.client.http import HttpTransport
from backchannel.client.transport import SessionGone
from backchannel.errors import ConnectionFailed, ConnectionLost, RemoteProtocolError, RequestTimeout
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, Script, form, questions
from tests.client.test_http_transport import Got
from tests.client.test_http_transport import Server as HttpServer

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
ELICIT = "elicitation/create"
STATE = "SEALED-STATE"
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
ASK = questions(STATE, a=(ELICIT, form()))
BODY = {"name": "t", "arguments": {"x": 1}}
ROUND_2 = {
    **BODY,
    "inputResponses": {"a": {"action": "accept", "content": {"n": 1}}},
    "requestState": STATE,
}
REFUSED, LOST = ConnectionFailed("cannot connect"), ConnectionLost("the stream broke")
BAD_GATEWAY = RemoteProtocolError(0, "HTTP 502", status=502)


def rounds(*steps: Json | Exception) -> Callable[[Json], Json]:
    """What each request meets, one after the other: a result, or an exception of the transport."""
    left = list(steps)

    def answer(params: Json) -> Json:
        step = left.pop(0)
        if isinstance(step, RemoteProtocolError):
            raise step
        if isinstance(step, Exception):
            raise type(step)(*step.args)
        return step

    return answer


class Person:
    """Answers, and counts."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, question: Any) -> Json:
        self.asked += 1
        return {"n": 1}


def sent(script: Script, method: str = "tools/call") -> list[Json]:
    return [{name: value for name, value in params.items() if name != "_meta"} for params in script.requests(method)]


def tools(**annotations: Any) -> Callable[[Json], Json]:
    tool = {"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations}
    return lambda params: {"resultType": "complete", "tools": [tool]}


async def listed(client: Client) -> None:
    async for _ in client.tools():
        pass


# What certainly did not run.


@pytest.mark.rule("R116")
@pytest.mark.parametrize("times", [1, len(PAUSES)])
async def test_a_round_that_did_not_reach_the_server_is_sent_again(times: int) -> None:
    person = Person()
    script = Script(MODERN, {"tools/call": rounds(ASK, *[REFUSED] * times, DONE)})
    async with Client(script, elicit=person) as client:
        began = anyio.current_time()
        assert (await client.call_tool("t", {"x": 1})).text == "done"
        assert anyio.current_time() - began == pytest.approx(sum(PAUSES[:times]))
    assert sent(script) == [BODY, *[ROUND_2] * (times + 1)]
    assert person.asked == 1, "nobody is asked again"
    ids = [message["id"] for message in script.sent if message.get("method") == "tools/call"]
    assert len(set(ids)) == len(ids)


@pytest.mark.rule("R116")
@pytest.mark.parametrize("version", BOTH)
async def test_so_is_a_call_of_one_round(version: str) -> None:
    script = Script(version, {"tools/call": rounds(REFUSED, DONE)})
    async with Client(script, version=version) as client:
        assert (await client.call_tool("t", {"x": 1})).text == "done"
    assert sent(script) == [BODY, BODY]


@pytest.mark.rule("R116")
async def test_after_a_few_tries_the_call_is_given_back_with_its_answers() -> None:
    person = Person()
    script = Script(MODERN, {"tools/call": rounds(ASK, *[REFUSED] * 4, DONE)})
    async with Client(script, elicit=person) as client:
        with pytest.raises(ConnectionFailed, match="cannot connect") as caught:
            await client.call_tool("t", {"x": 1})
        assert len(sent(script)) == 2 + len(PAUSES)
        assert caught.value.pending is not None
        result = await client.resume(caught.value.pending)
    assert result.text == "done"
    assert sent(script) == [BODY, *[ROUND_2] * 5]
    assert person.asked == 1


async def test_the_pauses_are_no_idle_time_but_count_for_the_total() -> None:
    for limits, clock in (({"timeout": 1}, None), ({"total_timeout": 1}, "total")):
        script = Script(MODERN, {"tools/call": rounds(*[REFUSED] * 3, DONE)})
        async with Client(script) as client:
            try:
                assert (await client.call_tool("t", **limits)).text == "done"  # type: ignore[arg-type]
                assert clock is None
            except RequestTimeout as error:
                assert error.clock == clock


@pytest.mark.rule("R62")
async def test_a_call_that_is_cancelled_in_a_pause_is_not_sent_again() -> None:
    script = Script(MODERN, {"tools/call": rounds(REFUSED, DONE)})
    async with Client(script) as client:
        with anyio.move_on_after(PAUSES[0] / 2) as scope:
            await client.call_tool("t")
        await anyio.sleep(10)
    assert scope.cancelled_caught
    assert len(sent(script)) == 1


# What may have run.


@pytest.mark.rule("R114", "R116")
@pytest.mark.parametrize("drop", [LOST, BAD_GATEWAY])
async def test_a_round_that_may_have_run_is_not_sent_again(drop: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    person = Person()
    script = Script(MODERN, {"tools/call": rounds(ASK, drop, DONE)})
    async with Client(script, elicit=person) as client:
        with pytest.raises(OutcomeUnknown, match=str(drop)) as caught:
            await client.call_tool("t", {"x": 1})
        assert sent(script) == [BODY, ROUND_2]
        error = caught.value
        assert isinstance(error, ConnectionLost)
        assert "client.resume(error.pending)" in str(error)
        assert STATE not in f"{error} {error!r} {error.pending!r} {caplog.text}"
        result = await client.resume(error.pending)
    assert result.text == "done"
    assert sent(script) == [BODY, ROUND_2, ROUND_2]
    assert person.asked == 1


@pytest.mark.rule("R116")
async def test_it_can_be_saved_and_resumed_elsewhere() -> None:
    script = Script(MODERN, {"tools/call": rounds(ASK, LOST)})
    async with Client(script, elicit=Person()) as client:
        with pytest.raises(OutcomeUnknown) as caught:
            await client.call_tool("t", {"x": 1})
    text = caught.value.pending.to_json()
    person, elsewhere = Person(), Script(MODERN, {"tools/call": rounds(DONE)})
    async with Client(elsewhere, elicit=person) as client:
        assert (await client.resume(Pending.from_json(text))).text == "done"
    assert sent(elsewhere) == [ROUND_2]
    assert person.asked == 0


@pytest.mark.rule("R116")
@pytest.mark.parametrize("version", BOTH)
async def test_the_first_round_too(version: str) -> None:
    script = Script(version, {"tools/call": rounds(LOST, DONE)})
    async with Client(script, version=version) as client:
        with pytest.raises(OutcomeUnknown) as caught:
            await client.call_tool("t", {"x": 1})
        assert caught.value.pending.params == BODY
        assert (await client.resume(caught.value.pending)).text == "done"
    assert sent(script) == [BODY, BODY]


@pytest.mark.rule("R116")
async def test_a_refusal_and_then_a_loss() -> None:
    script = Script(MODERN, {"tools/call": rounds(REFUSED, LOST)})
    async with Client(script) as client:
        with pytest.raises(OutcomeUnknown):
            await client.call_tool("t")
    assert len(sent(script)) == 2


# What may run twice.


@pytest.mark.rule("R116")
@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint"])
@pytest.mark.parametrize("drop", [LOST, BAD_GATEWAY])
async def test_a_tool_that_may_run_twice_is_sent_again(hint: str, drop: Exception) -> None:
    person = Person()
    script = Script(MODERN, {"tools/call": rounds(ASK, drop, drop, DONE), "tools/list": tools(**{hint: True})})
    async with Client(script, elicit=person) as client:
        await listed(client)
        assert (await client.call_tool("t", {"x": 1})).text == "done"
    assert sent(script) == [BODY, *[ROUND_2] * 3]
    assert person.asked == 1


@pytest.mark.rule("R116")
@pytest.mark.parametrize(
    "annotations", [{}, {"readOnlyHint": False, "idempotentHint": False}, {"destructiveHint": False}]
)
async def test_another_is_not(annotations: Json) -> None:
    script = Script(MODERN, {"tools/call": rounds(LOST), "tools/list": tools(**annotations)})
    async with Client(script) as client:
        await listed(client)
        with pytest.raises(OutcomeUnknown):
            await client.call_tool("t")


@pytest.mark.rule("R116")
@pytest.mark.parametrize("how", ["changed", "listed again"])
async def test_what_a_tool_was_is_forgotten_when_the_list_changes(how: str) -> None:
    script = Script(MODERN, {"tools/call": rounds(LOST), "tools/list": tools(readOnlyHint=True)})
    async with Client(script, cache=False) as client:
        await listed(client)
        if how == "changed":
            script.give({"method": "notifications/tools/list_changed"})
        else:
            script.on["tools/list"] = tools()
            await listed(client)
        with pytest.raises(OutcomeUnknown):
            await client.call_tool("t")


@pytest.mark.rule("R116")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("method", ["resources/read", "prompts/get", "completion/complete", "tools/list"])
async def test_what_reads_is_sent_again(version: str, method: str) -> None:
    script = Script(version, {method: rounds(LOST, {"resultType": "complete"})})
    async with Client(script, version=version) as client:
        await client.request(method, {"name": "x"})
        script.on[method] = rounds(*[LOST] * 4)
        with pytest.raises(ConnectionLost) as caught:
            await client.request(method, {"name": "x"})
        assert type(caught.value) is ConnectionLost
        assert caught.value.pending is not None
    assert len(sent(script, method)) == 6


async def test_nobody_knows_what_a_method_of_an_extension_does() -> None:
    script = Script(MODERN, {"acme/do": rounds(LOST, {"resultType": "complete", "did": 1})})
    async with Client(script) as client:
        with pytest.raises(OutcomeUnknown) as caught:
            await client.request("acme/do", {"x": 1})
        result = await client.resume(caught.value.pending)
    assert msgspec.json.decode(result)["did"] == 1


@pytest.mark.rule("R116")
async def test_in_a_legacy_session_who_was_asked_is_not_asked_again() -> None:
    script, person = Script(LEGACY), Person()
    async with Client(script, elicit=person) as client:

        def drop(params: Json) -> Json:
            script.ask("q", ELICIT, form())
            raise ConnectionLost("the stream broke")

        script.on["prompts/get"] = drop
        with pytest.raises(ConnectionLost):
            await client.get_prompt("p")
    assert len(sent(script, "prompts/get")) == 1


@pytest.mark.parametrize(
    "error", [RemoteProtocolError(0, "busy", status=503), RemoteProtocolError(-1, "x", status=502)]
)
async def test_what_the_server_says_is_an_answer(error: Exception) -> None:
    script = Script(MODERN, {"tools/call": rounds(error), "tools/list": tools(readOnlyHint=True)})
    async with Client(script) as client:
        await listed(client)
        with pytest.raises(RemoteProtocolError) as caught:
            await client.call_tool("t")
        assert caught.value is error
    assert len(sent(script)) == 1


# A connection that is lost for good.


@pytest.mark.rule("R116")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("harmless", [False, True])
async def test_a_call_in_flight_when_the_server_dies(version: str, harmless: bool) -> None:
    script = Script(version, {"tools/list": tools(readOnlyHint=harmless)})
    errors: list[ConnectionLost] = []
    async with Client(script, version=version) as client, anyio.create_task_group() as group:
        await listed(client)

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="the server died") as caught:
                await client.call_tool("t", {"x": 1})
            errors.append(caught.value)

        group.start_soon(call)
        await script.next("tools/call")
        script.lose(ConnectionLost("the server died"))
    assert type(errors[0]) is (ConnectionLost if harmless else OutcomeUnknown)
    assert errors[0].pending is not None
    assert errors[0].pending.params == BODY
    assert len(sent(script)) == 1, "there is nobody to send it to"


@pytest.mark.rule("R116")
async def test_a_question_open_when_the_server_dies_can_be_answered_elsewhere() -> None:
    async def person(question: Any) -> None:
        await anyio.sleep_forever()

    script, caught = Script(MODERN, {"tools/call": rounds(ASK)}), []
    async with Client(script, elicit=person) as client, anyio.create_task_group() as group:

        async def call() -> None:
            try:
                await client.call_tool("t", {"x": 1})
            except ConnectionLost as error:
                caught.append(error)

        group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        script.lose(ConnectionLost("the server died"))
    [error] = caught
    assert type(error) is ConnectionLost, "that nothing ran is known"
    assert error.pending is not None
    assert list(error.pending.questions) == ["a"]
    elsewhere = Script(MODERN, {"tools/call": rounds(DONE)})
    async with Client(elsewhere) as client:
        assert (await client.resume(error.pending, {"a": {"n": 1}})).text == "done"
    assert sent(elsewhere) == [ROUND_2]


@pytest.mark.rule("R116")
async def test_a_call_that_was_not_answered_in_time() -> None:
    script = Script(MODERN, {"tools/call": rounds(ASK)})
    async with Client(script, elicit=Person(), timeout=1) as client:

        def never(params: Json) -> Json:
            del script.on["tools/call"]
            return ASK

        script.on["tools/call"] = never
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("t", {"x": 1})
        script.on["tools/call"] = rounds(DONE)
        assert caught.value.pending is not None
        assert (await client.resume(caught.value.pending)).text == "done"
    assert sent(script) == [BODY, ROUND_2, ROUND_2]


async def test_the_call_of_a_handler_keeps_what_it_says_of_itself() -> None:
    inner = Script(MODERN, {"tools/call": rounds(LOST)})
    outer = Script(MODERN, {"tools/call": rounds(ASK)})
    async with Client(inner) as other:

        async def person(question: Any) -> Any:
            return await other.call_tool("inner")

        async with Client(outer, elicit=person) as client:
            with pytest.raises(OutcomeUnknown) as caught:
                await client.call_tool("t")
    assert caught.value.pending.params["name"] == "inner"


# Over HTTP.


class Shop:
    """A server on a loopback socket that can be away. steps: what it does with one `tools/call` after the other."""

    def __init__(self, *steps: Json | None):
        self.steps = list(steps)
        self.server = HttpServer(self._script)
        self.rounds: list[Json] = []
        self._listener: asyncio.Server | None = None

    async def come(self) -> None:
        self._listener = await asyncio.start_server(self.server.serve, "127.0.0.1", self.server.port)
        self.server.port = self._listener.sockets[0].getsockname()[1]

    async def go(self) -> None:
        assert self._listener is not None
        self._listener.close()
        for got in self.server.got:
            got.drop()
        await asyncio.gather(*self.server.tasks, return_exceptions=True)

    async def _script(self, got: Got) -> None:
        if got.json["method"] == "server/discover":
            return await got.result({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {}})
        self.rounds.append({name: value for name, value in got.json["params"].items() if name != "_meta"})
        step = self.steps.pop(0)
        if step is None:
            return got.drop()
        await got.result(step)


@pytest.mark.rule("R116")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_is_away_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    shop, person = Shop(ASK, DONE), Person()
    await shop.come()

    async def leave(question: Any) -> Json:
        await shop.go()
        return person(question)

    class Pause:
        """The server is back after the first pause."""

        @staticmethod
        async def sleep(seconds: float) -> None:
            await shop.come()

    monkeypatch.setattr(delivery, "anyio", Pause)
    async with Client(HttpTransport(shop.server.url), elicit=leave) as client:
        assert (await client.call_tool("t", {"x": 1})).text == "done"
    await shop.go()
    assert shop.rounds == [BODY, ROUND_2]
    assert person.asked == 1


@pytest.mark.rule("R116")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_goes_while_a_round_runs() -> None:
    shop, person = Shop(ASK, None, DONE), Person()
    await shop.come()
    async with Client(HttpTransport(shop.server.url), elicit=person) as client:
        with pytest.raises(OutcomeUnknown, match="broke") as caught:
            await client.call_tool("t", {"x": 1})
        assert (await client.resume(caught.value.pending)).text == "done"
    await shop.go()
    assert shop.rounds == [BODY, ROUND_2, ROUND_2]
    assert person.asked == 1


async def test_a_session_that_cannot_be_renewed_is_tried_twice_and_said_to_be_gone() -> None:
    """Also where another call has found out that it is gone, so that this one has sent nothing yet."""
    begun: list[int] = []

    class Gone:
        session, needed = 0, True

        async def wait(self) -> None:
            begun.append(self.session)
            raise SessionGone("gone")

        def lose(self, session: int) -> None:
            assert session == self.session

    async def send() -> None:
        raise AssertionError("there is no session to send it in")

    connection: Any = SimpleNamespace(renewal=Gone(), lost=None)
    with pytest.raises(SessionGone), Call("tools/call") as call:
        await delivery.deliver(connection, call, send, may_repeat=False)
    assert begun == [0, 0]
