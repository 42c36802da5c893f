"""What a test arranges with an AuthServer, and what it sees of it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from backchannel.testing import AuthServer, Misbehaviour
from backchannel.testing.auth.keys import read
from tests.testing.auth.flow import RESOURCE, Flow, Time, basic, claims


def test_tokens_without_a_login() -> None:
    auth = AuthServer(clock=Time())
    token = auth.issue("ada", audience=RESOURCE, scopes=["read", "write"], client="app", tenant="t")
    header, said = read(token, auth.keys.jwks())
    expected = {"iss": "https://auth.test", "sub": "ada", "aud": RESOURCE, "client_id": "app", "tenant": "t"}
    assert header["typ"] == "at+jwt" and expected.items() <= said.items()
    assert (said["scope"], said["exp"] - said["iat"]) == ("read write", 3600)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scopes": "a b"}, {"scope": "a b"}),
        ({}, {"sub": "alice", "aud": "https://auth.test", "client_id": "test-client"}),
        ({"audience": ["a:1", "b:2"]}, {"aud": ["a:1", "b:2"]}),
        ({"expires_in": -1}, {"exp": 1_799_999_999}),
        ({"key": "thumb"}, {"cnf": {"jkt": "thumb"}}),
        ({"iss": "https://evil.test", "nbf": 1, "sub": None}, {"iss": "https://evil.test", "nbf": 1, "sub": None}),
        ({"forged": "none"}, {"sub": "alice"}),
    ],
)
def test_they_can_be_made_up(options: dict[str, Any], expected: dict[str, Any]) -> None:
    said = claims(AuthServer(clock=Time()).issue(**options))
    assert {name: said.get(name) for name in expected} == expected


def test_they_are_known_to_introspection_unless_they_are_forged() -> None:
    auth = AuthServer(opaque=True)
    auth.add_client("shop", "secret")
    flow = Flow(auth)
    for token, active in ((auth.issue(), True), (auth.issue(forged="none"), False), (auth.issue(expires_in=-1), False)):
        assert flow.post("introspect", basic("shop", "secret"), token=token).json["active"] is active


def test_what_was_asked() -> None:
    flow = Flow(AuthServer())
    flow.register()
    answer = flow.login()
    flow.refresh(answer["refresh_token"])
    flow.refresh("x")
    assert flow.auth.count("token") == 3
    assert flow.auth.count("token", grant_type="refresh_token") == 2
    assert flow.auth.count("token", grant_type="refresh_token", refresh_token="x") == 1
    assert flow.auth.seen("register")[0]["application_type"] == "native"
    assert flow.auth.seen("authorize")[0]["resource"] == RESOURCE
    assert flow.auth.count("introspect") == 0


def test_a_body_of_any_kind_has_parameters() -> None:
    auth = AuthServer()
    for body in (b"[1]", b"{", b"\xff"):
        auth.fetch("POST", "https://auth.test/register", {"Content-Type": "application/json"}, body)
    assert auth.seen("register") == [{}, {}, {}]


def test_no_secret_is_in_a_repr() -> None:
    flow = Flow(AuthServer())
    flow.register()
    answer = flow.login()
    shown = repr(flow.auth.requests) + repr(vars(flow.auth)) + repr(vars(flow.auth.clients))
    assert answer["access_token"] not in shown and "a-state" not in shown


def test_every_misbehaviour_is_described_and_tested() -> None:
    names = [field.name for field in fields(Misbehaviour)]
    text = Misbehaviour.__doc__ or ""
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in names if name not in text] == []
    assert [name for name in names if f"{name}=" not in tests] == []
