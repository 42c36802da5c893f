"""JWTs in place of a login."""

from typing import Any

import pytest
from joserfc.jwk import ECKey

from backchannel import ConfigurationError
from backchannel.testing import AuthServer, Misbehaviour
from backchannel.testing.auth import ID_JAG, JWT_BEARER
from backchannel.testing.auth.assertions import EXCHANGE, ID_TOKEN
from backchannel.testing.auth.web import Response
from tests.testing.auth.flow import RESOURCE, Flow, Time, basic, claims, error, signed

PLATFORM = "https://platform.test"
KEY = ECKey.generate_key("P-256")
APP = basic("app", "secret")


@pytest.fixture
def idp() -> AuthServer:
    """An enterprise's identity provider."""
    auth = AuthServer("https://idp.test", subject="ada", clock=Time())
    auth.add_client("app-at-idp", "hush", known_as={"https://auth.test": "app"})
    return auth


@pytest.fixture
def flow(idp: AuthServer) -> Flow:
    """The authorization server that trusts it."""
    auth = AuthServer(scopes=["read", "write"], clock=idp.now)
    auth.trust(idp)
    auth.trust(PLATFORM, {"keys": [KEY.as_dict(private=False)]})
    auth.add_client("app", "secret")
    auth.add_client("other", "secret")
    auth.add_client("public")
    return Flow(auth)


def exchange(idp: AuthServer, **changed: Any) -> Response:
    asked = {
        "grant_type": EXCHANGE,
        "requested_token_type": ID_JAG,
        "subject_token": idp.id_token(client="app-at-idp"),
        "subject_token_type": ID_TOKEN,
        "audience": "https://auth.test",
        "resource": RESOURCE,
        "scope": "read",
    }
    return Flow(idp).post("token", basic("app-at-idp", "hush"), **{**asked, **changed})


def test_an_identity_token_becomes_an_id_jag_and_that_an_access_token(idp: AuthServer, flow: Flow) -> None:
    first = exchange(idp).json
    assert (first["issued_token_type"], first["token_type"], first["scope"]) == (ID_JAG, "N_A", "read")
    second = flow.post("token", APP, grant_type=JWT_BEARER, assertion=first["access_token"])
    said = claims(second.json["access_token"])
    assert (said["iss"], said["sub"], said["aud"]) == ("https://auth.test", "ada", RESOURCE)
    assert (said["client_id"], said["scope"]) == ("app", "read")
    assert "refresh_token" not in second.json


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:access_token"}, "invalid_request"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:jwt"}, "invalid_request"),
        ({"subject_token": "x"}, "invalid_grant"),
        ({"audience": None}, "invalid_request"),
    ],
)
def test_an_exchange_that_is_wrong(idp: AuthServer, wrong: dict[str, Any], code: str) -> None:
    assert error(exchange(idp, **wrong)) == code


def test_an_identity_token_of_somebody_else_is_not_exchanged(idp: AuthServer) -> None:
    assert error(exchange(idp, subject_token=idp.id_token(client="other"))) == "invalid_grant"
    assert error(exchange(idp, subject_token=idp.id_token(client="app-at-idp", exp=1))) == "invalid_grant"
    assert error(exchange(idp, subject_token=AuthServer().id_token(client="app-at-idp"))) == "invalid_grant"


def test_an_exchange_can_give_something_else(idp: AuthServer) -> None:
    idp.misbehaviour = Misbehaviour(exchange_type="urn:ietf:params:oauth:token-type:access_token")
    assert exchange(idp).json["issued_token_type"].endswith("access_token")


@pytest.mark.parametrize(
    "wrong",
    [
        {"audience": "https://other.test"},
        {"client": "other"},
        {"exp": 1},
        {"iss": "https://evil.test"},
        {"sub": None},
        {"jti": None},
    ],
)
def test_an_id_jag_that_is_wrong(idp: AuthServer, flow: Flow, wrong: dict[str, Any]) -> None:
    jag = idp.id_jag(**{"audience": "https://auth.test", "client": "app", **wrong})
    assert error(flow.post("token", APP, grant_type=JWT_BEARER, assertion=jag)) == "invalid_grant"


def test_an_id_jag_counts_once(idp: AuthServer, flow: Flow) -> None:
    jag = idp.id_jag(audience="https://auth.test", client="app")
    assert flow.post("token", APP, grant_type=JWT_BEARER, assertion=jag).status == 200
    assert error(flow.post("token", APP, grant_type=JWT_BEARER, assertion=jag)) == "invalid_grant"


def test_a_public_client_has_no_use_for_an_id_jag(idp: AuthServer, flow: Flow) -> None:
    jag = idp.id_jag(audience="https://auth.test", client="public")
    reply = flow.post("token", grant_type=JWT_BEARER, assertion=jag, client_id="public")
    assert (reply.status, error(reply)) == (401, "invalid_client")


def test_a_scope_beyond_the_id_jag_is_refused(idp: AuthServer, flow: Flow) -> None:
    jag = idp.id_jag(audience="https://auth.test", client="app", scope="read")
    reply = flow.post("token", APP, grant_type=JWT_BEARER, assertion=jag, scope="write")
    assert error(reply) == "invalid_scope"


def test_the_keys_of_an_identity_provider_may_change(idp: AuthServer, flow: Flow) -> None:
    idp.keys.replace()
    jag = idp.id_jag(audience="https://auth.test", client="app")
    assert flow.post("token", APP, grant_type=JWT_BEARER, assertion=jag).status == 200


def workload(flow: Flow, **changed: Any) -> dict[str, Any]:
    now = int(flow.auth.now())
    content = {"iss": PLATFORM, "sub": "job-7", "aud": "https://auth.test", "exp": now + 60, **changed}
    text = signed(KEY, {name: value for name, value in content.items() if value is not None})
    return {"grant_type": JWT_BEARER, "assertion": text, "client_id": "public", "resource": RESOURCE, "scope": "read"}


def test_a_workload_gets_a_token_for_its_platforms_jwt(flow: Flow) -> None:
    said = claims(flow.post("token", **workload(flow)).json["access_token"])
    assert (said["sub"], said["client_id"], said["aud"], said["scope"]) == ("job-7", "public", RESOURCE, "read")


@pytest.mark.parametrize(
    "wrong", [{"aud": "https://other.test"}, {"exp": 1}, {"iss": "https://evil.test"}, {"sub": None}]
)
def test_a_workload_that_is_wrong(flow: Flow, wrong: dict[str, Any]) -> None:
    reply = flow.post("token", **workload(flow, **wrong))
    assert (reply.status, error(reply)) == (400, "invalid_grant")


def test_a_workload_need_be_no_client(flow: Flow, idp: AuthServer) -> None:
    said = claims(flow.post("token", **{**workload(flow), "client_id": None}).json["access_token"])
    assert (said["sub"], said["client_id"]) == ("job-7", "job-7")
    jag = idp.id_jag(audience="https://auth.test", client="app")
    assert error(flow.post("token", grant_type=JWT_BEARER, assertion=jag)) == "invalid_grant"
    assert error(flow.post("token", grant_type="refresh_token", refresh_token="x")) == "invalid_request"


def test_trust_needs_keys(flow: Flow) -> None:
    with pytest.raises(ConfigurationError, match="jwks="):
        flow.auth.trust("https://other.test")
