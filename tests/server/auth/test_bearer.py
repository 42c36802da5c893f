"""Who is let in, and what the others are answered."""

import logging
from typing import Any

import pytest

from backchannel import ConfigurationError, Principal
from backchannel.server.auth.bearer import BearerAuth
from backchannel.server.auth.dpop import DPoP
from backchannel.server.auth.introspection import Introspection
from backchannel.server.auth.refusal import Denied
from tests.server.auth.issuing import ISSUER, RESOURCE, AuthorizationServer, challenges, request

pytestmark = pytest.mark.anyio
WHERE = 'resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp"'


async def refused(auth: BearerAuth, *given: Any) -> Denied:
    denied = await auth.admit(*given)
    assert isinstance(denied, Denied)
    return denied


async def test_a_token_says_who_sends_a_request() -> None:
    there = AuthorizationServer()
    principal = await there.auth(scopes=["read"]).admit(*request(there.token()))
    assert principal == Principal("ada", ISSUER, "app", frozenset({"read"}))
    assert isinstance(principal, Principal) and principal.claims["aud"] == RESOURCE


async def test_without_a_token_the_challenge_names_the_metadata_and_the_scopes_and_no_error() -> None:
    auth = AuthorizationServer().auth(scopes=["write", "read"])
    for given in (request(), request("x", scheme="Basic"), request("", scheme="Bearer")):
        denied = await refused(auth, *given)
        assert (denied.status, denied.error) == (401, None)
        assert challenges(denied.headers) == [f'Bearer scope="read write", {WHERE}']


async def test_a_token_in_the_query_is_none() -> None:
    there = AuthorizationServer()
    scope, headers = request()
    scope["query_string"] = f"access_token={there.token()}".encode()
    assert (await refused(there.auth(), scope, headers)).status == 401


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1}, "The token is expired"),
        ({"nbf": 1e12}, "The token is not valid yet"),
        ({"aud": "https://other.test/mcp"}, "The token is not for this server"),
        ({"iss": "https://other.test"}, "The token is of another issuer"),
        ({"sub": ""}, "The token does not say whose it is"),
    ],
)
async def test_a_bad_token_is_answered_with_the_reason(claims: dict[str, Any], why: str) -> None:
    there = AuthorizationServer()
    denied = await refused(there.auth(), *request(there.token(**claims)))
    assert denied.status == 401
    assert challenges(denied.headers) == [f'Bearer error="invalid_token", error_description="{why}", {WHERE}']


@pytest.mark.parametrize("header", ["Bearer a, Bearer b", "Bearer a,b"])
async def test_two_sets_of_credentials_are_a_bad_request(header: str) -> None:
    auth = AuthorizationServer().auth()
    denied = await refused(auth, *request(authorization=header))
    assert denied.status == 400
    assert challenges(denied.headers)[0].startswith('Bearer error="invalid_request", error_description="There is more')


async def test_a_token_with_too_few_scopes_is_answered_with_those_that_it_needs() -> None:
    there = AuthorizationServer()
    denied = await refused(there.auth(scopes=["read", "write"]), *request(there.token(scope="read")))
    assert denied.status == 403
    assert challenges(denied.headers) == [
        'Bearer error="insufficient_scope", error_description="This needs the scopes: read write", '
        f'scope="read write", {WHERE}'
    ]
    assert denied.error is not None and "read write" in denied.error.error.message


async def test_a_broader_scope_implies_narrower_ones() -> None:
    there = AuthorizationServer()
    auth = there.auth(scopes=["read"], implies={"admin": ["write"], "write": ["read", "admin"]})
    principal = await auth.admit(*request(there.token(scope="admin")))
    assert isinstance(principal, Principal) and principal.scopes == {"admin", "write", "read"}
    assert (await refused(auth, *request(there.token(scope="other")))).status == 403


async def test_where_the_authorization_server_is_down_nobody_is_to_log_in_again() -> None:
    there = AuthorizationServer()
    there.down = True
    denied = await refused(there.auth(), *request(there.token()))
    assert denied.status == 503
    assert [name for name, _ in denied.headers] == [b"retry-after"]


async def test_no_token_is_in_the_log_nor_in_what_is_said(caplog: pytest.LogCaptureFixture) -> None:
    there = AuthorizationServer()
    auth = there.auth(dpop=DPoP())
    tokens = [there.token(aud="other"), there.token(kid="two"), there.token(exp=1), "gibberish.of.mine", there.token()]
    with caplog.at_level(logging.DEBUG):
        for token in tokens:
            answer = await auth.admit(*request(token))
            assert token not in repr(answer) and token.split(".")[2] not in repr(answer)
        there.down = True
        await refused(there.auth(), *request(tokens[0]))
    written = "\n".join(record.getMessage() for record in caplog.records)
    assert "'other'" in written and RESOURCE in written  # what was wrong is for the operator
    assert [token for token in tokens if token in written or token.split(".")[2] in written] == []


async def test_a_verify_of_ones_own_has_no_metadata_without_an_issuer() -> None:
    async def verify(token: str) -> Principal | None:
        return Principal("ada") if token == "good" else None

    auth = BearerAuth(verify=verify)
    assert await auth.admit(*request("good")) == Principal("ada")
    assert challenges((await refused(auth, *request())).headers) == ["Bearer"]
    denied = await refused(auth, *request("bad"))
    assert challenges(denied.headers) == [
        'Bearer error="invalid_token", error_description="The token is not good here"'
    ]
    assert auth.metadata(*request(path="/.well-known/oauth-protected-resource/mcp", method="GET"), "/mcp") is None
    assert WHERE in challenges((await refused(BearerAuth(verify=verify, issuer=ISSUER), *request())).headers)[0]


async def test_what_a_verify_raises_goes_on() -> None:
    async def verify(token: str) -> Principal | None:
        raise ConnectionError("no keys")

    with pytest.raises(ConnectionError):
        await BearerAuth(verify=verify).admit(*request("x"))


async def a_verify(token: str) -> Principal | None:
    return None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "issuer"),
        ({"issuer": ISSUER}, "audience"),
        ({"issuer": ISSUER, "audience": []}, "audience"),
        ({"issuer": ISSUER, "audience": ""}, "audience"),
        ({"issuer": "as.test", "audience": "x"}, "issuer"),
        ({"issuer": "http://as.test", "audience": "x"}, "https"),
        ({"issuer": "https://u:p@as.test", "audience": "x"}, "issuer"),
        ({"issuer": ISSUER, "audience": "x", "jwks_uri": "http://as.test/keys"}, "https"),
        ({"issuer": [ISSUER, "https://b.test"], "audience": "x", "jwks_uri": f"{ISSUER}/keys"}, "several"),
        ({"issuer": ISSUER, "audience": "x", "algorithms": ["HS256"]}, "'HS256'"),
        ({"issuer": ISSUER, "audience": "x", "algorithms": ["none"]}, "'none'"),
        ({"issuer": ISSUER, "audience": "x", "algorithms": []}, "none at all"),
        ({"issuer": ISSUER, "audience": "x", "algorithms": "ES256"}, "list"),
        ({"issuer": ISSUER, "audience": "x", "scopes": "read write"}, "list"),
        ({"issuer": ISSUER, "audience": "x", "scopes": ["read write"]}, "without spaces"),
        ({"issuer": ISSUER, "audience": "x", "scopes": ['a"b']}, "without spaces"),
        ({"issuer": ISSUER, "audience": "x", "scopes": ["offline_access"]}, "offline_access"),
        ({"issuer": ISSUER, "resource": "mcp.test"}, "resource"),
        ({"issuer": ISSUER, "resource": f"{RESOURCE}#x"}, "resource"),
        ({"issuer": ISSUER, "audience": "x", "leeway": -1}, "leeway"),
        ({"issuer": ISSUER, "audience": "x", "dpop": True}, "dpop"),
        ({"issuer": ISSUER, "audience": "x", "introspection": {}}, "introspection"),
        ({"issuer": ISSUER, "audience": "x", "metadata": {"resource": "https://other.test"}}, "resource"),
        ({"issuer": ISSUER, "audience": "x", "metadata": {"resource_name": object()}}, "JSON"),
        ({"verify": a_verify, "audience": "x"}, "audience"),
        ({"verify": a_verify, "introspection": Introspection("a", "b")}, "introspection"),
        ({"verify": len, "issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}, "jwks_uri"),
        ({"verify": lambda: None}, "verify"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        BearerAuth(**options)


def test_without_the_extra_only_signed_tokens_do_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.auth.jose.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"backchannel\[auth\]"):
        BearerAuth(issuer=ISSUER, audience="x")
    with pytest.raises(ConfigurationError, match=r"backchannel\[auth\]"):
        DPoP()
    BearerAuth(issuer=ISSUER, audience="x", introspection=Introspection("a", "b"))
    BearerAuth(verify=a_verify)


def test_loopback_may_be_http_and_a_test_network_on_demand() -> None:
    for host in ("http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"):
        BearerAuth(issuer=host, audience="x")
    BearerAuth(issuer="http://keycloak:8080/realms/a", audience="x", insecure=True)
