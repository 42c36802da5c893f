"""Keys, introspection, revocation, and what is not there."""

import pytest

from backchannel.testing import AuthServer, Misbehaviour
from backchannel.testing.auth.keys import read
from tests.testing.auth.flow import RESOURCE, Flow, Time, basic, error

SHOP = basic("shop", "secret")


@pytest.fixture
def flow() -> Flow:
    auth = AuthServer(clock=Time())
    auth.add_client("app")
    auth.add_client("shop", "secret")
    return Flow(auth)


def test_a_token_is_signed_with_a_key_in_the_jwks(flow: Flow) -> None:
    jwks = flow.auth.fetch("GET", "https://auth.test/jwks").json
    header, claims = read(flow.login()["access_token"], jwks)
    assert header["typ"] == "at+jwt" and header["kid"] == jwks["keys"][0]["kid"]
    assert claims["sub"] == "alice" and "d" not in jwks["keys"][0]


def test_the_jwks_can_fail_or_be_old(flow: Flow) -> None:
    flow.auth.misbehaviour = Misbehaviour(stale_jwks=True)
    assert flow.auth.fetch("GET", "https://auth.test/jwks").json == {"keys": []}
    flow.auth.misbehaviour = Misbehaviour(jwks_fails=True)
    assert flow.auth.fetch("GET", "https://auth.test/jwks").status == 500


@pytest.mark.parametrize("opaque", [False, True])
def test_introspection(flow: Flow, opaque: bool) -> None:
    flow.auth.opaque = opaque
    token = flow.login(scope="read")["access_token"]
    said = flow.post("introspect", SHOP, token=token).json
    expected = {"active": True, "sub": "alice", "aud": RESOURCE, "client_id": "app", "scope": "read"}
    assert {name: said[name] for name in expected} == expected
    assert (said["iss"], said["token_type"]) == ("https://auth.test", "Bearer")
    assert (token.count(".") == 0) is opaque


def test_what_is_not_active(flow: Flow) -> None:
    token = flow.login()["access_token"]
    assert flow.post("introspect", SHOP, token="guessed").json == {"active": False}
    flow.auth.now.now += 3600  # type: ignore[attr-defined]
    assert flow.post("introspect", SHOP, token=token).json == {"active": False}


def test_who_introspects_has_to_show_who_it_is(flow: Flow) -> None:
    assert flow.post("introspect", token="x").status == 400
    assert error(flow.post("introspect", token="x", client_id="app")) == "invalid_client"
    assert flow.post("introspect", basic("shop", "wrong"), token="x").status == 401
    flow.auth.misbehaviour = Misbehaviour(introspection_fails=True)
    assert flow.post("introspect", SHOP, token="x").status == 500


def test_an_access_token_is_revoked(flow: Flow) -> None:
    answer = flow.login()
    assert flow.post("revoke", token=answer["access_token"], client_id="app").status == 200
    assert flow.post("introspect", SHOP, token=answer["access_token"]).json == {"active": False}
    assert flow.refresh(answer["refresh_token"]).status == 200


def test_with_a_refresh_token_all_that_came_of_the_login_is_revoked(flow: Flow) -> None:
    answer, other = flow.login(), flow.login()
    assert flow.post("revoke", token=answer["refresh_token"], client_id="app").status == 200
    assert flow.post("introspect", SHOP, token=answer["access_token"]).json == {"active": False}
    assert error(flow.refresh(answer["refresh_token"])) == "invalid_grant"
    assert flow.refresh(other["refresh_token"]).status == 200


def test_nobody_revokes_what_is_not_its_own(flow: Flow) -> None:
    answer = flow.login()
    for token in (answer["refresh_token"], answer["access_token"], "guessed"):
        assert flow.post("revoke", SHOP, token=token).status == 200
    assert flow.post("introspect", SHOP, token=answer["access_token"]).json["active"]
    assert flow.refresh(answer["refresh_token"]).status == 200


def test_all_is_revoked(flow: Flow) -> None:
    answer = flow.login()
    flow.auth.tokens.revoke_all()
    assert error(flow.refresh(answer["refresh_token"])) == "invalid_grant"


@pytest.mark.parametrize("path", ["/", "/nothing", "/tokens", "/tenant/token", "//token"])
def test_there_is_nothing_else(path: str) -> None:
    assert AuthServer().fetch("POST", f"https://auth.test{path}").status == 404


def test_below_the_issuers_path_only() -> None:
    auth = AuthServer("https://auth.test/tenant")
    assert auth.fetch("GET", "https://auth.test/tenant/jwks").status == 200
    assert auth.fetch("GET", "https://auth.test/jwks").status == 404
    assert auth.fetch("GET", "https://auth.test/tenantjwks").status == 404


def test_the_endpoints_may_lie_elsewhere() -> None:
    flow = Flow(AuthServer("https://auth.test/tenant", prefix="/oauth"))
    found = flow.auth.fetch("GET", "https://auth.test/.well-known/oauth-authorization-server/tenant").json
    assert found["issuer"] == "https://auth.test/tenant"
    assert found["token_endpoint"] == "https://auth.test/tenant/oauth/token"
    flow.register()
    assert flow.login()["token_type"] == "Bearer"
    assert flow.auth.fetch("POST", "https://auth.test/tenant/token").status == 404


def test_the_method_has_to_be_right() -> None:
    reply = AuthServer().fetch("GET", "https://auth.test/token")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
