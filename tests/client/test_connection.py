"""One connection, against a scripted other end: correlation, reverse calls, cancellation, loss, time limits."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from backchannel.client.answers import Answers
from backchannel.client.connection import Connection
from backchannel.client.reverse import MOST_OPEN, MOST_REPLIES
from backchannel.errors import ConnectionLost, LocalProtocolError, ProtocolError, RemoteProtocolError, RequestTimeout
from backchannel.protocol.jsonrpc import Message, Request
from backchannel.protocol.types.base import Implementation
from backchannel.protocol.types.requests import ProgressParams
from backchannel.protocol.types.sampling import CreateMessageResult
from backchannel.protocol.versions import Version
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, Script, conversation, form

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
CANCELLED = "notifications/cancelled"


def connection_to(script: Script, version: str | None = LEGACY, strict: bool = False, **handlers: Any) -> Connection:
    connection = Connection(script, Answers(**handlers), Implementation("tests", "1"), strict=strict)
    if version is not None:
        connection.use(Version(version))
    return connection


@asynccontextmanager
async def connected(script: Script, version: str | None = LEGACY, **options: Any) -> AsyncIterator[Connection]:
    connection = connection_to(script, version, **options)
    await connection.open()
    try:
        yield connection
    finally:
        await connection.close()


async def request(
    connection: Connection,
    method: str = "tools/call",
    params: Json | None = None,
    idle: float | None = None,
    total: float | None = None,
    **options: Any,
) -> Any:
    with connection.call(method, idle, total) as call:
        return json.loads(bytes(await connection.request(method, params or {}, call, **options)))


class Outcomes:
    """What calls that run at the same time come to: a result, or the exception."""

    def __init__(self) -> None:
        self.of: dict[Any, Any] = {}

    async def run(self, key: Any, function: Callable[..., Any], *args: Any) -> None:
        try:
            self.of[key] = await function(*args)
        except Exception as error:
            self.of[key] = error


class Person:
    """Answers each question when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed: list[str] = []
        self._answers: dict[str, tuple[anyio.Event, list[Any]]] = {}

    async def elicit(self, question: Any) -> Any:
        self.asked.append(question.message)
        event, answer = self._answers.setdefault(question.message, (anyio.Event(), []))
        try:
            await event.wait()
        except anyio.get_cancelled_exc_class():
            self.closed.append(question.message)
            raise
        return answer[0]

    def answer(self, message: str, value: Any) -> None:
        event, answer = self._answers.setdefault(message, (anyio.Event(), []))
        answer.append(value)
        event.set()


# Correlation.


@pytest.mark.rule("R5", "R6", "R9", "R12")
@pytest.mark.parametrize("version", BOTH)
async def test_a_thousand_calls_are_answered_in_any_order(version: str) -> None:
    script, outcomes = Script(), Outcomes()
    async with connected(script, version) as connection, anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(outcomes.run, number, request, connection, "tools/call", {"n": number})
        await anyio.wait_all_tasks_blocked()
        ids = [message["id"] for message in script.sent]
        assert len(set(ids)) == 1000
        for message in reversed(script.sent):
            script.result(message, n=message["params"]["n"])
    assert outcomes.of == {number: {"n": number} for number in range(1000)}
    assert connection._peer.pending == 0 and not connection._calls


@pytest.mark.rule("R4")
async def test_a_reply_that_comes_before_send_returns_is_not_lost() -> None:
    async with connected(Script(on={"tools/call": lambda params: {"instant": True}})) as connection:
        assert await request(connection) == {"instant": True}


@pytest.mark.rule("R7", "R8", "R58")
async def test_late_repeated_and_unknown_responses_are_dropped() -> None:
    script, outcomes = Script(), Outcomes()
    async with connected(script) as connection, anyio.create_task_group() as group:
        for stray in (7, "1", "x", -1, 0):
            script.give({"id": stray, "result": {}})
        script.give({"error": {"code": -32700, "message": "what?"}})
        group.start_soon(outcomes.run, "a", request, connection)
        sent = await script.next()
        script.give({"id": "1", "result": {"wrong": True}})
        script.result(sent, right=True)
        script.result(sent, right=False)
        script.give({"id": sent["id"], "error": {"code": 1, "message": "late"}})
    assert outcomes.of == {"a": {"right": True}}


@pytest.mark.rule("R170")
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"},}',
        b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"y"}}',
        b'{"jsonrpc":"2.0","id":1,"error":null}',
        b'{"id":1,"result":{}}',
    ],
)
async def test_a_malformed_response_fails_the_call_it_names(body: bytes) -> None:
    script, outcomes = Script(), Outcomes()
    async with connected(script) as connection, anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "a", request, connection)
        await script.next()
        script.give(body)
    assert isinstance(outcomes.of["a"], RemoteProtocolError)


@pytest.mark.rule("R22")
async def test_an_error_has_code_message_and_data() -> None:
    async with connected(Script()) as connection:
        outcomes = Outcomes()
        async with anyio.create_task_group() as group:
            group.start_soon(outcomes.run, "a", request, connection)
            sent = await connection.transport.next()  # type: ignore[attr-defined]
            error = {"code": -32002, "message": "no", "data": {"uri": "x"}}
            connection.transport.give({"id": sent["id"], "error": error})  # type: ignore[attr-defined]
        failed = outcomes.of["a"]
        assert (failed.code, failed.message, failed.data) == (-32002, "no", {"uri": "x"})


# What is sent.


@pytest.mark.rule("R19", "R35")
async def test_every_modern_request_carries_the_envelope_and_a_legacy_one_does_not() -> None:
    on: Any = {"tools/call": lambda params: {}}
    modern, legacy = Script(on=on), Script(on=on)
    async with connected(modern, MODERN, sample=lambda question: "x", roots=[]) as connection:
        await request(connection, params={"name": "t", "_meta": {"traceparent": "00-1", "progressToken": "theirs"}})
        connection.answers.sample = None
        await request(connection, params={"name": "t"})
    async with connected(legacy, LEGACY) as connection:
        await request(connection, params={"name": "t", "_meta": {"traceparent": "00-1"}})
        await request(connection, params={})
    first, second = modern.requests("tools/call")
    assert first == {
        "name": "t",
        "_meta": {
            "traceparent": "00-1",
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"sampling": {}, "roots": {}},
        },
    }
    assert second["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}
    assert [message.get("params") for message in legacy.sent] == [{"name": "t", "_meta": {"traceparent": "00-1"}}, None]


@pytest.mark.case("A01")
async def test_the_callers_params_are_not_changed() -> None:
    params = {"name": "t", "_meta": {"progressToken": 5, "x": 1}}
    async with connected(Script(on={"tools/call": lambda params: {}}), MODERN) as connection:
        await request(connection, params=params, progress=lambda progress: None)
    assert params == {"name": "t", "_meta": {"progressToken": 5, "x": 1}}


async def test_what_json_cannot_carry_is_a_local_error_and_leaves_nothing_behind() -> None:
    script = Script()
    async with connected(script) as connection:
        for bad in (object(), "\ud800"):
            with pytest.raises(LocalProtocolError):
                await request(connection, params={"a": bad})
        assert connection._peer.pending == 0
    assert script.sent == []


# Progress.


@pytest.mark.rule("R140", "R141")
@pytest.mark.parametrize("version", BOTH)
async def test_progress_goes_to_the_call_with_its_token(version: str) -> None:
    script, seen = Script(), []

    def callback(name: str) -> Callable[[ProgressParams], None]:
        return lambda progress: seen.append((name, progress.progress, progress.total, progress.message))

    def progress(token: Any, value: float, **more: Any) -> None:
        params = {"progressToken": token, "progress": value, **more}
        script.give({"method": "notifications/progress", "params": params})

    async with connected(script, version) as connection, anyio.create_task_group() as group:
        sent = {}
        for name in ("a", "b"):
            run = lambda name=name: request(connection, progress=callback(name))  # noqa: E731, B023
            group.start_soon(run)
            sent[name] = await script.next()
        group.start_soon(request, connection)
        quiet = await script.next()
        assert "progressToken" not in quiet.get("params", {}).get("_meta", {})
        tokens = {name: message["params"]["_meta"]["progressToken"] for name, message in sent.items()}
        progress(tokens["b"], 1)
        progress(tokens["a"], 0.5, total=2, message="half")
        progress(tokens["b"], 2)
        progress(str(tokens["a"]), 9)
        progress(77, 9)
        script.give({"method": "notifications/progress", "params": {"progress": 1}})
        for message in (*sent.values(), quiet):
            script.result(message)
        progress(tokens["a"], 3)
    assert seen == [("b", 1, None, None), ("a", 0.5, 2, "half"), ("b", 2, None, None)]


async def test_a_coroutine_as_callback_has_had_all_progress_when_the_call_returns() -> None:
    script, seen = Script(), []

    async def callback(progress: ProgressParams) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(progress.progress)

    async with connected(script) as connection:
        async with anyio.create_task_group() as group:

            async def call() -> None:
                await request(connection, progress=callback)
                seen.append("returned")

            group.start_soon(call)
            sent = await script.next()
            token = sent["params"]["_meta"]["progressToken"]
            for number in range(5):
                params = {"progressToken": token, "progress": number}
                script.give({"method": "notifications/progress", "params": params})
            script.result(sent)
    assert seen == [0, 1, 2, 3, 4, "returned"]


async def test_a_call_that_is_given_up_gives_no_more_progress() -> None:
    script, seen, go = Script(), [], anyio.Event()

    async def callback(progress: ProgressParams) -> None:
        seen.append(progress.progress)
        await go.wait()

    async with connected(script) as connection:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: request(connection, progress=callback))
            token = (await script.next())["params"]["_meta"]["progressToken"]
            for number in range(3):
                params = {"progressToken": token, "progress": number}
                script.give({"method": "notifications/progress", "params": params})
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        go.set()
        await anyio.wait_all_tasks_blocked()
    assert seen == [0]


async def test_a_failing_callback_does_not_harm_the_call(caplog: pytest.LogCaptureFixture) -> None:
    script = Script()

    def callback(progress: ProgressParams) -> None:
        raise ValueError("broken")

    outcomes = Outcomes()
    async with connected(script) as connection, anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "a", lambda: request(connection, progress=callback))
        sent = await script.next()
        params = {"progressToken": sent["params"]["_meta"]["progressToken"], "progress": 1}
        script.give({"method": "notifications/progress", "params": params})
        script.result(sent, fine=True)
    assert outcomes.of["a"] == {"fine": True}
    assert "a callback failed" in caplog.text


# Reverse calls.


@pytest.mark.rule("R1", "R31", "R34")
async def test_reverse_calls_are_answered_by_the_one_dispatcher() -> None:
    script = Script()
    handlers = {"elicit": lambda q: {"n": 3}, "sample": lambda q: "hi", "roots": ["file:///a"]}
    async with connected(script, **handlers) as connection, anyio.create_task_group() as group:
        group.start_soon(request, connection)
        forward = await script.next()
        script.ask(forward["id"], ELICIT, form())
        script.ask("s", SAMPLE, conversation())
        script.ask(-5, ROOTS)
        answers = {(answer := await script.next_answer())["id"]: answer["result"] for _ in range(3)}
        assert answers[forward["id"]] == {"action": "accept", "content": {"n": 3}}
        assert answers["s"]["content"]["text"] == "hi"
        assert answers[-5] == {"roots": [{"uri": "file:///a"}]}
        script.result(forward)
    assert connection._peer.serving == 0


@pytest.mark.rule("R32", "R33", "R36")
async def test_what_cannot_be_answered_is_answered_with_an_error() -> None:
    script = Script()
    async with connected(script, elicit=lambda q: {"n": 1}) as connection:
        for method, params, code in (
            (SAMPLE, conversation(), -32601),
            ("acme/ask", {}, -32601),
            ("tools/call", {"name": "x"}, -32601),
            (ELICIT, {}, -32602),
        ):
            script.ask(method, method, params)
            answer = await script.next_answer()
            assert (answer["id"], answer["error"]["code"]) == (method, code)
        assert connection._peer.serving == 0


@pytest.mark.rule("R32")
@pytest.mark.case("B05")
async def test_a_handler_removed_at_run_time_is_not_found() -> None:
    script = Script()
    async with connected(script, elicit=lambda q: {"n": 1}) as connection:
        connection.answers.declare(Version.V2025_11_25)
        script.ask(1, ELICIT, form())
        assert (await script.next_answer())["result"]["action"] == "accept"
        connection.answers.elicit = None
        script.ask(2, ELICIT, form())
        assert (await script.next_answer())["error"]["code"] == -32601


async def test_what_a_version_does_not_have_is_not_found() -> None:
    script = Script()
    async with connected(script, "2025-03-26", elicit=lambda q: {"n": 1}, roots=[]):
        script.ask(1, ELICIT, form())
        assert (await script.next_answer())["error"]["code"] == -32601
        script.ask(2, ROOTS)
        assert (await script.next_answer())["result"] == {"roots": []}


@pytest.mark.rule("R39")
async def test_an_answer_that_breaks_the_schema_is_an_invalid_param() -> None:
    script = Script()
    async with connected(script, elicit=lambda q: {"n": "three"}):
        script.ask(1, ELICIT, form())
        error = (await script.next_answer())["error"]
        assert error["code"] == -32602
        assert "n: expected integer" in error["message"]


async def test_a_failing_handler_is_an_internal_error_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    class StopError(BaseException):
        pass

    errors = {"go": ValueError("secret"), "stop": StopError("secret"), "generator": GeneratorExit("secret")}

    def fail(question: Any) -> Any:
        raise errors[question.message]

    script = Script()
    async with connected(script, elicit=fail, roots=[]):
        for number, message in enumerate(errors):
            script.ask(number, ELICIT, form(message))
            error = (await script.next_answer())["error"]
            assert error == {"code": -32603, "message": "the client's handler failed"}
        script.ask(9, ROOTS)
        assert "result" in await script.next_answer(), "the connection is still usable"
    assert caplog.text.count("secret") >= 3


async def test_open_questions_and_waiting_replies_are_bounded() -> None:
    script, person = Script(), Person()
    async with connected(script, elicit=person.elicit, roots=[], max_parallel=1) as connection:
        for number in range(3 * MOST_OPEN):
            script.ask(number, ELICIT, form("first"))
        for _ in range(2 * MOST_OPEN):
            error = (await script.next_answer())["error"]
            assert error == {"code": -32603, "message": "too many questions are open"}
        await anyio.wait_all_tasks_blocked()
        assert connection.nursery.running == MOST_OPEN
        for number in range(MOST_OPEN):
            script.give({"method": CANCELLED, "params": {"requestId": number}})
        await anyio.wait_all_tasks_blocked()
        script.ask("next", ROOTS)
        assert "result" in await script.next_answer()
        for number in range(MOST_REPLIES + 5):
            script.ask(f"p{number}", "ping")
        assert connection.dropped == 5
        for number in range(MOST_REPLIES):
            assert (await script.next_answer())["id"] == f"p{number}"


async def test_a_handler_refuses_with_an_error_of_its_choice() -> None:
    def refuse(question: Any) -> Any:
        raise ProtocolError(-1, "User rejected sampling request", {"why": "cost"})

    script = Script()
    async with connected(script, sample=refuse):
        script.ask(1, SAMPLE, conversation())
        expected = {"code": -1, "message": "User rejected sampling request", "data": {"why": "cost"}}
        assert (await script.next_answer())["error"] == expected


async def test_an_answer_without_a_json_form_is_answered_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    def model(question: Any) -> Any:
        return CreateMessageResult("assistant", question.messages[0].content, "m", meta={"bad": object()})

    script = Script()
    async with connected(script, sample=model):
        script.ask(1, SAMPLE, conversation())
        assert (await script.next_answer())["error"]["code"] == -32603
    assert "could not be sent" in caplog.text


@pytest.mark.rule("R166")
async def test_ping_is_answered_at_once_always() -> None:
    script, person = Script(), Person()
    async with connected(script, version=None, elicit=person.elicit, max_parallel=1, strict=True) as connection:
        script.ask("early", "ping")
        assert await script.next_answer() == {"jsonrpc": "2.0", "id": "early", "result": {}}
        connection.use(Version(LEGACY))
        async with anyio.create_task_group() as group:
            group.start_soon(request, connection)
            forward = await script.next("tools/call")
            script.ask(1, ELICIT, form())
            script.ask(2, "ping")
            assert (await script.next_answer())["id"] == 2
            script.result(forward)
        script.ask(3, "ping")
        assert (await script.next_answer())["id"] == 3


@pytest.mark.rule("R11")
async def test_a_reverse_id_in_use_is_refused_and_the_first_is_answered() -> None:
    script, person = Script(), Person()
    async with connected(script, elicit=person.elicit):
        script.ask(1, ELICIT, form("first"))
        script.ask(1, ELICIT, form("second"))
        assert (await script.next_answer())["error"]["code"] == -32600
        person.answer("first", {"n": 1})
        assert (await script.next_answer())["result"]["content"] == {"n": 1}
    assert person.asked == ["first"]


async def test_garbage_is_not_answered_without_an_id_to_answer_to() -> None:
    script = Script()
    async with connected(script, roots=[]):
        for garbage in (b"{", b'{"jsonrpc":"2.0","method":"x","params":[]}', b"[]", b'{"jsonrpc":"2.0"}'):
            script.give(garbage)
        script.give(b'{"jsonrpc":"2.0","id":4,"method":"roots/list","params":[]}')
        answer = await script.next()
        assert (answer["id"], answer["error"]["code"]) == (4, -32602)
        await anyio.wait_all_tasks_blocked()
    assert len(script.sent) == 1


@pytest.mark.parametrize("method", [ELICIT, "ping", "acme/ask"])
async def test_on_modern_nobody_is_asked_and_nothing_is_sent_back(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """basic/transports/stdio, Sending Messages: "The client MUST NOT write JSON-RPC responses"."""
    script, person = Script(), Person()
    async with connected(script, MODERN, elicit=person.elicit) as connection:
        script.ask(1, method, form())
        script.give(b'{"jsonrpc":"2.0","id":2,"method":5}')
        await anyio.wait_all_tasks_blocked()
        assert connection._peer.serving == 0
    assert script.sent == [] and person.asked == []
    assert "does not have" in caplog.text


# On HTTP, where each request has a stream.


class Streams(Script):
    """As on HTTP: `send` of a request gives what is on its stream, up to the response, from the sender's task."""

    def __init__(self, version: str = LEGACY) -> None:
        super().__init__(version, request_streams=True)
        self._streams: dict[Any, Any] = {}

    async def send(self, message: Message) -> None:
        if not isinstance(message, Request):
            return await super().send(message)
        to_stream, stream = anyio.create_memory_object_stream[Json](100)
        self._streams[message.id] = to_stream
        with to_stream, stream:
            await super().send(message)
            async for event in stream:
                if event.get("break"):
                    raise ConnectionLost("the stream ended before the response")
                self.give(event)
                if event.get("id") == message.id and "method" not in event:
                    return

    def on_stream(self, request: Json, **message: Any) -> None:
        self._streams[request["id"]].send_nowait(message)


@pytest.mark.rule("R42")
@pytest.mark.case("B16")
@pytest.mark.parametrize("how", ["cancel", "idle", "total", "break"])
async def test_a_call_that_is_given_up_takes_its_questions_with_it(how: str) -> None:
    """The stream on which the server would withdraw them is closed."""
    script, person, outcomes = Streams(), Person(), Outcomes()
    async with connected(script, elicit=person.elicit, roots=[]) as connection:
        async with anyio.create_task_group() as group:
            group.start_soon(outcomes.run, "other", request, connection)
            other = await script.next("tools/call")
            script.on_stream(other, id="other", method=ELICIT, params=form("other"))
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    total = 5 if how == "total" else None
                    inner.start_soon(outcomes.run, "a", request, connection, "tools/call", None, 5, total)
                    sent = await script.next("tools/call")
                    for name in ("x", "y"):
                        script.on_stream(sent, id=name, method=ELICIT, params=form(name))
                    await anyio.wait_all_tasks_blocked()
                    assert person.asked == ["other", "x", "y"]
                    if how == "cancel":
                        scope.cancel()
                    elif how == "break":
                        script.on_stream(sent, **{"break": True})
                    elif how == "idle":
                        script.give({"method": CANCELLED, "params": {"requestId": "x"}})
                        script.give({"method": CANCELLED, "params": {"requestId": "y"}})
            await anyio.wait_all_tasks_blocked()
            assert sorted(person.closed) == ["x", "y"]
            assert getattr(outcomes.of.get("a"), "clock", how) == how
            assert connection._peer.serving == 1
            person.answer("other", {"n": 1})
            assert (await script.next_answer())["id"] == "other", "nothing is sent for the others"
            script.on_stream(other, id=other["id"], result={"fine": True})
        assert outcomes.of["other"] == {"fine": True}
        assert connection._peer.serving == connection._peer.pending == 0


@pytest.mark.case("B14")
async def test_a_question_holds_the_clock_of_the_call_whose_stream_it_came_on() -> None:
    script, person, outcomes = Streams(), Person(), Outcomes()
    async with connected(script, elicit=person.elicit) as connection, anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "dead", request, connection, "tools/call", None, 5)
        await script.next("tools/call")
        group.start_soon(outcomes.run, "asks", request, connection, "tools/call", None, 5)
        asks = await script.next("tools/call")
        script.on_stream(asks, id=1, method=ELICIT, params=form("a"))
        await anyio.sleep(50)
        assert outcomes.of["dead"].clock == "idle"
        person.answer("a", {"n": 1})
        await script.next_answer()
        script.on_stream(asks, id=asks["id"], result={"fine": True})
    assert outcomes.of["asks"] == {"fine": True}


async def test_a_question_on_no_call_s_stream_holds_all_clocks_and_is_not_withdrawn() -> None:
    script, person, outcomes = Streams(), Person(), Outcomes()
    async with connected(script, elicit=person.elicit) as connection, anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "a", request, connection, "tools/call", None, 5)
        sent = await script.next("tools/call")
        script.ask(1, ELICIT, form("a"))
        await anyio.sleep(50)
        script.on_stream(sent, id=sent["id"], result={"fine": True})
        await anyio.wait_all_tasks_blocked()
        assert outcomes.of["a"] == {"fine": True}
        assert person.closed == []
        person.answer("a", {"n": 1})
        assert (await script.next_answer())["result"]["content"] == {"n": 1}


async def test_a_call_that_ends_by_itself_leaves_its_questions_open() -> None:
    """What the server began beside it may still wait for the answer, which is a POST of its own."""
    script, person = Streams(), Person()
    async with connected(script, elicit=person.elicit) as connection, anyio.create_task_group() as group:
        group.start_soon(request, connection)
        sent = await script.next("tools/call")
        script.on_stream(sent, id=1, method=ELICIT, params=form("a"))
        script.on_stream(sent, id=sent["id"], result={})
        await anyio.wait_all_tasks_blocked()
        person.answer("a", {"n": 1})
        assert (await script.next_answer())["result"]["content"] == {"n": 1}


# Strict.


@pytest.mark.rule("R38")
async def test_on_http_a_strict_client_answers_only_on_the_stream_of_a_call() -> None:
    script = Streams()
    async with connected(script, strict=True, elicit=lambda q: {"n": 1}, roots=[]) as connection:
        async with anyio.create_task_group() as group:
            group.start_soon(request, connection)
            sent = await script.next("tools/call")
            script.ask("out", ELICIT, form())
            assert (await script.next_answer())["error"]["code"] == -32600
            script.ask("roots", ROOTS)
            assert "result" in await script.next_answer()
            script.on_stream(sent, id="in", method=ELICIT, params=form())
            assert "result" in await script.next_answer()
            script.on_stream(sent, id=sent["id"], result={})


@pytest.mark.rule("R38")
async def test_what_runs_in_a_call_of_one_connection_is_in_no_call_of_another() -> None:
    """A client that is opened in the handler of another one's has that one's context."""
    other = Script(request_streams=True)

    def ask(params: Json) -> Json:
        other.ask(1, ELICIT, form())
        return {}

    script = Script(on={"tools/call": ask}, request_streams=True)
    async with connected(other, strict=True, elicit=lambda q: {"n": 1}), connected(script) as connection:
        await request(connection)
        assert (await other.next_answer())["error"]["code"] == -32600


@pytest.mark.rule("R38")
async def test_a_strict_client_answers_only_while_a_call_is_in_flight() -> None:
    script = Script()
    handlers = {"elicit": lambda q: {"n": 1}, "sample": lambda q: "hi", "roots": []}
    async with connected(script, strict=True, **handlers) as connection:
        for method, params in ((ELICIT, form()), (SAMPLE, conversation())):
            script.ask(method, method, params)
            assert (await script.next_answer())["error"]["code"] == -32600
        for exempt in (ROOTS, "ping"):
            script.ask(exempt, exempt)
            assert "result" in await script.next_answer()
        async with anyio.create_task_group() as group:
            group.start_soon(request, connection)
            forward = await script.next("tools/call")
            script.ask("in", ELICIT, form())
            assert "result" in await script.next_answer()
            script.result(forward)
        script.ask("after", ELICIT, form())
        assert (await script.next_answer())["error"]["code"] == -32600


@pytest.mark.rule("R38")
async def test_by_default_it_answers_at_any_time() -> None:
    script = Script()
    async with connected(script, elicit=lambda q: {"n": 1}):
        script.ask(1, ELICIT, form())
        assert "result" in await script.next_answer()


# Many questions.


@pytest.mark.case("B10")
@pytest.mark.parametrize("limit", [None, 1, 3])
async def test_as_many_questions_at_once_as_the_limit_and_in_order(limit: int | None) -> None:
    script, person = Script(), Person()
    options = {} if limit is None else {"max_parallel": limit}
    texts = [str(number) for number in range(20)]
    async with connected(script, elicit=person.elicit, **options):
        for text in texts:
            script.ask(text, ELICIT, form(text))
        await anyio.wait_all_tasks_blocked()
        peak = limit or 8
        assert person.asked == texts[:peak]
        for text in texts:
            person.answer(text, {"n": 1})
            await script.next_answer()
        assert person.asked == texts


async def test_roots_do_not_wait_behind_a_person() -> None:
    script, person = Script(), Person()
    async with connected(script, elicit=person.elicit, roots=[], max_parallel=1):
        script.ask(1, ELICIT, form())
        script.ask(2, ROOTS)
        assert (await script.next_answer())["id"] == 2


@pytest.mark.case("B11")
async def test_handlers_that_call_tools_that_ask_do_not_wait_for_themselves() -> None:
    """Each handler holds the only place, and calls a tool that asks."""
    script = Script()
    depth = 0

    async def elicit(question: Any) -> Any:
        nonlocal depth
        depth += 1
        if depth < 5:
            await request(connection, "tools/call", {"name": "deeper"})
        return {"n": depth}

    async with connected(script, elicit=elicit, max_parallel=1) as connection, anyio.create_task_group() as group:
        group.start_soon(request, connection)
        open_calls = [await script.next("tools/call")]
        for number in range(5):
            script.ask(number, ELICIT, form(str(number)))
            if number < 4:
                open_calls.append(await script.next("tools/call"))
        for call in reversed(open_calls):
            script.result(call)
        answered = {(await script.next_answer())["id"] for _ in range(5)}
        assert answered == set(range(5))


# Cancellation by the server.


@pytest.mark.rule("R42", "R53", "R56", "R57")
@pytest.mark.case("B16")
async def test_the_server_withdraws_a_question(caplog: pytest.LogCaptureFixture) -> None:
    script, person = Script(), Person()
    async with connected(script, elicit=person.elicit, max_parallel=1) as connection:
        script.ask("a", ELICIT, form("a"))
        script.ask("b", ELICIT, form("b"))
        await anyio.wait_all_tasks_blocked()
        assert person.asked == ["a"]
        script.give({"method": CANCELLED, "params": {"requestId": "a", "reason": "call cancelled"}})
        await anyio.wait_all_tasks_blocked()
        assert person.closed == ["a"]
        assert person.asked == ["a", "b"], "the next is shown at once"
        script.give({"method": CANCELLED, "params": {"requestId": "b"}})
        await anyio.wait_all_tasks_blocked()
        assert connection._peer.serving == 0 and connection.nursery.running == 0
    assert script.sent == []
    assert caplog.records == []


@pytest.mark.rule("R42")
async def test_a_question_that_waits_for_its_turn_is_withdrawn_and_never_shown() -> None:
    script, person = Script(), Person()
    async with connected(script, elicit=person.elicit, max_parallel=1):
        for name in "abc":
            script.ask(name, ELICIT, form(name))
        script.give({"method": CANCELLED, "params": {"requestId": "b"}})
        person.answer("a", {"n": 1})
        person.answer("c", {"n": 3})
        assert {(await script.next_answer())["id"] for _ in range(2)} == {"a", "c"}
    assert person.asked == ["a", "c"]


@pytest.mark.rule("R42")
async def test_a_question_that_is_withdrawn_in_the_same_breath_is_not_shown() -> None:
    script, person = Script(), Person()
    async with connected(script, elicit=person.elicit):
        script.ask("a", ELICIT, form("a"))
        script.give({"method": CANCELLED, "params": {"requestId": "a"}})
        await anyio.wait_all_tasks_blocked()
    assert person.asked == [] and script.sent == []


@pytest.mark.rule("R55", "R63")
@pytest.mark.parametrize("params", [{"requestId": 99}, {}, {"requestId": None}, {"requestId": 1.5}, None])
async def test_a_cancellation_that_makes_no_sense_is_ignored(params: Any) -> None:
    script, person = Script(), Person()
    async with connected(script, elicit=person.elicit):
        script.ask(1, ELICIT, form("a"))
        script.give({"method": CANCELLED} | ({"params": params} if params is not None else {}))
        person.answer("a", {"n": 1})
        assert (await script.next_answer())["result"]["content"] == {"n": 1}


@pytest.mark.rule("R1", "R61")
async def test_a_cancellation_names_an_id_of_its_sender() -> None:
    script, outcomes = Script(), Outcomes()
    async with connected(script) as connection, anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "a", request, connection)
        sent = await script.next()
        script.give({"method": CANCELLED, "params": {"requestId": sent["id"]}})
        script.result(sent, fine=True)
    assert outcomes.of["a"] == {"fine": True}


# Cancellation by the caller.


async def cancelled_call(script: Script, connection: Connection, **options: Any) -> None:
    """A call that is cancelled once it is under way."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await script.next("tools/call")
                await anyio.wait_all_tasks_blocked()
                scope.cancel()

            group.start_soon(cancel)
            await request(connection, **options)
    assert scope.cancelled_caught


@pytest.mark.rule("R54", "R7")
@pytest.mark.case("C01")
@pytest.mark.parametrize(
    ("version", "request_streams", "told"),
    [(LEGACY, False, True), (LEGACY, True, True), (MODERN, False, True), (MODERN, True, False), (None, False, False)],
)
async def test_a_cancelled_call_tells_the_server_where_it_can(
    version: str | None, request_streams: bool, told: bool
) -> None:
    script = Script(request_streams=request_streams)
    async with connected(script, version) as connection:
        await cancelled_call(script, connection)
        first, *rest = script.sent
        assert [message["method"] for message in rest] == [CANCELLED] * told
        assert not told or rest[0]["params"]["requestId"] == first["id"]
        assert connection._peer.pending == 0 and not connection._calls
        script.result(first, late=True)


class Lasting(Script):
    """As HTTP: a request's `send` lasts as long as its stream, which this closes when it is cancelled."""

    def __init__(self) -> None:
        super().__init__(LEGACY, request_streams=True)
        self.streams: list[int] = []

    async def send(self, message: Message, headers: Any = None) -> None:
        await super().send(message, headers)
        if isinstance(message, Request) and message.method == "tools/call":
            self.streams.append(message.id)  # type: ignore[arg-type]
            try:
                await anyio.sleep_forever()
            finally:
                self.streams.remove(message.id)  # type: ignore[arg-type]


@pytest.mark.case("B16")
async def test_a_cancelled_call_that_asked_nothing_closes_its_stream_at_once() -> None:
    script = Lasting()
    async with connected(script, LEGACY) as connection:
        async with anyio.create_task_group() as group:
            group.start_soon(request, connection)
            await script.next("tools/call")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert script.streams == []
        assert len(script.requests(CANCELLED)) == 1


async def test_a_call_that_is_cancelled_before_it_is_sent_is_not_sent() -> None:
    script = Script(request_streams=True)
    async with connected(script) as connection:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await request(connection)
        assert script.requests("tools/call") == []


@pytest.mark.parametrize("error", [ConnectionLost("the stream broke"), RemoteProtocolError(0, "500"), KeyError("bug")])
async def test_what_sending_raises_is_the_caller_s(error: Exception) -> None:
    for version in BOTH:
        script = Script(on={"tools/call": error}, request_streams=True)
        async with connected(script, version) as connection:
            with pytest.raises(type(error)) as caught:
                await request(connection)
            assert caught.value is error


@pytest.mark.case("C01")
@pytest.mark.parametrize("version", BOTH)
async def test_fifty_cancelled_calls(version: str) -> None:
    script = Script()
    async with connected(script, version) as connection:
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(request, connection)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        ids = [message["id"] for message in script.sent if message["method"] == "tools/call"]
        assert sorted(params["requestId"] for params in script.requests(CANCELLED)) == sorted(ids)
        assert len(ids) == 50 and connection._peer.pending == 0


class Blocked(Script):
    """A transport whose `send` of a request does not return by itself, as on HTTP or in front of a full pipe."""

    async def send(self, message: Message) -> None:
        await super().send(message)
        if hasattr(message, "id"):
            await anyio.sleep_forever()


async def test_a_call_is_cancelled_while_it_is_being_sent() -> None:
    script = Blocked()
    async with connected(script) as connection:
        await cancelled_call(script, connection)
        assert len(script.requests(CANCELLED)) == 1
        assert connection._peer.pending == 0


async def test_nothing_is_cancelled_that_was_answered_or_not_sent() -> None:
    refused = RemoteProtocolError(0, "HTTP 404", status=404)
    script = Script(on={"tools/call": refused, "prompts/get": ConnectionLost("stream"), "resources/read": lambda p: {}})
    async with connected(script) as connection:
        with pytest.raises(RemoteProtocolError, match="HTTP 404"):
            await request(connection, "tools/call")
        with pytest.raises(ConnectionLost, match="stream"):
            await request(connection, "prompts/get")
        await request(connection, "resources/read")
        assert connection._peer.pending == 0
    assert script.requests(CANCELLED) == []


async def test_a_server_that_does_not_read_holds_up_a_cancelled_call_for_a_moment_only() -> None:
    class Stuck(Script):
        async def send(self, message: Message) -> None:
            await super().send(message)
            await anyio.sleep_forever()

    script = Stuck()
    async with connected(script) as connection:
        began = anyio.current_time()
        await cancelled_call(script, connection)
        assert anyio.current_time() - began <= 1
        assert len(script.requests(CANCELLED)) == 1


# Time limits.


@pytest.mark.case("B14", "C01")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("clock", ["idle", "total"])
async def test_a_call_that_runs_out_of_time_says_which_clock_and_tells_the_server(version: str, clock: str) -> None:
    script = Script()
    async with connected(script, version) as connection:
        text = f"no response to tools/call in time \\({clock} limit of 5 s\\)"
        with pytest.raises(RequestTimeout, match=text) as caught:
            await request(connection, **{clock: 5})
        assert caught.value.clock == clock
        assert script.requests(CANCELLED)[0]["requestId"] == script.sent[0]["id"]
        script.result(script.sent[0])
        assert connection._peer.pending == 0


@pytest.mark.case("B14")
async def test_the_idle_clock_starts_again_on_progress() -> None:
    script, outcomes = Script(), Outcomes()
    async with connected(script) as connection, anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "a", lambda: request(connection, idle=1, progress=lambda progress: None))
        sent = await script.next()
        params = {"progressToken": sent["params"]["_meta"]["progressToken"]}
        for number in range(10):
            await anyio.sleep(0.9)
            script.give({"method": "notifications/progress", "params": {**params, "progress": number}})
        await anyio.sleep(0.9)
        script.result(sent, fine=True)
    assert outcomes.of["a"] == {"fine": True}


@pytest.mark.case("B14")
async def test_the_idle_clock_stands_still_while_a_reverse_call_is_answered() -> None:
    async def person(question: Any) -> Any:
        await anyio.sleep(5)
        return {"n": 1}

    async def serve(work_after: float) -> None:
        forward = await script.next("tools/call")
        await anyio.sleep(0.3)
        script.ask(forward["id"], ELICIT, form())
        await script.next_answer()
        await anyio.sleep(work_after)
        script.result(forward)

    for work_after, total, expected in ((0.3, None, None), (1.2, None, "idle"), (0.3, 4, "total")):
        script, outcomes = Script(), Outcomes()
        async with connected(script, elicit=person) as connection, anyio.create_task_group() as group:
            group.start_soon(serve, work_after)
            await outcomes.run("a", request, connection, "tools/call", None, 1, total)
            group.cancel_scope.cancel()
        assert getattr(outcomes.of["a"], "clock", None) == expected


async def test_a_question_that_waits_for_its_turn_holds_the_clock_too() -> None:
    async def person(question: Any) -> Any:
        await anyio.sleep(5)
        return {"n": 1}

    script, outcomes = Script(), Outcomes()
    async with connected(script, elicit=person, max_parallel=1) as connection, anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "a", request, connection, "tools/call", None, 1)
        forward = await script.next("tools/call")
        for number in range(3):
            script.ask(number, ELICIT, form(str(number)))
        for _ in range(3):
            await script.next_answer()
        script.result(forward, fine=True)
    assert outcomes.of["a"] == {"fine": True}


# The end of the connection.


@pytest.mark.case("C06")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("kind", [Script, Blocked])
async def test_the_loss_of_the_connection_fails_every_call_at_once(version: str, kind: type[Script]) -> None:
    script, outcomes, person = kind(), Outcomes(), Person()
    why = ConnectionLost("the server exited with code 3; the end of its stderr: boom")
    async with connected(script, version, elicit=person.elicit) as connection:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(outcomes.run, number, request, connection)
            await anyio.wait_all_tasks_blocked()
            if version == LEGACY:
                script.ask(1, ELICIT, form("open"))
                await anyio.wait_all_tasks_blocked()
            script.lose(why)
            script.lose(ConnectionLost("again"))
        assert person.closed == person.asked
        failures = list(outcomes.of.values())
        assert [type(error) for error in failures] == [ConnectionLost] * 10
        assert len({id(error) for error in failures}) == 10
        assert {str(error) for error in failures} == {str(why)}
        assert all(error.__cause__ is why for error in failures)
        with pytest.raises(ConnectionLost, match="code 3"):
            await request(connection)
        with pytest.raises(ConnectionLost, match="code 3"):
            await connection.notify("notifications/roots/list_changed")
        script.give({"id": 5, "method": ELICIT, "params": form("late")})
        await anyio.wait_all_tasks_blocked()
        assert connection._peer.pending == connection._peer.serving == connection.nursery.running == 0
    assert script.requests(CANCELLED) == []


@pytest.mark.case("G01")
@pytest.mark.parametrize("version", BOTH)
async def test_closing_fails_the_calls_in_flight_and_closes_what_is_open(version: str) -> None:
    script, outcomes, person = Script(), Outcomes(), Person()
    connection = connection_to(script, version, elicit=person.elicit)
    await connection.open()
    async with anyio.create_task_group() as group:
        group.start_soon(outcomes.run, "a", request, connection)
        await anyio.wait_all_tasks_blocked()
        if version == LEGACY:
            script.ask(1, ELICIT, form("open"))
            await anyio.wait_all_tasks_blocked()
        await connection.close()
    assert isinstance(outcomes.of["a"], ConnectionLost)
    assert str(outcomes.of["a"]) == "the connection was closed"
    assert person.closed == person.asked
    assert script.closed == 1
    assert connection.nursery.closed and connection.nursery.running == 0
    await connection.close()
    assert [message["method"] for message in script.sent] == ["tools/call"]


async def test_a_handler_may_close_the_connection() -> None:
    script, closed = Script(), anyio.Event()

    async def elicit(question: Any) -> Any:
        await connection.close()
        closed.set()

    connection = connection_to(script, elicit=elicit)
    await connection.open()
    script.ask(1, ELICIT, form())
    with anyio.fail_after(10):
        await closed.wait()
    assert script.closed == 1
    await connection.close()


async def test_closing_does_not_wait_for_a_handler_that_does_not_end() -> None:
    script, go = Script(), anyio.Event()

    async def stubborn(question: Any) -> Any:
        with anyio.CancelScope(shield=True):
            await go.wait()

    connection = connection_to(script, elicit=stubborn)
    await connection.open()
    script.ask(1, ELICIT, form())
    await anyio.wait_all_tasks_blocked()
    with anyio.fail_after(10):
        await connection.close()
    assert script.closed == 1
    go.set()
    await connection.nursery.close()


async def test_closing_goes_on_where_it_is_cancelled() -> None:
    script = Script()
    connection = connection_to(script)
    await connection.open()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await connection.close()
    assert script.closed == 1


# Notifications.


async def test_other_notifications_are_heard() -> None:
    script, heard = Script(), []
    async with connected(script) as connection:
        connection.heard.append(lambda notification: heard.append(notification.method))
        script.give({"method": "notifications/tools/list_changed"})
        script.give({"method": "acme/other", "params": {"a": 1}})
    assert heard == ["notifications/tools/list_changed", "acme/other"]


@pytest.mark.rule("R10")
async def test_a_notification_waits_for_nothing_but_its_way_out() -> None:
    class Stuck(Script):
        async def send(self, message: Message) -> None:
            await anyio.sleep_forever()

    async with connected(Script()) as connection:
        await connection.notify("notifications/initialized")
        assert connection._peer.pending == 0
    async with connected(Stuck()) as connection:
        with pytest.raises(RequestTimeout):
            await connection.notify("notifications/initialized", timeout=3)


async def test_an_answer_that_cannot_be_delivered_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Deaf(Script):
        async def send(self, message: Message) -> None:
            raise ConnectionLost("the POST broke")

    script = Deaf()
    caplog.set_level(logging.DEBUG)
    async with connected(script, roots=[]) as connection:
        script.ask(1, ROOTS)
        await anyio.wait_all_tasks_blocked()
        assert connection._peer.serving == 0
    assert "was not delivered: the POST broke" in caplog.text
