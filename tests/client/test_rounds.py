"""The loop of a multi round-trip call, against scripted servers and the in-process one."""

import copy
import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from backchannel import Context, Server
from backchannel.client.client import Client
from backchannel.client.reverse import MOST_OPEN
from backchannel.errors import ConnectionLost, LocalProtocolError, RemoteProtocolError, RequestTimeout, TooManyRounds
from backchannel.memory import MemoryTransport
from tests.client import fake_time
from tests.client.scripted import BOTH, LEGACY, MODERN, Json, Script, conversation, form, questions

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def rounds(*results: Json | Callable[[Json], Json]) -> Callable[[Json], Json]:
    """What answers one request after the other; the last one answers the rest."""
    left = list(results)

    def answer(params: Json) -> Json:
        result = left.pop(0) if len(left) > 1 else left[0]
        return result(params) if callable(result) else result

    return answer


def script_of(*results: Json | Callable[[Json], Json], method: str = "tools/call", **options: Any) -> Script:
    return Script(MODERN, {method: rounds(*results)}, **options)


def without_meta(params: Json) -> Json:
    return {name: value for name, value in params.items() if name != "_meta"}


def sent(script: Script, method: str = "tools/call") -> list[Json]:
    return [without_meta(params) for params in script.requests(method)]


# What each round sends.


@pytest.mark.rule("R100", "R101", "R102", "R103")
async def test_the_retry_is_the_request_with_the_answers_and_the_state() -> None:
    state = 'sealed "\\ é \u2028 ' + "x" * 5000
    key = "ключ/~1 .\n"
    script = script_of(questions(state, **{key: (ELICIT, form())}), DONE)
    arguments = {"path": "/a", "deep": [{"b": None}]}
    async with Client(script, elicit=lambda q: {"n": 1}) as client:
        result = await client.call_tool("wipe", arguments, meta={"traceparent": "00-1"})
    assert result.text == "done"
    first, second = sent(script)
    assert first == {"name": "wipe", "arguments": arguments}
    answers = {key: {"action": "accept", "content": {"n": 1}}}
    assert second == {**first, "inputResponses": answers, "requestState": state}
    assert [params["_meta"]["traceparent"] for params in script.requests("tools/call")] == ["00-1"] * 2
    ids = [message["id"] for message in script.sent]
    assert len(set(ids)) == len(ids)


@pytest.mark.rule("R105")
@pytest.mark.case("A02")
async def test_nothing_of_an_earlier_round_stays() -> None:
    script = script_of(questions("s1", a=(ELICIT, form("a"))), questions("s2"), questions(b=(ELICIT, form("b"))), DONE)
    async with Client(script, elicit=lambda q: {"n": 1 if q.message == "a" else 2}) as client:
        await client.call_tool("t")
    base = {"name": "t", "arguments": {}}
    assert sent(script) == [
        base,
        {**base, "inputResponses": {"a": {"action": "accept", "content": {"n": 1}}}, "requestState": "s1"},
        {**base, "requestState": "s2"},
        {**base, "inputResponses": {"b": {"action": "accept", "content": {"n": 2}}}},
    ]


@pytest.mark.rule("R102")
async def test_other_calls_carry_nothing_of_it() -> None:
    """ "They MUST NOT be used for any other request that the client may be sending in parallel"."""
    script = script_of(questions("s", a=(ELICIT, form())), DONE)

    async def elicit(question: Any) -> Any:
        await client.request("prompts/get", {"name": "p"})
        return {"n": 1}

    script.on["prompts/get"] = lambda params: {"resultType": "complete", "messages": []}
    async with Client(script, elicit=elicit) as client:
        await client.call_tool("t")
        await client.request("prompts/get", {"name": "p"})
    assert sent(script, "prompts/get") == [{"name": "p"}] * 2


@pytest.mark.case("A01")
@pytest.mark.parametrize("version", BOTH)
async def test_the_callers_object_is_as_it_was(version: str) -> None:
    server, asked = Server("files"), []

    @server.tool
    async def wipe(ctx: Context, path: str) -> str:
        return "wiped" if await ctx.confirm(f"Wipe {path}?") else "kept"

    def elicit(question: Any) -> Any:
        asked.append(question.message)
        return {"value": True}

    params = {"name": "wipe", "arguments": {"path": "/a"}, "_meta": {"x": {"y": 1}}}
    before = copy.deepcopy(params)
    async with Client(MemoryTransport(server), elicit=elicit, version=version) as client:
        for times in (1, 2):
            result = json.loads(bytes(await client.request("tools/call", params)))
            assert result["content"][0]["text"] == "wiped"
            assert params == before
            assert len(asked) == times


async def test_all_rounds_send_what_the_call_began_with() -> None:
    script = script_of(questions("s", a=(ELICIT, form())), DONE)
    arguments = {"path": "/a", "list": [1]}

    async def elicit(question: Any) -> Any:
        arguments["path"] = "/b"
        arguments["list"].append(2)  # type: ignore[attr-defined]
        return {"n": 1}

    async with Client(script, elicit=elicit) as client:
        await client.call_tool("t", arguments)
    assert [params["arguments"] for params in sent(script)] == [{"path": "/a", "list": [1]}] * 2


@pytest.mark.parametrize("version", BOTH)
async def test_arguments_that_json_cannot_carry(version: str) -> None:
    async with Client(Script(version, {"tools/call": lambda params: DONE}), version=version) as client:
        for bad in (object(), "\ud800", {1: object()}):
            with pytest.raises(LocalProtocolError, match="tools/call cannot be sent as JSON"):
                await client.call_tool("t", {"a": bad})
        assert (await client.call_tool("t")).text == "done"


# Chains.


@pytest.mark.rule("R106")
@pytest.mark.case("A03")
@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("depth", [3, 10, 31])
async def test_a_chain_of_questions_each_of_which_holds_the_last_answer(version: str, depth: int) -> None:
    server, asked = Server("chain"), []

    @server.tool
    async def chain(ctx: Context) -> str:
        answers = [""]
        for number in range(depth):
            answers.append((await ctx.elicit(f"{number}, after {answers[-1]!r}?", str)).unwrap())
        return " ".join(answers[1:])

    def elicit(question: Any) -> Any:
        asked.append(question.message)
        return {"value": f"a{len(asked)}"}

    requests = 0
    transport = MemoryTransport(server)
    at_once = transport.at_once

    def counting(request: Any) -> Any:
        nonlocal requests
        requests += request.method == "tools/call"
        return at_once(request)

    transport.at_once = counting  # type: ignore[method-assign]
    async with Client(transport, elicit=elicit, version=version) as client:
        result = await client.call_tool("chain")
    assert result.text == " ".join(f"a{number + 1}" for number in range(depth))
    before = ["", *(f"a{number}" for number in range(1, depth))]
    assert asked == [f"{number}, after {answer!r}?" for number, answer in enumerate(before)]
    assert requests == (depth + 1 if version == MODERN else 1)


@pytest.mark.rule("R114")
@pytest.mark.parametrize("limit", [1, 5, None])
async def test_a_call_that_never_ends_is_given_up(limit: int | None) -> None:
    asked = 0

    def elicit(question: Any) -> Any:
        nonlocal asked
        asked += 1
        return {"n": 1}

    script = script_of(questions("SECRET-STATE", a=(ELICIT, form())))
    options = {} if limit is None else {"max_rounds": limit}
    async with Client(script, elicit=elicit, **options) as client:
        with pytest.raises(TooManyRounds, match=f"{limit or 32} rounds") as caught:
            await client.call_tool("t")
    assert "SECRET" not in str(caught.value)
    assert len(sent(script)) == (limit or 32)
    assert asked == (limit or 32) - 1, "nobody is asked what is not sent"


async def test_states_without_questions_end_too() -> None:
    script = script_of(questions("s"))
    async with Client(script) as client:
        with pytest.raises(TooManyRounds):
            await client.call_tool("t")


async def test_the_server_is_not_pressed_for_a_round_in_which_nothing_is_asked() -> None:
    """The first retry goes out at once; the others wait, ever longer, up to a limit."""
    times: list[float] = []

    def answer(params: Json) -> Json:
        times.append(anyio.current_time())
        return questions("s", a=(ELICIT, form())) if len(times) == 10 else questions("s") if len(times) < 13 else DONE

    script = Script(MODERN, {"tools/call": answer})
    async with Client(script, elicit=lambda q: {"n": 1}, timeout=1) as client:
        assert (await client.call_tool("t")).text == "done"
    pauses = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    assert pauses == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 0, 0, 0.1])


@pytest.mark.rule("R62")
async def test_a_call_that_is_cancelled_between_such_rounds_is_not_sent_again() -> None:
    script = script_of(questions("s"))
    async with Client(script) as client:
        with anyio.move_on_after(1):
            await client.call_tool("t")
        rounds_sent = len(sent(script))
        await anyio.sleep(100)
    assert len(sent(script)) == rounds_sent


# Results that are none.


@pytest.mark.rule("R100")
@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"resultType": "input_required"}, "neither questions nor state"),
        ({"resultType": "input_required", "inputRequests": None, "requestState": None}, "neither questions nor state"),
        ({"resultType": "telepathy", "content": []}, "unknown type 'telepathy'"),
        ({"resultType": "x" * 10_000}, "unknown type"),
        ({"resultType": 5}, "malformed"),
        ({"resultType": "input_required", "inputRequests": []}, "malformed"),
        ({"resultType": "input_required", "inputRequests": {"a": {"params": {}}}}, "malformed"),
        ({"resultType": "input_required", "requestState": {"a": 1}}, "malformed"),
    ],
)
async def test_a_result_that_makes_no_sense_ends_the_call(result: Json, why: str) -> None:
    script = script_of(result)
    async with Client(script, elicit=lambda q: {"n": 1}) as client:
        with pytest.raises(RemoteProtocolError, match=why) as caught:
            await client.call_tool("t")
        assert len(str(caught.value)) < 300
    assert len(sent(script)) == 1


async def test_a_handler_that_ends_like_one_that_is_cancelled_has_no_answer() -> None:
    async def elicit(question: Any) -> Any:
        if question.message == "bad":
            raise anyio.get_cancelled_exc_class().__new__(anyio.get_cancelled_exc_class())
        return {"n": 1}

    script = script_of(questions("s", a=(ELICIT, form("bad")), b=(ELICIT, form("good"))), DONE)
    async with Client(script, version=MODERN, elicit=elicit) as client:
        with pytest.raises(BaseException) as raised:
            await client.call_tool("t")
        assert isinstance(raised.value, anyio.get_cancelled_exc_class())
    assert len(sent(script)) == 1, "nothing was answered in its name"


async def test_too_many_questions_at_once_are_not_asked() -> None:
    asks = {str(number): ("elicitation/create", form()) for number in range(MOST_OPEN + 1)}
    asked: list[Any] = []
    async with Client(script_of(questions("s", **asks)), version=MODERN, elicit=asked.append) as client:
        with pytest.raises(RemoteProtocolError, match="asks 1001 questions at once"):
            await client.call_tool("t")
    assert asked == []


async def test_a_result_that_is_no_object() -> None:
    for version in BOTH:
        script = Script(version, {"tools/call": lambda params: [1]})  # type: ignore[arg-type,return-value]
        async with Client(script, version=version) as client:
            with pytest.raises(RemoteProtocolError, match="malformed"):
                await client.call_tool("t")


@pytest.mark.rule("R100")
async def test_a_result_without_a_type_is_complete() -> None:
    script = script_of({"content": [{"type": "text", "text": "old"}], "requestState": "x"})
    async with Client(script) as client:
        assert (await client.call_tool("t")).text == "old"
    assert len(sent(script)) == 1


async def test_on_legacy_no_result_asks() -> None:
    odd = {"resultType": "input_required", "requestState": "x", "content": [{"type": "text", "text": "odd"}]}
    script = Script(LEGACY, {"tools/call": lambda params: odd})
    async with Client(script, version=LEGACY) as client:
        assert (await client.call_tool("t")).text == "odd"
    assert len(sent(script)) == 1


# Answering.


@pytest.mark.rule("R117")
async def test_all_questions_of_a_round_are_asked_at_once_and_in_order() -> None:
    keys = [f"k{number}" for number in (3, 1, 4, 1.5, 9, 2)]
    begun: list[str] = []
    everybody = anyio.Event()

    async def elicit(question: Any) -> Any:
        begun.append(question.message)
        if len(begun) == len(keys):
            everybody.set()
        await everybody.wait()
        return {"n": len(question.message)}

    for _ in range(5):
        script = script_of(questions("s", **{key: (ELICIT, form(key)) for key in keys}), DONE)
        async with Client(script, elicit=elicit) as client:
            with anyio.fail_after(5):
                await client.call_tool("t")
        assert begun == keys
        assert list(sent(script)[1]["inputResponses"]) == keys
        begun.clear()
        everybody = anyio.Event()


@pytest.mark.rule("R117")
@pytest.mark.case("B10")
@pytest.mark.parametrize("limit", [None, 1, 3])
async def test_as_many_at_once_as_the_limit(limit: int | None) -> None:
    keys = [f"k{number}" for number in range(20)]
    begun: list[str] = []
    running = peak = 0

    async def sample(question: Any) -> str:
        nonlocal running, peak
        begun.append(question.messages[0].content.text)
        running += 1
        peak = max(peak, running)
        await anyio.wait_all_tasks_blocked()
        running -= 1
        return "x"

    script = script_of(questions(**{key: (SAMPLE, conversation(key)) for key in keys}), DONE)
    options = {} if limit is None else {"max_parallel": limit}
    async with Client(script, sample=sample, **options) as client:
        await client.call_tool("t")
    assert begun == keys
    assert peak == (limit or 8)


@pytest.mark.rule("R29", "R31", "R37")
async def test_input_requests_and_reverse_calls_pass_the_same_dispatcher() -> None:
    seen: dict[str, list[str]] = {}
    for version in BOTH:
        script = Script(version)

        async def middleware(asked: Any, call_next: Any, version: str = version) -> Any:
            seen.setdefault(version, []).append(f"{asked.method} {type(asked.params).__name__}")
            return await call_next(asked)

        client = Client(script, elicit=lambda q: {"n": 1}, sample=lambda q: "hi", roots=[], version=version)
        assert client.answer_middleware(middleware) is middleware
        asks = {"a": (ELICIT, form()), "b": (SAMPLE, conversation()), "c": (ROOTS, {})}
        async with client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "t")
            forward = await script.next("tools/call")
            if version == MODERN:
                script.result(forward, questions("s", **asks))
                retry = await script.next("tools/call")
                script.result(retry, DONE)
                answers = retry["params"]["inputResponses"]
            else:
                for key, (method, params) in asks.items():
                    script.ask(key, method, params)
                answers = {(answer := await script.next_answer())["id"]: answer["result"] for _ in asks}
                script.result(forward, DONE)
        seen[version].append(json.dumps(answers, sort_keys=True))
    assert sorted(seen[MODERN]) == sorted(seen[LEGACY])


@pytest.mark.rule("R36", "R118")
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("acme/ask", {}, -32601),
        ("tools/call", {"name": "x"}, -32601),
        (SAMPLE, conversation(), -32601),
        (ELICIT, {"message": 5}, -32602),
        (ELICIT, {"mode": "url", "message": "x", "url": "https://a.test"}, -32602),
    ],
)
async def test_what_cannot_be_answered_ends_the_call_before_anybody_is_asked(
    method: str, params: Json, code: int
) -> None:
    asked = 0

    def elicit(question: Any) -> Any:
        nonlocal asked
        asked += 1
        return {"n": 1}

    script = script_of(questions("s", a=(ELICIT, form()), b=(method, params), c=(ELICIT, form())), DONE)
    async with Client(script, elicit=elicit, max_parallel=1) as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.call_tool("t")
        assert caught.value.code == code
        assert (len(sent(script)), asked) == (1, 0)
        script.on["tools/call"] = rounds(questions(a=(ELICIT, form())), DONE)
        assert (await client.call_tool("t")).text == "done", "the client is still usable"


@pytest.mark.rule("R118")
async def test_a_handler_for_a_method_of_an_extension() -> None:
    script = script_of(questions("s", a=("acme/ask", {"x": 1}), b=(ELICIT, form())), DONE)
    client = Client(script, elicit=lambda q: {"n": 1})

    @client.method("acme/ask")
    async def answer(params: Json) -> Json:
        return {"got": params}

    async with client:
        assert (await client.call_tool("t")).text == "done"
    assert sent(script)[1]["inputResponses"]["a"] == {"got": {"x": 1}}


class MineError(Exception):
    pass


@pytest.mark.rule("R115", "P15")
@pytest.mark.case("G03")
@pytest.mark.parametrize("others", [0, 3])
async def test_what_a_handler_raises_reaches_the_caller_as_it_is(others: int) -> None:
    closed: list[str] = []

    async def elicit(question: Any) -> Any:
        if question.message == "bad":
            await anyio.wait_all_tasks_blocked()
            raise MineError("no display")
        try:
            await anyio.sleep_forever()
        finally:
            closed.append(question.message)

    asks = {f"k{number}": (ELICIT, form(f"q{number}")) for number in range(others)}
    script = script_of(questions("s", **asks, bad=(ELICIT, form("bad"))), DONE)
    async with Client(script, elicit=elicit) as client:
        with pytest.raises(MineError, match="no display"):
            await client.call_tool("t")
        assert sorted(closed) == [f"q{number}" for number in range(others)]
        assert len(sent(script)) == 1


@pytest.mark.rule("R115")
@pytest.mark.parametrize("others", [0, 1])
async def test_so_does_what_is_no_exception(others: int) -> None:
    class StopError(BaseException):
        pass

    def elicit(question: Any) -> Any:
        raise StopError

    asks = {f"k{number}": (ELICIT, form()) for number in range(others + 1)}
    async with Client(script_of(questions("s", **asks), DONE), elicit=elicit) as client:
        with pytest.raises(StopError):
            await client.call_tool("t")


@pytest.mark.rule("R39")
async def test_an_answer_that_breaks_the_schema_is_not_sent() -> None:
    script = script_of(questions("s", a=(ELICIT, form())), DONE)
    async with Client(script, elicit=lambda q: {"n": "three"}) as client:
        with pytest.raises(LocalProtocolError, match="n: expected integer") as caught:
            await client.call_tool("t")
        assert caught.value.code == -32602
    assert len(sent(script)) == 1


async def test_the_caller_is_nested_in_a_handler_only_while_it_runs() -> None:
    nested: list[bool] = []

    def elicit(question: Any) -> Any:
        nested.append(client.answers.nested)
        return {"n": 1}

    client = Client(script_of(questions("s", a=(ELICIT, form())), DONE), elicit=elicit)
    async with client:
        await client.call_tool("t")
        nested.append(client.answers.nested)
    assert nested == [True, False]


# Cancellation and time.


@pytest.mark.rule("R62")
@pytest.mark.case("B16")
@pytest.mark.parametrize("count", [1, 2])
async def test_a_cancelled_call_closes_its_questions_and_sends_no_retry(count: int) -> None:
    shown: list[str] = []
    closed: list[str] = []

    async def elicit(question: Any) -> Any:
        shown.append(question.message)
        try:
            await anyio.sleep_forever()
        finally:
            closed.append(question.message)

    asks = {f"k{number}": (ELICIT, form(f"q{number}")) for number in range(count)}
    script = script_of(questions("s", **asks), DONE)
    async with Client(script, elicit=elicit, max_parallel=2) as client:
        for again in (1, 2):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "t")
                await anyio.wait_all_tasks_blocked()
                assert len(shown) == again * count, "a second call's questions are shown at once"
                group.cancel_scope.cancel()
            assert sorted(closed) == sorted(shown)
            script.on["tools/call"] = rounds(questions("s", **asks), DONE)
        assert client.answers.turns._free == 2
        assert len(sent(script)) == 2
        assert script.requests("notifications/cancelled") == []


@pytest.mark.rule("R62")
@pytest.mark.parametrize("request_streams", [False, True])
async def test_cancelling_a_later_round_cancels_the_request_in_flight(request_streams: bool) -> None:
    script = Script(MODERN, request_streams=request_streams)
    async with Client(script, elicit=lambda q: {"n": 1}) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "t")
        first = await script.next("tools/call")
        script.result(first, questions("s", a=(ELICIT, form())))
        second = await script.next("tools/call")
        assert second["id"] != first["id"]
        group.cancel_scope.cancel()
    cancelled = [params["requestId"] for params in script.requests("notifications/cancelled")]
    assert cancelled == ([] if request_streams else [second["id"]])


@pytest.mark.case("B14")
async def test_the_idle_clock_stands_still_while_a_person_is_asked() -> None:
    async def person(question: Any) -> Any:
        await anyio.sleep(5)
        return {"n": 1}

    async def serve(work_after: float) -> None:
        await anyio.sleep(0.3)
        script.result(await script.next("tools/call"), questions("s", a=(ELICIT, form())))
        request = await script.next("tools/call")
        await anyio.sleep(work_after)
        script.result(request, DONE)

    for work_after, total, expected in ((0.3, None, None), (0.9, None, None), (1.2, None, "idle"), (0.3, 4, "total")):
        script, clock = Script(MODERN), None
        async with Client(script, elicit=person, timeout=1, total_timeout=total) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(serve, work_after)
                try:
                    assert (await client.call_tool("t")).text == "done"
                except RequestTimeout as error:
                    clock = error.clock
                group.cancel_scope.cancel()
        assert clock == expected


@pytest.mark.case("B14")
async def test_each_round_starts_the_idle_clock_again() -> None:
    async def serve() -> None:
        for _ in range(5):
            request = await script.next("tools/call")
            await anyio.sleep(0.9)
            script.result(request, questions("s"))
        script.result(await script.next("tools/call"), DONE)

    script = Script(MODERN)
    async with Client(script, timeout=1) as client, anyio.create_task_group() as group:
        group.start_soon(serve)
        assert (await client.call_tool("t")).text == "done"


@pytest.mark.case("B14")
async def test_the_total_clock_closes_the_question() -> None:
    closed = False

    async def person(question: Any) -> Any:
        nonlocal closed
        try:
            await anyio.sleep_forever()
        finally:
            closed = True

    script = script_of(questions("s", a=(ELICIT, form())), DONE)
    async with Client(script, elicit=person) as client:
        with pytest.raises(RequestTimeout, match="total limit of 4 s"):
            await client.call_tool("t", total_timeout=4)
        assert closed
        assert len(sent(script)) == 1


@pytest.mark.case("C06")
@pytest.mark.parametrize("how", ["lost", "closed"])
async def test_the_end_of_the_connection_closes_the_question(how: str) -> None:
    closed = False

    async def person(question: Any) -> Any:
        nonlocal closed
        try:
            await anyio.sleep_forever()
        finally:
            closed = True

    script = script_of(questions("s", a=(ELICIT, form())), DONE)
    async with Client(script, elicit=person) as client, anyio.create_task_group() as group:

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="the server died" if how == "lost" else "was closed"):
                await client.call_tool("t")

        group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        if how == "lost":
            script.lose(ConnectionLost("the server died"))
        else:
            await client.close()
    assert closed
    assert len(sent(script)) == 1


@pytest.mark.rule("R140")
async def test_progress_of_every_round_is_given_in_order() -> None:
    script, seen = Script(MODERN), []
    async with Client(script, elicit=lambda q: {"n": 1}) as client, anyio.create_task_group() as group:

        async def progressed(progress: Any) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(progress.progress)

        group.start_soon(lambda: client.call_tool("t", progress=progressed))
        tokens = []
        for number, result in enumerate((questions("s", a=(ELICIT, form())), questions("t"), DONE)):
            request = await script.next("tools/call")
            tokens.append(request["params"]["_meta"]["progressToken"])
            for half in (0, 0.5):
                params = {"progressToken": tokens[-1], "progress": number + half}
                script.give({"method": "notifications/progress", "params": params})
            script.result(request, result)
    assert seen == [0, 0.5, 1, 1.5, 2, 2.5]
    assert len(set(tokens)) == 3


@pytest.mark.rule("R140")
async def test_progress_does_not_go_back_when_a_round_begins_at_the_beginning() -> None:
    script, seen = Script(MODERN), []
    async with Client(script, elicit=lambda q: {"n": 1}) as client, anyio.create_task_group() as group:
        group.start_soon(lambda: client.call_tool("t", progress=lambda p: seen.append(p.progress)))
        for values, result in (([1, 50], questions("s", a=(ELICIT, form()))), ([1, 50, 51, 100], DONE)):
            request = await script.next("tools/call")
            token = request["params"]["_meta"]["progressToken"]
            for value in values:
                script.give({"method": "notifications/progress", "params": {"progressToken": token, "progress": value}})
            script.result(request, result)
    assert seen == [1, 50, 51, 100]
