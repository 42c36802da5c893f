"""How clients register, and how they show who they are."""

from typing import Any

import pytest
from joserfc.jwk import ECKey

from backchannel.testing import AuthServer, Misbehaviour
from backchannel.testing.auth import RegisteredClient
from backchannel.testing.auth.clients import ASSERTION_TYPE
from tests.testing.auth.flow import Flow, Time, basic, error, signed

KEY = ECKey.generate_key("P-256")
JWKS = {"keys": [KEY.as_dict(private=False)]}


def test_a_client_registers_and_logs_in() -> None:
    flow = Flow(AuthServer())
    reply = flow.register()
    assert reply.status == 201 and reply.headers["cache-control"] == "no-store"
    assert reply.json["token_endpoint_auth_method"] == "none" and "client_secret" not in reply.json
    assert reply.json["client_name"] == "A test"
    assert flow.login()["token_type"] == "Bearer"


def test_each_registration_is_another_client() -> None:
    flow = Flow(AuthServer())
    assert flow.register().json["client_id"] != flow.register().json["client_id"]


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", None])
def test_a_confidential_client_gets_a_secret(method: str | None) -> None:
    reply = Flow(AuthServer()).register(token_endpoint_auth_method=method).json
    assert reply["token_endpoint_auth_method"] == (method or "client_secret_basic")
    assert len(reply["client_secret"]) >= 32 and reply["client_secret_expires_at"] == 0


@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post"])
def test_a_client_gets_the_method_that_there_is(method: str) -> None:
    reply = Flow(AuthServer(methods=[method])).register(token_endpoint_auth_method="private_key_jwt").json
    assert reply["token_endpoint_auth_method"] == method


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://app.test/callback"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.test/callback#part"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https:///callback"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [7]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["test.app:/callback"], "application_type": "web"}, "invalid_redirect_uri"),
    ],
)
def test_a_bad_registration_is_refused(metadata: dict[str, Any], code: str) -> None:
    reply = Flow(AuthServer()).register(**metadata)
    assert (reply.status, error(reply)) == (400, code)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
def test_a_registration_is_a_json_object(body: bytes) -> None:
    reply = AuthServer().fetch("POST", "https://auth.test/register", {}, body)
    assert (reply.status, error(reply)) == (400, "invalid_client_metadata")


@pytest.mark.parametrize("uri", ["https://app.test/callback", "http://localhost/x", "http://[::1]/x", "test.app:/x"])
def test_redirects_of_a_native_application(uri: str) -> None:
    assert Flow(AuthServer()).register(redirect_uris=[uri]).status == 201


def test_registration_can_be_wrong() -> None:
    flow = Flow(AuthServer(misbehaviour=Misbehaviour(refuse_registration="invalid_client_metadata")))
    assert error(flow.register()) == "invalid_client_metadata"
    flow.auth.misbehaviour = Misbehaviour(web_by_default=True)
    assert error(flow.register(application_type=None)) == "invalid_redirect_uri"
    assert flow.register().status == 201
    flow.auth.misbehaviour = Misbehaviour(forced_method="client_secret_post")
    assert flow.register().json["token_endpoint_auth_method"] == "client_secret_post"
    flow.auth.misbehaviour = Misbehaviour(forced_method="client_secret_post", silent_method=True)
    silent = flow.register().json
    assert "token_endpoint_auth_method" not in silent and silent["client_secret"]


def test_nobody_registers_where_that_is_off() -> None:
    assert Flow(AuthServer(registration=False)).register().status == 404


# At the token endpoint


@pytest.fixture
def flow() -> Flow:
    auth = AuthServer(clock=Time())
    auth.add_client("basic", "s e:cret%")
    auth.add_client("post", "secret", method="client_secret_post")
    auth.add_client("public")
    auth.add_client("signs", jwks=JWKS)
    return Flow(auth)


def ask(flow: Flow, headers: dict[str, str] | None = None, **parameters: Any) -> tuple[int, str]:
    """Status and error code, for a code that does not exist: "invalid_grant" is for a client that is known."""
    asked = {"grant_type": "authorization_code", "code": "x", **parameters}
    reply = flow.post("token", headers, **asked)
    return reply.status, error(reply)


KNOWN = (400, "invalid_grant")
UNKNOWN = (401, "invalid_client")


def test_basic(flow: Flow) -> None:
    assert ask(flow, basic("basic", "s+e%3Acret%25")) == KNOWN
    assert ask(flow, basic("basic", "wrong")) == UNKNOWN
    assert ask(flow, basic("nobody", "s+e%3Acret%25")) == UNKNOWN
    assert ask(flow, {"authorization": "Basic !"}) == UNKNOWN
    assert ask(flow, {"authorization": "Basic YQ=="}) == UNKNOWN
    reply = flow.post("token", basic("basic", "wrong"), grant_type="authorization_code")
    assert reply.headers["www-authenticate"].startswith("Basic")


def test_post(flow: Flow) -> None:
    assert ask(flow, client_id="post", client_secret="secret") == KNOWN
    assert ask(flow, client_id="post", client_secret="wrong") == UNKNOWN
    assert ask(flow, client_secret="secret") == (400, "invalid_request")


def test_none(flow: Flow) -> None:
    assert ask(flow, client_id="public") == KNOWN
    assert ask(flow, client_id="nobody") == UNKNOWN
    assert ask(flow) == (400, "invalid_request")


def test_only_the_method_that_was_registered_counts(flow: Flow) -> None:
    assert ask(flow, client_id="basic", client_secret="s e:cret%") == UNKNOWN
    assert ask(flow, basic("post", "secret")) == UNKNOWN
    assert ask(flow, client_id="post") == UNKNOWN
    assert ask(flow, client_id="signs") == UNKNOWN


def test_two_methods_at_once_are_refused(flow: Flow) -> None:
    found = ask(flow, basic("basic", "s+e%3Acret%25"), client_id="basic", client_secret="s e:cret%")
    assert found == (400, "invalid_request")


def assertion(flow: Flow, key: ECKey = KEY, **claims: Any) -> dict[str, str]:
    """The parameters of a client that signs."""
    now = int(flow.auth.now())
    content = {"iss": "signs", "sub": "signs", "aud": "https://auth.test", "jti": "1", "exp": now + 60, **claims}
    text = signed(key, {name: value for name, value in content.items() if value is not None})
    return {"client_assertion": text, "client_assertion_type": ASSERTION_TYPE}


@pytest.mark.parametrize(
    "aud", ["https://auth.test", "https://auth.test/", "https://auth.test/token", ["https://auth.test"]]
)
def test_private_key_jwt(flow: Flow, aud: Any) -> None:
    assert ask(flow, **assertion(flow, aud=aud)) == KNOWN
    assert ask(flow, client_id="signs", **assertion(flow, aud=aud, jti="2")) == KNOWN


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.test"},
        {"aud": None},
        {"iss": "public"},
        {"sub": "public"},
        {"exp": 1},
        {"exp": None},
        {"nbf": 2_000_000_000},
        {"jti": None},
    ],
)
def test_an_assertion_that_is_wrong(flow: Flow, claims: dict[str, Any]) -> None:
    assert ask(flow, **assertion(flow, **claims)) == UNKNOWN


def test_an_assertion_of_another_key_of_another_type_or_of_no_form(flow: Flow) -> None:
    assert ask(flow, **assertion(flow, ECKey.generate_key("P-256"))) == UNKNOWN
    assert ask(flow, **{**assertion(flow), "client_assertion_type": "jwt"}) == UNKNOWN
    for text in ("x", "a.b.c", "e30.W10.x"):
        assert ask(flow, **{**assertion(flow), "client_assertion": text}) == UNKNOWN


def test_an_assertion_counts_once(flow: Flow) -> None:
    same = assertion(flow)
    assert ask(flow, **same) == KNOWN
    assert ask(flow, **same) == UNKNOWN


def test_a_client_that_is_forgotten_is_unknown(flow: Flow) -> None:
    flow.auth.clients.forget()
    assert ask(flow, client_id="public") == UNKNOWN
    assert len(flow.auth.clients) == 0


def test_a_secret_is_in_no_repr() -> None:
    assert "hush" not in repr(RegisteredClient("app", "hush"))
