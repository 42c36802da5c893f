"""A call between two of its rounds: what it sends, what it shows, and what is saved of it."""

import json
import logging
from typing import Any

import msgspec
import pytest

from backchannel import LocalProtocolError, Pending
from backchannel.client.asked import Asked
from backchannel.types import ElicitResult
from tests.client.scripted import Json, conversation, form

SECRET = "SEALED-STATE"
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


def asked(method: str = ELICIT, params: Json | None = None) -> Asked:
    return Asked.read(method, json.dumps(form() if params is None else params).encode())


def sent(pending: Pending[Any]) -> Json:
    """The params of its request, as they are on the wire."""
    return json.loads(msgspec.json.encode(pending.request()))  # type: ignore[no-any-return]


def begun(**questions: Asked) -> Pending[Any]:
    params = {"name": "t", "arguments": {"a": [1]}, "_meta": {"traceparent": "00"}}
    return Pending.start("tools/call", params).next(questions or {"q": asked()}, SECRET)


@pytest.mark.rule("R102", "R103", "R105")
def test_the_first_request_is_the_callers_the_next_adds_answers_and_state() -> None:
    params: Json = {"name": "t", "arguments": {"a": [1]}}
    pending = Pending.start("tools/call", params)
    assert (sent(pending), pending.begun, pending.params) == (params, False, params)
    pending = pending.next({"q": asked()}, SECRET)
    assert (sent(pending), pending.begun) == ({**params, "requestState": SECRET}, True)
    answered = pending.answered({"q": {"n": 1}})
    accepted = {"action": "accept", "content": {"n": 1}}
    assert sent(answered) == {**params, "inputResponses": {"q": accepted}, "requestState": SECRET}
    assert sent(pending) == {**params, "requestState": SECRET}, "it does not change"


def saved_with(**members: Any) -> str:
    return json.dumps({**json.loads(begun().to_json()), **members})


@pytest.mark.parametrize(
    "text",
    [
        *(saved_with(params={"name": "t", "_meta": meta}) for meta in (5, [1], "ab", True)),
        *(saved_with(questions={"q": {"method": ELICIT, "params": params}}) for params in (5, {}, [], {"message": 1})),
        *(saved_with(earlier={"q": {"method": SAMPLE, "params": params}}) for params in (5, {}, [], {"messages": 1})),
        saved_with(params=[]),
        saved_with(format=2),
        "[]",
        "[" * 100_000,
        "\ud800",
    ],
)
def test_what_was_not_saved_by_us_is_a_local_error(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="pending call"):
        Pending.from_json(text)


@pytest.mark.parametrize("meta", [5, [1], "ab"])
def test_meta_is_an_object(meta: Any) -> None:
    with pytest.raises(LocalProtocolError, match="its _meta is no object"):
        Pending.start("tools/call", {"name": "t", "_meta": meta})
    assert Pending.start("tools/call", {"name": "t", "_meta": None}).with_meta(a=1).request()["_meta"] == {"a": 1}


@pytest.mark.case("A01")
def test_what_the_caller_does_with_its_params_later_is_not_sent() -> None:
    params: Json = {"name": "t", "arguments": {"a": [1]}, "_meta": {"x": [1]}}
    pending = Pending.start("tools/call", params)
    params["arguments"]["a"].append(2)
    params["_meta"]["x"].append(2)
    pending.params["arguments"]["a"].append(3)
    assert sent(pending) == {"name": "t", "arguments": {"a": [1]}, "_meta": {"x": [1]}}


@pytest.mark.case("A02")
def test_nothing_of_a_round_is_in_the_next() -> None:
    pending = begun(a=asked()).answered({"a": {"n": 1}})
    assert "inputResponses" not in sent(pending.next({}, "s2"))
    assert sent(pending.next({"b": asked()}, None)).keys() == {"name", "arguments", "_meta"}
    assert not pending.next({}, None).questions


@pytest.mark.rule("R124")
def test_an_answer_under_a_key_of_an_earlier_round_corrects_that_one() -> None:
    later = begun(size=asked()).answered({"size": {"n": 1}}).next({"colour": asked()}, "s2")
    both = {"size": {"n": 2}, "colour": {"n": 3}}
    expected = {key: {"action": "accept", "content": content} for key, content in both.items()}
    assert sent(later.answered(both))["inputResponses"] == expected
    assert sent(Pending.from_json(later.to_json()).answered(both))["inputResponses"] == expected


def test_answers_are_added_to_those_that_are_there() -> None:
    pending = begun(a=asked(), b=asked()).answered({"a": {"n": 1}}).answered({"b": "decline", "a": {"n": 2}})
    assert sent(pending)["inputResponses"] == {
        "a": {"action": "accept", "content": {"n": 2}},
        "b": {"action": "decline"},
    }
    assert sent(pending.answered({})) == sent(pending)


def test_every_kind_of_answer() -> None:
    url = {"mode": "url", "message": "Open", "url": "https://a.test"}
    pending = begun(
        yes=asked(params={"message": "ok?", "requestedSchema": {}}),
        no=asked(),
        closed=asked(),
        page=asked(params=url),
        text=asked(SAMPLE, conversation()),
        roots=asked(ROOTS, {}),
        mine=asked("acme/ask", {"x": 1}),
    )
    answers = {
        "yes": True,
        "no": False,
        "closed": ElicitResult("cancel"),
        "page": True,
        "text": "Hi",
        "roots": ["file:///a"],
        "mine": {"y": 2},
    }
    assert sent(pending.answered(answers))["inputResponses"] == {
        "yes": {"action": "accept", "content": {}},
        "no": {"action": "decline"},
        "closed": {"action": "cancel"},
        "page": {"action": "accept"},
        "text": {
            "role": "assistant",
            "content": {"type": "text", "text": "Hi"},
            "model": "unknown",
            "stopReason": "endTurn",
        },
        "roots": {"roots": [{"uri": "file:///a"}]},
        "mine": {"y": 2},
    }


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"Q": {"n": 1}}, "no question 'Q'; 'q' is asked"),
        ({"q": {"n": "one"}}, "n: expected integer"),
        ({"q": 5}, "answer to an elicitation is"),
        ({"q": {"n": object()}}, "no form in JSON"),
    ],
)
def test_what_is_no_answer(answers: Json, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        begun().answered(answers)


def test_an_answer_without_a_form_in_json() -> None:
    with pytest.raises(LocalProtocolError, match="no form in JSON"):
        begun(a=asked("acme/ask", {})).answered({"a": {"x": object()}})


def test_an_answer_where_nothing_is_asked() -> None:
    with pytest.raises(LocalProtocolError, match="nothing is asked"):
        Pending.start("tools/call", {"name": "t"}).answered({"a": 1})


# Saving.


@pytest.mark.rule("R103", "R116")
def test_it_can_be_saved_and_read_again() -> None:
    params = {**form("Größe \u2028?"), "futureMember": {"kept": True}}
    keys = {"ключ/~1 .\n": asked(params=params), "b": asked(SAMPLE, conversation())}
    pending = begun(**keys).answered({"b": "Hi"})
    again = Pending.from_json(pending.to_json())
    assert sent(again) == sent(pending)
    assert (again.method, again.questions, again.params) == (pending.method, pending.questions, pending.params)
    assert json.loads(pending.to_json())["questions"]["ключ/~1 .\n"]["params"] == params
    assert again.to_json() == pending.to_json()


def test_what_cannot_be_read_again() -> None:
    good = json.loads(begun().to_json())
    for bad in (
        "",
        "[]",
        "{}",
        "\ud800",
        json.dumps({**good, "format": 2}),
        json.dumps({**good, "state": {SECRET: 1}}),
    ):
        with pytest.raises(LocalProtocolError, match="pending call") as caught:
            Pending.from_json(bad)
        assert SECRET not in str(caught.value)


@pytest.mark.rule("R114")
def test_the_state_and_the_answers_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    pending = begun(size=asked(params=form(n={"type": "string"}))).answered({"size": {"n": "PRIVATE"}})
    logging.getLogger("backchannel").warning("%s %r", pending, pending)
    shown = f"{pending} {pending!r} {pending.questions!r} {caplog.text}"
    assert SECRET not in shown and "PRIVATE" not in shown
    assert repr(pending) == "<Pending tools/call: 'size'>"
    assert repr(Pending.start("tools/call", {})) == "<Pending tools/call: nothing asked>"
