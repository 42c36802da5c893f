"""The stdio driver on the wire: real child processes that are driven by raw bytes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.raw_child import (
    INITIALIZED,
    META_CAPABILITIES,
    META_VERSION,
    RUN,
    Child,
    call,
    initialize,
    line,
    text,
)
from tests.server.raw_child import write_server as write

FORM = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"value": True}}
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
RUNNERS = {"asyncio": RUN, "trio": "\nanyio.run(serve_stdio, server, backend='trio')\n"}


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    return lambda body="", **options: write(tmp_path, body, **options)


def code(response: dict[str, Any]) -> Any:
    return response["error"]["code"]


# Framing and bad input


@pytest.mark.case("J05")
@ERAS
def test_bad_input_gets_its_code_and_the_connection_lives(script: Callable[..., Path], modern: bool) -> None:
    meta = {"_meta": {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}} if modern else {}
    rows: list[tuple[str, int | None, Any]] = [
        ("{", -32700, None),
        ("[]", -32600, None),
        ('{"jsonrpc":"2.0"}', -32600, None),
        (json.dumps(line(11, "no/such", meta)), -32601, 11),
        (json.dumps(line(None, "no/such/notification", meta)), None, None),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        ('{"jsonrpc":"2.0","id":"twelve","method":"tools/call","params":[1]}', -32602, "twelve"),
        (json.dumps(line(13, "tools/call", meta)), -32602, 13),
        (json.dumps(call(14, "nobody", modern=modern)), -32602, 14),
        ('{"jsonrpc":"2.0","id":15,"method":"tools/call","params":' + "[" * 100_000, -32700, 15),
        ('{"jsonrpc":"1.0","id":16,"method":"ping"}', -32600, 16),
        ('{"jsonrpc":"2.0","id":17,"method":"ping",}', -32700, 17),
        ("garbage", -32700, None),
    ]
    with Child(script()) as child:
        if not modern:
            child.ready()
        for bad, expected, id in rows:
            child.write(bad.encode() + b"\n")
            if expected is not None:
                answer = child.receive()
                assert answer is not None and (answer.get("id"), code(answer)) == (id, expected), bad
            child.send(call("good", "echo", modern=modern, text="still here"))
            answer = child.receive()
            assert answer is not None and answer.get("id") == "good" and text(answer) == "still here", bad
        assert child.end() == ""


@pytest.mark.rule("R75")
@pytest.mark.case("H03")
def test_text_is_utf8_whatever_the_locale(script: Callable[..., Path]) -> None:
    environment = {"PYTHONIOENCODING": "cp1252", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    body = """
    @server.tool
    async def half() -> str:
        return "\\ud83d"

    @server.tool
    async def shout(text: str) -> str:
        print(text)
        return "said"
    """
    said = "naïve 日本 😀 \u2028 \n\r\n \x85 end"
    with Child(script(body), env=environment) as child:
        child.ready()
        child.send(call(1, "echo", text=said))
        assert text(child.response(1)) == said
        child.send(call(2, "half"))
        assert child.response(2)["result"]["isError"] is True
        child.write(b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":"\x97"}}\n')
        assert code(child.response(3)) == -32700
        child.write(b"\x97\n")
        bad = child.receive()
        assert bad is not None and code(bad) == -32700
        child.send(call(4, "shout", text="日本"))
        assert text(child.response(4)) == "said"
        assert child.end().count("\\u65e5\\u672c\n") == 1


@pytest.mark.rule("R75")
def test_lines_however_they_are_cut_and_ended(script: Callable[..., Path]) -> None:
    with Child(script()) as child:
        for byte in json.dumps(line(1, "ping")).encode() + b"\r\n":
            child.write(bytes([byte]))
        assert child.response(1)["result"] == {}
        child.write(
            b"\n \t\r\n" + json.dumps(line(2, "ping")).encode() + b"\n\n" + json.dumps(line(3, "ping")).encode()
        )
        child.response(2)
        child.end()  # the last line has no end
        assert [message["id"] for message in child.heard] == [1, 2, 3]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_json_cannot_carry_fails_alone(script: Callable[..., Path], backend: str) -> None:
    """A response becomes an error for its id, a question fails in its handler, a notification is dropped."""
    body = """
    @server.middleware
    async def spoil(ctx, call_next):
        result = await call_next(ctx)
        return {"tools": [], "bad": object()} if ctx.method == "tools/list" else result

    @server.tool
    async def log(ctx: Context) -> str:
        await ctx.log("error", object())
        return "logged"

    @server.tool
    async def ask_badly(ctx: Context) -> str:
        return str(await ctx.elicit("\\ud83d", bool))
    """
    with Child(script(body, run=RUNNERS[backend])) as child:
        child.ready(**FORM)
        child.send(line(1, "logging/setLevel", {"level": "debug"}))
        child.response(1)
        child.send(line(2, "tools/list"), call(3, "log"), call(4, "ask_badly"), call(5, "echo", text="still here"))
        answers = {message["id"]: message for message in (child.receive() for _ in range(4)) if message}
        assert code(answers[2]) == -32603
        assert "cannot be written" in json.dumps(answers[4])
        assert (text(answers[3]), text(answers[5])) == ("logged", "still here")
        errors = child.end()
    assert "notifications/message cannot be written" in errors and "elicitation/create cannot be written" in errors


# Bring-up, ping, correlation


@pytest.mark.case("F09")
def test_what_is_pipelined_behind_initialize_is_served(script: Callable[..., Path]) -> None:
    with Child(script()) as child:
        child.send(initialize(1), line(2, "tools/list"), INITIALIZED)
        assert "serverInfo" in child.response(1)["result"]
        assert child.response(2)["result"]["tools"]


@pytest.mark.case("F09")
def test_a_request_before_initialize_is_refused_once(script: Callable[..., Path]) -> None:
    with Child(script()) as child:
        child.send(line(1, "tools/list"))
        assert code(child.response(1)) == -32600
        child.send(line(2, "tools/list"), initialize(3), line(4, "tools/list"), INITIALIZED, line(5, "tools/list"))
        assert code(child.response(2)) == -32600
        assert "result" in child.response(3)
        assert "result" in child.response(4)
        assert "result" in child.response(5)


@pytest.mark.rule("R166")
@pytest.mark.case("G05")
def test_ping_is_answered_before_initialize_and_while_handlers_run(script: Callable[..., Path]) -> None:
    with Child(script()) as child:
        child.send(line(1, "ping"))
        assert child.response(1)["result"] == {}
        child.send(initialize(2), line(3, "ping"))
        child.response(3)
        child.send(INITIALIZED, *(call(10 + n, "sleep_in_thread", token=n) for n in range(5)))
        child.send(call(20, "sleep", token=20))
        for _ in range(6):
            child.until("notifications/progress")
        child.send(line(4, "ping"), call(5, "echo", text="a"), call(6, "echo", modern=True, text="b"))
        child.response(4)
        assert (text(child.response(5)), text(child.response(6))) == ("a", "b")


@pytest.mark.rule("R12", "R9")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@ERAS
def test_ids_come_back_as_they_were(script: Callable[..., Path], modern: bool, backend: str) -> None:
    ids = [0, 1, -1, 2**53, "1", "", "a b", "日本", '"\\']
    with Child(script(run=RUNNERS[backend])) as child:
        child.send(initialize(), INITIALIZED)
        child.response("init")
        child.send(*(call(id, "echo", modern=modern, text=repr(id)) for id in ids))
        answers = [child.receive() or {} for _ in ids]
    assert sorted((repr(answer["id"]), text(answer)) for answer in answers) == sorted(
        (repr(id), repr(id)) for id in ids
    )


@pytest.mark.rule("R1", "R2", "R23", "R28", "R76")
@pytest.mark.parametrize("tool", ["ask", "ask_in_thread"])
def test_a_question_is_answered_while_the_call_runs(script: Callable[..., Path], tool: str) -> None:
    with Child(script()) as child:
        child.ready(**FORM)
        child.send(call(1, tool))
        question = child.until("elicitation/create")
        assert question["id"] == 1  # the first of the server's own, as the call is of the client's
        assert question.keys() == {"jsonrpc", "id", "method", "params"}
        assert "_meta" not in question["params"]
        child.send(call(2, "echo", text="meanwhile"), line(3, "ping"))
        child.response(2)
        child.send({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        assert text(child.response(1)) == "Accepted"
        child.end()
        assert len(child.heard) == 5


@pytest.mark.rule("R100")
def test_on_the_stateless_protocol_a_question_is_a_result(script: Callable[..., Path]) -> None:
    with Child(script()) as child:
        child.send(call(1, "ask", modern=True))
        first = child.response(1)["result"]
        assert first["resultType"] == "input_required"
        [key] = first["inputRequests"]
        more = {"inputResponses": {key: YES}, "requestState": first["requestState"]}
        child.send(call("two", "ask", modern=True, more=more))
        assert text(child.response("two")) == "Accepted"
        child.end()
        assert not any("method" in message for message in child.heard)


# Order and cancellation


@pytest.mark.case("D02")
@ERAS
def test_the_response_is_the_last_message_of_a_call(script: Callable[..., Path], modern: bool) -> None:
    body = """
    @server.tool
    async def count(ctx: Context, awaited: bool) -> str:
        for n in range(100):
            question = ctx.progress(n)
            if awaited:
                await question
        return "counted"
    """
    with Child(script(body)) as child:
        child.ready()
        child.send(call(1, "count", modern=modern, token="a", awaited=True))
        child.response(1)
        child.send(call(2, "count", modern=modern, token="b", awaited=False))
        child.response(2)
        child.end()
    tokens = [message.get("params", {}).get("progressToken", message.get("id")) for message in child.heard[1:]]
    assert tokens == ["a"] * 100 + [1] + ["b"] * 100 + [2]


@pytest.mark.rule("R42", "R57")
@pytest.mark.parametrize("tool", ["ask", "ask_in_thread"])
def test_cancelling_a_call_withdraws_its_question(script: Callable[..., Path], tool: str) -> None:
    with Child(script()) as child:
        child.ready(**FORM)
        child.send(call(5, tool))
        question = child.until("elicitation/create")
        child.send(line(None, "notifications/cancelled", {"requestId": 5, "reason": "enough"}))
        assert child.until("notifications/cancelled")["params"]["requestId"] == question["id"]
        child.send({"jsonrpc": "2.0", "id": question["id"], "result": YES}, line(6, "ping"))
        child.response(6)
        assert child.end() == ""
        assert not any(message.get("id") == 5 for message in child.heard)


@pytest.mark.rule("R57")
@ERAS
def test_a_cancelled_call_is_not_answered(script: Callable[..., Path], modern: bool) -> None:
    with Child(script()) as child:
        child.ready()
        child.send(
            call(5, "sleep", modern=modern, token=1), call(6, "sleep_in_thread", modern=modern, token=2, seconds=1)
        )
        child.until("notifications/progress")
        child.until("notifications/progress")
        child.send(line(None, "notifications/cancelled", {"requestId": 5}), call(5, "echo", modern=modern, text="new"))
        child.send(line(None, "notifications/cancelled", {"requestId": 6}))
        assert text(child.response(5)) == "new"  # the id is free again at once
        assert "a finally block ran" in child.end()
        assert [message["id"] for message in child.heard if "method" not in message] == ["init", 5]
