"""The one dispatcher for what a server asks: gates, the handlers' answers, middleware."""

import dataclasses
import datetime
import enum
import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from backchannel.client.answers import Answers
from backchannel.client.asked import _yes, as_roots
from backchannel.errors import ConfigurationError, LocalProtocolError, ProtocolError, RemoteProtocolError
from backchannel.protocol.types.content import TextContent
from backchannel.protocol.types.elicitation import ElicitParams, ElicitResult
from backchannel.protocol.types.roots import Root
from backchannel.protocol.types.sampling import CreateMessageParams, CreateMessageResult
from backchannel.protocol.versions import LEGACY, SUPPORTED, Version
from tests.client import fake_time
from tests.client.scripted import Json, conversation, form

pytestmark = pytest.mark.anyio
anyio_backend = fake_time.anyio_backend
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
AGE = {"age": {"type": "integer", "minimum": 0, "maximum": 150}}


async def ask(answers: Answers, method: str, params: Any = None) -> Any:
    """The answer as it goes on the wire."""
    question = answers.read(method, json.dumps(params).encode() if params is not None else None)
    question.queue(nested=False)
    return json.loads(msgspec.json.encode(await question.answer()))


def nothing(*_: Any) -> None:
    return None


# What is declared.


@pytest.mark.rule("R35")
@pytest.mark.case("B05")
@pytest.mark.parametrize("version", SUPPORTED)
async def test_capabilities_are_the_handlers_that_were_given(version: Version) -> None:
    assert Answers().declare(version) == {}
    listed: dict[str, Any] = {"listChanged": True} if version in LEGACY else {}
    assert Answers(roots=[]).declare(version) == {"roots": listed}
    assert Answers(sample=nothing).declare(version) == {"sampling": {}}
    everything = Answers(elicit=nothing, elicit_url=nothing, sample=nothing, roots=[]).declare(version)
    modes = {
        Version.V2024_11_05: None,
        Version.V2025_03_26: None,
        Version.V2025_06_18: {},  # the modes came with 2025-11-25
    }.get(version, {"form": {}, "url": {}})
    elicitation = {} if modes is None else {"elicitation": modes}
    assert everything == {**elicitation, "sampling": {}, "roots": listed}


@pytest.mark.rule("R35")
async def test_url_mode_alone_is_not_declared_where_it_would_be_taken_for_forms() -> None:
    assert Answers(elicit_url=nothing).declare(Version.V2025_06_18) == {}
    assert Answers(elicit_url=nothing).declare(Version.V2025_11_25) == {"elicitation": {"url": {}}}


@pytest.mark.rule("R35")
async def test_what_sampling_can_do() -> None:
    able = Answers(sample=nothing, sample_tools=True, sample_context=True)
    assert able.declare(Version.V2026_07_28) == {"sampling": {"tools": {}, "context": {}}}
    assert able.declare(Version.V2025_06_18) == {"sampling": {}}
    assert Answers(sample_tools=True).declare(Version.V2026_07_28) == {}


@pytest.mark.rule("R35")
@pytest.mark.parametrize("version", SUPPORTED)
async def test_a_request_whose_caller_answers_can_be_asked_any_elicitation(version: Version) -> None:
    modes = {Version.V2024_11_05: None, Version.V2025_03_26: None, Version.V2025_06_18: {}}
    able = modes.get(version, {"form": {}, "url": {}})
    answers = Answers()
    assert answers.declare(version, by_hand=True) == ({} if able is None else {"elicitation": able})
    assert answers.declared == {}, "it is of this request alone"


# What is refused before anybody is asked.


@pytest.mark.rule("R32", "R36")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        (ELICIT, form()),
        (ELICIT, {"mode": "url", "message": "Open", "url": "https://a.test"}),
        (SAMPLE, conversation()),
        (ROOTS, None),
        ("acme/ask", {}),
        ("tools/call", {"name": "x"}),
        ("x" * 5000, {}),
    ],
)
async def test_what_has_no_handler_is_not_found(method: str, params: Any) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        await ask(Answers(), method, params)
    assert caught.value.code == -32601
    assert len(caught.value.message) < 300


@pytest.mark.rule("R33")
@pytest.mark.parametrize(
    ("method", "raw"),
    [
        (ELICIT, b"{}"),
        (ELICIT, b"null"),
        (ELICIT, b'{"message": 5}'),
        (ELICIT, b'{"message": "x", "mode": "telepathy"}'),
        (ELICIT, b'{"message": "x", "requestedSchema": []}'),
        (ELICIT, b'{"message": "x", "mode": "url"}'),
        (ELICIT, b'{"message": "\xff"}'),
        (ELICIT, b'{"message": "x", "requestedSchema": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"),
        (SAMPLE, b'{"messages": []}'),
        (SAMPLE, b'{"messages": [{"role": "user", "content": {"type": "hologram"}}], "maxTokens": 1}'),
        (ROOTS, b"[]"),
        ("acme/ask", b"[]"),
    ],
)
async def test_params_that_cannot_be_read(method: str, raw: bytes) -> None:
    answers = Answers(elicit=nothing, elicit_url=nothing, sample=nothing, roots=[])
    answers.methods["acme/ask"] = lambda params: {}
    with pytest.raises(RemoteProtocolError) as caught:
        answers.read(method, raw)
    assert caught.value.code == -32602


@pytest.mark.rule("R32")
async def test_a_mode_that_was_not_declared_is_an_invalid_param() -> None:
    """2025-11-25 client/elicitation, Error Handling."""
    url = {"mode": "url", "message": "Open", "url": "https://a.test"}
    answers = Answers(elicit=nothing)
    answers.declare(Version.V2025_11_25)
    with pytest.raises(RemoteProtocolError, match="no elicitation in url mode") as caught:
        await ask(answers, ELICIT, url)
    assert caught.value.code == -32602
    answers = Answers(elicit_url=nothing)
    answers.declare(Version.V2025_11_25)
    with pytest.raises(RemoteProtocolError, match="no elicitation in form mode") as caught:
        await ask(answers, ELICIT, form())
    assert caught.value.code == -32602


@pytest.mark.rule("R32")
@pytest.mark.case("B05")
@pytest.mark.parametrize("others", [{}, {"elicit_url": nothing, "sample": nothing}])
async def test_a_handler_that_is_removed_is_not_found(others: dict[str, Any]) -> None:
    answers = Answers(elicit=lambda question: {"n": 1}, **others)
    answers.declare(Version.V2025_11_25)
    assert await ask(answers, ELICIT, form()) == {"action": "accept", "content": {"n": 1}}
    answers.elicit = None
    with pytest.raises(RemoteProtocolError) as caught:
        await ask(answers, ELICIT, form())
    assert caught.value.code == -32601


@pytest.mark.case("A14")
@pytest.mark.parametrize("extra", [{"tools": []}, {"toolChoice": {"mode": "auto"}}])
async def test_tools_in_sampling_are_refused_unless_declared(extra: dict[str, Any]) -> None:
    """schema, CreateMessageRequestParams: "The client MUST return an error"."""
    with pytest.raises(RemoteProtocolError) as caught:
        await ask(Answers(sample=lambda question: "hi"), SAMPLE, {**conversation(), **extra})
    assert caught.value.code == -32602
    able = Answers(sample=lambda question: "hi", sample_tools=True)
    assert (await ask(able, SAMPLE, {**conversation(), **extra}))["content"] == {"type": "text", "text": "hi"}


async def test_refusing_takes_no_turn() -> None:
    answers = Answers(sample=lambda question: "hi", max_parallel=1)
    for _ in range(3):
        with pytest.raises(RemoteProtocolError):
            answers.read(SAMPLE, b"{}")
    assert (await ask(answers, SAMPLE, conversation()))["role"] == "assistant"


# What the handlers give.


@pytest.mark.rule("R34")
@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"n": 1}, {"action": "accept", "content": {"n": 1}}),
        (True, {"action": "accept", "content": {}}),
        ("accept", {"action": "accept", "content": {}}),
        (False, {"action": "decline"}),
        ("decline", {"action": "decline"}),
        (None, {"action": "cancel"}),
        ("cancel", {"action": "cancel"}),
        (ElicitResult("accept", {"n": 1}, {"a": 1}), {"action": "accept", "content": {"n": 1}, "_meta": {"a": 1}}),
        (ElicitResult("accept"), {"action": "accept", "content": {}}),
        (ElicitResult("decline", {"x": 1}), {"action": "decline", "content": {"x": 1}}),
    ],
)
async def test_an_elicit_handler_may_give(given: Any, result: Any) -> None:
    async def later(question: ElicitParams) -> Any:
        await anyio.lowlevel.checkpoint()
        return given

    assert await ask(Answers(elicit=lambda question: given), ELICIT, form()) == result
    assert await ask(Answers(elicit=later), ELICIT, form()) == result


@pytest.mark.parametrize("given", [1, 0, "yes", [1], [], object(), {"n": object()}, {1: object()}])
async def test_an_answer_of_no_use_is_a_local_error(given: Any) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        await ask(Answers(elicit=lambda question: given), ELICIT, form())
    assert caught.value.code == -32603


class Colour(enum.Enum):
    RED = "red"


async def test_values_of_python_become_those_of_json() -> None:
    day = {"day": {"type": "string", "format": "date"}, "colours": {"type": "array"}}
    given = {"day": datetime.date(2026, 12, 24), "colours": (Colour.RED,)}
    result = await ask(Answers(elicit=lambda question: given), ELICIT, form(**day))
    assert result["content"] == {"day": "2026-12-24", "colours": ["red"]}


@pytest.mark.rule("R39")
async def test_defaults_are_merged_and_then_the_answer_is_checked() -> None:
    fields = {**AGE, "name": {"type": "string", "default": "Ada"}, "size": {"type": "integer", "default": 3}}
    params = form(**fields)
    params["requestedSchema"]["required"] = ["age", "name"]
    answers = Answers(elicit=lambda question: {"age": 30, "size": 4})
    assert (await ask(answers, ELICIT, params))["content"] == {"age": 30, "size": 4, "name": "Ada"}
    for bad in ({"age": "old"}, {"age": 200}, {}, {"age": 30, "name": 5}, {"age": None}):
        answers = Answers(elicit=lambda question, bad=bad: bad)  # type: ignore[misc]
        with pytest.raises(LocalProtocolError, match="breaks the schema") as caught:
            await ask(answers, ELICIT, params)
        assert caught.value.code == -32602


@pytest.mark.rule("R39")
@pytest.mark.parametrize("given", [False, None])
async def test_refusing_is_not_checked(given: Any) -> None:
    params = form(**AGE)
    params["requestedSchema"]["required"] = ["age"]
    result = await ask(Answers(elicit=lambda question: given), ELICIT, params)
    assert result == {"action": "decline" if given is False else "cancel"}


async def test_a_form_without_a_schema_is_a_plain_consent() -> None:
    result = await ask(Answers(elicit=lambda question: True), ELICIT, {"message": "Go on?"})
    assert result == {"action": "accept", "content": {}}


@pytest.mark.parametrize("given", [True, {"ignored": 1}, ElicitResult("accept", {"ignored": 1})])
async def test_url_mode_sends_no_content(given: Any) -> None:
    seen: list[ElicitParams] = []

    def open_page(question: ElicitParams) -> Any:
        seen.append(question)
        return given

    answers = Answers(elicit=nothing, elicit_url=open_page)
    params = {"mode": "url", "message": "Sign in", "url": "https://a.test/x", "elicitationId": "7"}
    assert await ask(answers, ELICIT, params) == {"action": "accept"}
    assert (seen[0].url, seen[0].elicitation_id) == ("https://a.test/x", "7")


async def test_a_sample_handler_gives_a_text_or_a_message() -> None:
    seen: list[CreateMessageParams] = []

    async def model(question: CreateMessageParams) -> Any:
        seen.append(question)
        return CreateMessageResult("assistant", TextContent("Hi"), "m1", "endTurn")

    result = await ask(Answers(sample=model), SAMPLE, conversation("Hello"))
    assert result == {
        "role": "assistant",
        "content": {"type": "text", "text": "Hi"},
        "model": "m1",
        "stopReason": "endTurn",
    }
    assert seen[0].messages[0].content.text == "Hello"  # type: ignore[union-attr]
    assert (await ask(Answers(sample=lambda question: "Yo"), SAMPLE, conversation()))["content"]["text"] == "Yo"
    for bad in (True, 5, {"role": "assistant"}):
        with pytest.raises(LocalProtocolError, match="answer to sampling"):
            await ask(Answers(sample=lambda question, bad=bad: bad), SAMPLE, conversation())  # type: ignore[misc]


@pytest.mark.parametrize("refusal", [None, False])
async def test_a_sample_handler_may_refuse(refusal: Any) -> None:
    """The only form that a refusal has (2025-11-25 client/sampling, Error Handling)."""
    with pytest.raises(LocalProtocolError, match="^User rejected sampling request$") as caught:
        await ask(Answers(sample=lambda question: refusal), SAMPLE, conversation())
    assert caught.value.code == -1


YES: Json = {"type": "boolean", "default": False}
COLOUR: Json = {"type": "string", "default": "red"}


@pytest.mark.parametrize(
    ("properties", "required", "content"),
    [
        ({"ok": YES}, ["ok"], {"ok": True}),
        ({"ok": YES, "colour": COLOUR}, ["ok"], {"ok": True, "colour": "red"}),
        ({"ok": YES}, [], {"ok": False}),
        ({"ok": YES, "too": YES}, ["ok", "too"], {"ok": False, "too": False}),
        ({"colour": COLOUR}, ["colour"], {"colour": "red"}),
        ({}, None, {}),
    ],
)
async def test_true_answers_a_form_that_asks_for_yes_with_yes(properties: Json, required: Any, content: Json) -> None:
    schema = {"type": "object", "properties": properties} | ({"required": required} if required is not None else {})
    result = await ask(Answers(elicit=lambda question: True), ELICIT, {"message": "?", "requestedSchema": schema})
    assert result == {"action": "accept", "content": content}


async def test_true_is_no_answer_to_a_form_that_asks_for_more() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    with pytest.raises(LocalProtocolError, match="breaks the schema"):
        await ask(Answers(elicit=lambda question: True), ELICIT, {"message": "?", "requestedSchema": schema})


@pytest.mark.parametrize(("properties", "required"), [({}, ["x"]), ({"x": 5}, ["x"]), ({"x": YES}, [5]), (5, 5)])
async def test_true_and_a_form_that_makes_no_sense(properties: Any, required: Any) -> None:
    assert _yes({"properties": properties, "required": required}) == {}


@pytest.mark.rule("R115")
async def test_what_a_handler_raises_is_not_hidden() -> None:
    class MineError(Exception):
        pass

    def fail(question: Any) -> Any:
        raise MineError("no display")

    with pytest.raises(MineError, match="no display"):
        await ask(Answers(elicit=fail), ELICIT, form())


async def test_a_handler_may_refuse_with_an_error_of_its_own() -> None:
    def refuse(question: Any) -> Any:
        raise ProtocolError(-1, "User rejected sampling request")

    with pytest.raises(ProtocolError) as caught:
        await ask(Answers(sample=refuse), SAMPLE, conversation())
    assert (caught.value.code, caught.value.message) == (-1, "User rejected sampling request")


# Roots.


async def test_roots_are_paths_uris_or_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = [tmp_path, "work", str(tmp_path / "a" / ".." / "b"), "file:///srv/x", Root("file:///srv/y", "Y")]
    result = await ask(Answers(roots=given), ROOTS)
    base = tmp_path.as_uri()
    assert result["roots"] == [
        {"uri": base},
        {"uri": f"{base}/work"},
        {"uri": f"{base}/b"},
        {"uri": "file:///srv/x"},
        {"uri": "file:///srv/y", "name": "Y"},
    ]
    assert await ask(Answers(roots=[]), ROOTS, {}) == {"roots": []}


async def test_roots_may_come_from_a_function() -> None:
    async def later() -> list[str]:
        return ["file:///b"]

    assert await ask(Answers(roots=lambda: ["file:///a"]), ROOTS) == {"roots": [{"uri": "file:///a"}]}
    assert await ask(Answers(roots=later), ROOTS) == {"roots": [{"uri": "file:///b"}]}
    with pytest.raises(ConfigurationError):
        await ask(Answers(roots=lambda: "/etc"), ROOTS)


@pytest.mark.parametrize("given", ["/home/me", b"/home/me", Path("/home/me"), Root("file:///home/me")])
def test_one_root_has_to_be_in_a_list(given: Any) -> None:
    """A text is a sequence of texts, and "/" is the first."""
    with pytest.raises(ConfigurationError, match=r"write \["):
        Answers(roots=given)


@pytest.mark.parametrize("given", ["https://a.test/x", "ftp://x", "FILE:///x"])
def test_a_root_is_a_file_uri(given: str) -> None:
    with pytest.raises(ConfigurationError, match="is no root"):
        as_roots([given])


async def test_roots_that_are_given_once_stay() -> None:
    given = ["file:///a"]
    answers = Answers(roots=iter(given))  # type: ignore[arg-type]
    for _ in range(2):
        assert await ask(answers, ROOTS) == {"roots": [{"uri": "file:///a"}]}


# Extensions, middleware, turns.


@pytest.mark.rule("R118")
async def test_methods_of_extensions() -> None:
    answers = Answers()
    answers.methods["acme/ask"] = lambda params: {"got": params}
    assert await ask(answers, "acme/ask", {"a": 1}) == {"got": {"a": 1}}
    assert await ask(answers, "acme/ask") == {"got": {}}
    answers.methods["acme/ask"] = lambda params: 5
    with pytest.raises(LocalProtocolError, match="as a dict"):
        await ask(answers, "acme/ask", {})


@pytest.mark.rule("R29", "R31", "R37", "R131", "R132")
async def test_middleware_is_an_onion_around_every_kind() -> None:
    answers = Answers(elicit=lambda question: {"n": 1}, sample=lambda question: "hi", roots=[])
    seen: list[str] = []

    for name in ("outer", "inner"):

        async def middleware(asked: Any, call_next: Any, name: str = name) -> Any:
            seen.append(f"{name} {asked.method} {type(asked.params).__name__}")
            result = await call_next(asked)
            seen.append(f"{name} {type(result).__name__}")
            return result

        answers.middlewares.append(middleware)
    await ask(answers, ELICIT, form())
    assert seen == [
        "outer elicitation/create ElicitParams",
        "inner elicitation/create ElicitParams",
        "inner ElicitResult",
        "outer ElicitResult",
    ]
    await ask(answers, SAMPLE, conversation())
    await ask(answers, ROOTS)
    assert [line for line in seen[4:] if line.startswith("outer")] == [
        "outer sampling/createMessage CreateMessageParams",
        "outer CreateMessageResult",
        "outer roots/list dict",
        "outer ListRootsResult",
    ]


@pytest.mark.rule("R37")
async def test_middleware_may_answer_by_itself() -> None:
    async def never(asked: Any, call_next: Any) -> Any:
        return ElicitResult("decline")

    def person(question: Any) -> Any:
        raise AssertionError("nobody is asked")

    answers = Answers(elicit=person)
    answers.middlewares.append(never)
    assert await ask(answers, ELICIT, form()) == {"action": "decline"}


async def test_a_question_that_was_cancelled_before_its_turn_is_not_shown() -> None:
    shown: list[Any] = []
    answers = Answers(elicit=shown.append)
    question = answers.read(ELICIT, json.dumps(form()).encode())
    question.queue(nested=False)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await question.answer()
    assert shown == []


@pytest.mark.parametrize("limit", [0, -1])
def test_at_least_one_at_once(limit: int) -> None:
    with pytest.raises(ConfigurationError, match="max_parallel"):
        Answers(max_parallel=limit)


# What a version can carry, and what is wrong with a conversation.


@pytest.mark.rule("R33")
async def test_a_conversation_that_breaks_the_rules_is_refused() -> None:
    """client/sampling, Error Handling: "Tool result missing in request", "Tool results mixed with other content"."""
    answers = Answers(sample=lambda question: "hi", sample_tools=True)
    use = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    result = {"type": "tool_result", "toolUseId": "a", "content": []}
    called, text = {"role": "assistant", "content": [use]}, {"type": "text", "text": "x"}
    for last in ([text], [result, text], [{**result, "toolUseId": "b"}]):
        with pytest.raises(RemoteProtocolError, match="message 2 of the conversation") as caught:
            await ask(answers, SAMPLE, {"messages": [called, {"role": "user", "content": last}], "maxTokens": 1})
        assert caught.value.code == -32602
    good = {"messages": [called, {"role": "user", "content": [result]}], "maxTokens": 1}
    assert (await ask(answers, SAMPLE, good))["role"] == "assistant"


async def test_the_model_s_answer_has_the_form_of_the_version() -> None:
    said = CreateMessageResult("assistant", [TextContent("a"), TextContent("b")], "m")
    answers = Answers(sample=lambda question: said)
    answers.version = Version.V2025_06_18
    assert (await ask(answers, SAMPLE, conversation()))["content"] == {"type": "text", "text": "a\nb"}
    answers.version = Version.V2025_11_25
    assert len((await ask(answers, SAMPLE, conversation()))["content"]) == 2


@pytest.mark.rule("R37")
async def test_middleware_may_change_what_is_asked() -> None:
    shown: list[str] = []
    answers = Answers(elicit=lambda question: shown.append(question.message))

    async def redact(asked: Any, call_next: Any) -> Any:
        params = msgspec.structs.replace(asked.params, message="(redacted)")
        return await call_next(dataclasses.replace(asked, params=params))

    answers.middlewares.append(redact)
    await ask(answers, ELICIT, form())
    assert shown == ["(redacted)"]


async def test_a_page_may_be_done_with() -> None:
    answers = Answers(elicit_url=lambda question: "done")
    page = {"mode": "url", "message": "Open", "url": "https://a.test"}
    assert await ask(answers, ELICIT, page) == {"action": "accept"}
    answers = Answers(elicit=lambda question: "done")
    with pytest.raises(LocalProtocolError, match="an elicitation is"):
        await ask(answers, ELICIT, form())
