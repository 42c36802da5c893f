"""Requests to the token endpoint, and its answers."""

import base64
from typing import Any
from urllib.parse import parse_qsl

import pytest

from backchannel.client.auth.private_key import PrivateKey
from backchannel.client.auth.registration import Registration
from backchannel.client.auth.signing import SigningKey
from backchannel.client.auth.steps import Fetch, Fetched, Flow, Token
from backchannel.client.auth.token_request import request_token
from backchannel.errors import LoginFailed
from tests.client.auth.world import World, fetched

ENDPOINT = "https://as.test/token"
ANSWER = {"access_token": "t", "token_type": "Bearer"}


def client(**given: Any) -> Registration:
    return Registration(issuer="https://as.test", client_id="c", **given)


def request(answer: Any = ANSWER, who: Registration | None = None, **options: Any) -> tuple[Token, Fetch]:
    world = World()
    world.pages[ENDPOINT] = answer
    parameters = options.pop("parameters", {"grant_type": "g", "resource": "https://s.test/mcp/"})
    token = world.run(request_token(ENDPOINT, who or client(), parameters, **options))
    return token, world.fetched[0]


def form(sent: Fetch) -> dict[str, str]:
    return dict(parse_qsl(sent.body.decode()))


def test_a_public_client_says_its_name() -> None:
    _, sent = request()
    assert (sent.method, sent.url) == ("POST", ENDPOINT)
    assert form(sent) == {"grant_type": "g", "resource": "https://s.test/mcp/", "client_id": "c"}
    assert sent.headers["content-type"] == "application/x-www-form-urlencoded"
    assert "authorization" not in sent.headers


def test_basic_encodes_id_and_secret() -> None:
    who = Registration(issuer="i", client_id="https://c.test/?a b", client_secret="s:/ü", method="client_secret_basic")
    _, sent = request(who=who)
    decoded = base64.b64decode(sent.headers["authorization"].removeprefix("Basic ")).decode()
    assert decoded == "https%3A%2F%2Fc.test%2F%3Fa+b:s%3A%2F%C3%BC"
    assert "client_secret" not in form(sent)


def test_the_id_is_in_the_body_all_the_same() -> None:
    """The servers of the official SDK look for it there."""
    assert form(request(who=client(client_secret="s", method="client_secret_basic"))[1])["client_id"] == "c"


def test_post_has_them_in_the_body() -> None:
    _, sent = request(who=client(client_secret="s", method="client_secret_post"))
    assert form(sent).items() >= {"client_id": "c", "client_secret": "s"}.items()
    assert "authorization" not in sent.headers


def test_a_private_key_signs_an_assertion_for_the_issuer() -> None:
    key = PrivateKey(SigningKey.generate().to_json())
    _, sent = request(who=client(method="private_key_jwt"), key=key)
    assert form(sent)["client_assertion_type"].endswith(":jwt-bearer")
    assert form(sent)["client_assertion"].count(".") == 2
    assert form(sent)["client_id"] == "c"


def test_the_answer_is_read() -> None:
    given = {**ANSWER, "expires_in": 60, "scope": "a b", "refresh_token": "r"}
    assert request(given)[0] == Token("t", "Bearer", "a b", 1_000_060.0, "r", 1_000_000.0)
    assert request(ANSWER)[0] == Token("t", issued_at=1_000_000.0)


@pytest.mark.parametrize(
    ("given", "seconds"), [("60", 60), (60.5, 60.5), (0, 0), ("soon", None), (-1, None), (1e300, None), (None, None)]
)
def test_how_long_it_lasts(given: Any, seconds: float | None) -> None:
    token = request({**ANSWER, "expires_in": given})[0]
    assert token.expires_at == (1_000_000.0 + seconds if seconds is not None else None)


def test_where_the_answer_names_no_scope_it_is_what_was_asked_for() -> None:
    asked = {"grant_type": "g", "scope": "a b"}
    assert request(ANSWER, parameters=asked)[0].scope == "a b"
    assert request({**ANSWER, "scope": "a"}, parameters=asked)[0].scope == "a"


@pytest.mark.parametrize(("kind", "expected"), [("bearer", "Bearer"), ("BEARER", "Bearer"), ("dpop", "DPoP")])
def test_the_type_of_the_token_knows_no_case(kind: str, expected: str) -> None:
    assert request({"access_token": "t", "token_type": kind})[0].token_type == expected


@pytest.mark.parametrize(
    "answer",
    [
        {**ANSWER, "token_type": "mac"},
        {**ANSWER, "access_token": ""},
        {**ANSWER, "access_token": "a\r\nx-evil: 1"},
        {**ANSWER, "access_token": "a b"},
    ],
)
def test_a_token_that_cannot_be_shown_is_refused(answer: Any) -> None:
    with pytest.raises(LoginFailed, match="cannot be used"):
        request(answer)


@pytest.mark.parametrize("status", [200, 400, 401])
def test_an_error_says_why(status: int) -> None:
    with pytest.raises(LoginFailed) as caught:
        request(fetched(status, {"error": "invalid_grant", "error_description": "no\nmore"}))
    assert caught.value.error == "invalid_grant"
    assert str(caught.value) == r"https://as.test issued no token: invalid_grant: no\nmore"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (fetched(500, b"<html>"), "HTTP 500"),
        (fetched(302, b"", location="https://evil.test"), "HTTP 302"),
        (fetched(200, b"<html>"), "cannot be read"),
        (fetched(200, {"access_token": "hidden"} | {"token_type": 1}), "cannot be read"),
    ],
)
def test_what_is_no_token_is_refused(answer: Fetched, why: str) -> None:
    with pytest.raises(LoginFailed, match=why) as caught:
        request(answer)
    assert "hidden" not in str(caught.value)


def test_the_request_can_be_sent_in_another_way() -> None:
    def send(asked: Fetch) -> Flow[Fetched]:
        response: Fetched = yield Fetch(asked.method, asked.url, {**asked.headers, "dpop": "proof"}, asked.body)
        return response

    assert request(send=send)[1].headers["dpop"] == "proof"
