"""The token endpoint: codes, refresh tokens and clients on their own behalf."""

from typing import Any

import pytest

from backchannel.testing import AuthServer, Misbehaviour
from tests.testing.auth.flow import RESOURCE, VERIFIER, Flow, Time, basic, claims, error


@pytest.fixture
def flow() -> Flow:
    auth = AuthServer(scopes=["read", "write"], clock=Time())
    auth.add_client("app")
    auth.add_client("other")
    auth.add_client("robot", "secret")
    return Flow(auth)


def test_a_code_becomes_a_token(flow: Flow) -> None:
    answer = flow.login(scope="read")
    assert (answer["token_type"], answer["expires_in"], answer["scope"]) == ("Bearer", 3600, "read")
    said = claims(answer["access_token"])
    assert {name: said[name] for name in ("iss", "sub", "aud", "client_id", "scope")} == {
        "iss": "https://auth.test",
        "sub": "alice",
        "aud": RESOURCE,
        "client_id": "app",
        "scope": "read",
    }
    assert said["exp"] == flow.auth.now() + 3600


def test_it_may_not_be_cached(flow: Flow) -> None:
    assert flow.exchange(flow.authorize()["code"]).headers["cache-control"] == "no-store"


def test_who_asks_for_no_scope_gets_all(flow: Flow) -> None:
    assert flow.login()["scope"] == "read write"


def test_the_audience(flow: Flow) -> None:
    assert claims(flow.login(resource=["https://a.test", "https://b.test/"])["access_token"])["aud"] == [
        "https://a.test",
        "https://b.test/",
    ]
    assert claims(flow.login(resource=None)["access_token"])["aud"] == "https://auth.test"
    flow.auth.audience = "https://shop.test"
    assert claims(flow.login(resource=None)["access_token"])["aud"] == "https://shop.test"


def test_a_token_may_be_for_a_part_of_the_resources(flow: Flow) -> None:
    code = flow.authorize(resource=["https://a.test", "https://b.test"])["code"]
    answer = flow.exchange(code, resource="https://a.test").json
    assert claims(answer["access_token"])["aud"] == "https://a.test"
    both = flow.refresh(answer["refresh_token"]).json
    assert claims(both["access_token"])["aud"] == ["https://a.test", "https://b.test"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_request"),
        ({"code": "guessed"}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:5001/callback"}, "invalid_grant"),
        ({"redirect_uri": None}, "invalid_grant"),
        ({"client_id": "other"}, "invalid_grant"),
        ({"resource": "https://other.test"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": None}, "invalid_request"),
        ({"code_verifier": [VERIFIER, VERIFIER]}, "invalid_request"),
    ],
)
def test_a_code_is_bound(flow: Flow, wrong: dict[str, Any], code: str) -> None:
    asked = {"code": flow.authorize()["code"], **wrong}
    assert error(flow.exchange(**asked)) == code


def test_a_code_that_came_without_a_redirect_uri_needs_none(flow: Flow) -> None:
    flow.auth.add_client("app", redirects=("http://127.0.0.1:5000/callback",))
    assert flow.exchange(flow.authorize(redirect_uri=None)["code"], redirect_uri=None).status == 200


def test_a_code_lasts_a_minute(flow: Flow) -> None:
    code = flow.authorize()["code"]
    flow.auth.now.now += 60  # type: ignore[attr-defined]
    assert error(flow.exchange(code)) == "invalid_grant"


def test_a_code_counts_once_and_the_second_use_ends_what_came_of_the_first(flow: Flow) -> None:
    code = flow.authorize()["code"]
    answer = flow.exchange(code).json
    assert error(flow.exchange(code)) == "invalid_grant"
    assert error(flow.refresh(answer["refresh_token"])) == "invalid_grant"
    assert flow.auth.tokens.access(answer["access_token"]) is None


def test_the_body_is_a_form(flow: Flow) -> None:
    flow.headers = {"content-type": "text/plain"}
    reply = flow.exchange(flow.authorize()["code"])
    assert (reply.status, error(reply)) == (400, "invalid_request")


def test_a_refresh_token_is_exchanged_for_another(flow: Flow) -> None:
    first = flow.login(scope="read")
    second = flow.refresh(first["refresh_token"]).json
    assert second["refresh_token"] != first["refresh_token"]
    assert claims(second["access_token"])["aud"] == RESOURCE and second["scope"] == "read"
    assert flow.refresh(second["refresh_token"]).status == 200


def test_an_old_refresh_token_ends_the_new_one(flow: Flow) -> None:
    first = flow.login()
    second = flow.refresh(first["refresh_token"]).json
    assert error(flow.refresh(first["refresh_token"])) == "invalid_grant"
    assert error(flow.refresh(second["refresh_token"])) == "invalid_grant"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"client_id": "other"}, "invalid_grant"),
        ({"scope": "read write"}, "invalid_scope"),
        ({"resource": "https://other.test"}, "invalid_target"),
        ({"refresh_token": "guessed"}, "invalid_grant"),
    ],
)
def test_a_refresh_token_is_bound(flow: Flow, wrong: dict[str, Any], code: str) -> None:
    answer = flow.login(scope="read")
    asked = {"refresh_token": answer["refresh_token"], **wrong}
    assert error(flow.refresh(**asked)) == code
    assert flow.refresh(answer["refresh_token"]).status == 200


def test_with_offline_access_only_who_asks_for_it_gets_a_refresh_token() -> None:
    flow = Flow(AuthServer(scopes=["read", "offline_access"]))
    flow.auth.add_client("app")
    assert "refresh_token" not in flow.login() and flow.login()["scope"] == "read"
    assert "refresh_token" in flow.login(scope="read offline_access")


def test_who_has_not_registered_for_a_grant_may_not_use_it(flow: Flow) -> None:
    flow.register(grant_types=["authorization_code"])
    assert "refresh_token" not in flow.login()
    assert error(flow.refresh("x")) == "unauthorized_client"


def test_openid_gives_an_identity_token(flow: Flow) -> None:
    said = claims(flow.login(scope="read openid", nonce="n")["id_token"])
    assert (said["sub"], said["aud"], said["nonce"]) == ("alice", "app", "n")
    assert "id_token" not in flow.login()


def test_a_client_on_its_own_behalf(flow: Flow) -> None:
    asked = {"grant_type": "client_credentials", "scope": "read", "resource": RESOURCE}
    answer = flow.post("token", basic("robot", "secret"), **asked).json
    said = claims(answer["access_token"])
    assert (said["sub"], said["aud"], said["scope"]) == ("robot", RESOURCE, "read")
    assert "refresh_token" not in answer


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"scope": "admin"}, "invalid_scope"), ({"resource": "shop"}, "invalid_target")],
)
def test_a_client_on_its_own_behalf_gets_what_there_is(flow: Flow, wrong: dict[str, str], code: str) -> None:
    reply = flow.post("token", basic("robot", "secret"), grant_type="client_credentials", **wrong)
    assert (reply.status, error(reply)) == (400, code)


def test_a_public_client_has_no_behalf_of_its_own(flow: Flow) -> None:
    reply = flow.post("token", grant_type="client_credentials", client_id="app")
    assert (reply.status, error(reply)) == (400, "unauthorized_client")


# Misbehaviour


def test_it_can_give_no_token(flow: Flow) -> None:
    code = flow.authorize()["code"]
    flow.auth.misbehaviour = Misbehaviour(token_error="temporarily_unavailable")
    assert error(flow.exchange(code)) == "temporarily_unavailable"
    flow.auth.misbehaviour = Misbehaviour(token_garbage=True)
    assert (flow.exchange(code).status, flow.exchange(code).body[:1]) == (500, b"<")
    flow.auth.misbehaviour = Misbehaviour(token_redirect="https://evil.test/token")
    reply = flow.exchange(code)
    assert (reply.status, reply.headers["location"]) == (307, "https://evil.test/token")
    flow.auth.misbehaviour = Misbehaviour(invalid_client=True)
    assert (flow.exchange(code).status, error(flow.exchange(code))) == (401, "invalid_client")
    flow.auth.misbehaviour = Misbehaviour()
    assert flow.exchange(code).status == 200


def test_errors_can_have_the_status_200(flow: Flow) -> None:
    flow.auth.misbehaviour = Misbehaviour(errors_with_200=True)
    reply = flow.exchange("guessed")
    assert (reply.status, error(reply)) == (200, "invalid_grant")


def test_refreshing_can_be_wrong(flow: Flow) -> None:
    first = flow.login()
    flow.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
    assert error(flow.refresh(first["refresh_token"])) == "invalid_grant"
    flow.auth.misbehaviour = Misbehaviour(keep_refresh_token=True)
    assert "refresh_token" not in flow.refresh(first["refresh_token"]).json
    assert flow.refresh(first["refresh_token"]).status == 200
    flow.auth.misbehaviour = Misbehaviour(no_refresh_token=True)
    assert "refresh_token" not in flow.login()


def test_the_answer_can_say_less_or_otherwise(flow: Flow) -> None:
    flow.auth.misbehaviour = Misbehaviour(
        silent_scope=True, silent_expiry=True, token_type="bearer", granted=("write",)
    )
    answer = flow.login(scope="read")
    assert answer.keys() == {"access_token", "refresh_token", "token_type"}
    assert answer["token_type"] == "bearer" and claims(answer["access_token"])["scope"] == "write"
    flow.auth.misbehaviour = Misbehaviour(granted=())
    assert "scope" not in flow.login(scope="read")


def test_the_token_can_be_wrong(flow: Flow) -> None:
    flow.auth.misbehaviour = Misbehaviour(expired=True, token_issuer="{issuer}/", token_audience="https://other.test")
    answer = flow.login()
    said = claims(answer["access_token"])
    assert said["exp"] < flow.auth.now() and answer["expires_in"] == 3600
    assert (said["iss"], said["aud"]) == ("https://auth.test/", "https://other.test")
