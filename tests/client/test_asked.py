"""A question as it is read, and the result that is made of an answer. What handlers answer is in test_answers.py."""

import json
from typing import Any

import pytest

from backchannel.client.asked import Asked
from backchannel.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from backchannel.types import ElicitResult
from tests.client.scripted import Json, conversation, form

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
URL = {"mode": "url", "message": "Open", "url": "https://a.test"}


def asked(method: str, params: Json) -> Asked:
    return Asked.read(method, json.dumps(params).encode())


def test_a_question_can_be_read() -> None:
    a, b, c = asked(ELICIT, form("How many?")), asked(SAMPLE, conversation("Hello")), asked(ROOTS, {})
    assert (a.method, a.message, a.schema) == (ELICIT, "How many?", form()["requestedSchema"])
    assert (b.method, b.message, b.schema) == (SAMPLE, "", None)
    assert b.params.messages[0].content.text == "Hello"
    assert (c.method, c.message, c.schema, c.params) == (ROOTS, "", None, {})
    page = asked(ELICIT, URL)
    assert (page.message, page.schema, page.params.url) == ("Open", None, "https://a.test")
    assert asked("acme/ask", {"x": 1}).params == {"x": 1}


def test_its_params_may_be_absent() -> None:
    assert Asked.read(ROOTS, None) == Asked(ROOTS, {})
    with pytest.raises(RemoteProtocolError, match="Invalid params"):
        Asked.read(ELICIT, None)


@pytest.mark.rule("R33")
@pytest.mark.parametrize("params", [{}, {"message": 5}, {**URL, "url": None}, {"message": "x", "mode": "telepathy"}])
def test_params_that_cannot_be_read(params: Json) -> None:
    with pytest.raises(RemoteProtocolError, match="Invalid params") as caught:
        asked(ELICIT, params)
    assert caught.value.code == -32602


@pytest.mark.rule("R39")
@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"n": 2}, ElicitResult("accept", {"n": 2})),
        ({}, ElicitResult("accept", {"n": 7})),
        (True, ElicitResult("accept", {"n": 7})),
        (False, ElicitResult("decline")),
        (None, ElicitResult("cancel")),
        ("cancel", ElicitResult("cancel")),
    ],
)
def test_an_answer_to_a_form(value: Any, result: ElicitResult) -> None:
    assert asked(ELICIT, form(n={"type": "integer", "default": 7})).result(value) == result


@pytest.mark.parametrize("value", [True, {}, {"anything": 1}, "accept"])
def test_consent_to_a_page_has_no_content(value: Any) -> None:
    assert asked(ELICIT, URL).result(value) == ElicitResult("accept")


@pytest.mark.parametrize(
    ("method", "params", "value", "error"),
    [
        (ELICIT, form(), 5, LocalProtocolError),
        (ELICIT, form(), {"n": "x"}, LocalProtocolError),
        (SAMPLE, conversation(), 5, LocalProtocolError),
        (SAMPLE, conversation(), None, LocalProtocolError),
        (ROOTS, {}, "/a", ConfigurationError),
        ("acme/ask", {}, 5, LocalProtocolError),
    ],
)
def test_what_is_no_answer(method: str, params: Json, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        asked(method, params).result(value)
