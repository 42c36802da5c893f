"""Tokens that are signed: which are good."""

import base64
import hmac
import json
from typing import Any

import pytest

from backchannel import Principal
from backchannel.server.auth.refusal import Denied
from tests.server.auth.issuing import (
    ISSUER,
    JWKS,
    METADATA,
    NOW,
    RESOURCE,
    AuthorizationServer,
    challenges,
    key,
    request,
    sign,
)

pytestmark = pytest.mark.anyio


async def outcome(there: AuthorizationServer, token: str, **options: Any) -> str:
    """ "ada", or why the token was refused."""
    answer = await there.auth(**options).admit(*request(token))
    if isinstance(answer, Denied):
        assert answer.status == 401
        return challenges(answer.headers)[0].partition('error_description="')[2].partition('"')[0]
    return answer.subject


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, "ada"),
        ({"sub": None}, "app"),
        ({"sub": None, "client_id": None, "azp": "other"}, "other"),
        ({"sub": None, "client_id": None}, "The token does not say whose it is"),
        ({"sub": 7}, "The token does not say whose it is"),
        ({"iss": "https://evil.test"}, "The token is of another issuer"),
        ({"iss": None}, "The token is of another issuer"),
        ({"iss": f"{ISSUER}/"}, "ada"),
        ({"iss": f"{ISSUER}/tenant"}, "The token is of another issuer"),
        ({"aud": "https://other.test/mcp"}, "The token is not for this server"),
        ({"aud": None}, "The token is not for this server"),
        ({"aud": []}, "The token is not for this server"),
        ({"aud": {"a": RESOURCE}}, "The token is not for this server"),
        ({"aud": ["https://other.test", RESOURCE]}, "ada"),
        ({"aud": f"{RESOURCE}/"}, "ada"),
        ({"aud": "HTTPS://MCP.test:443/mcp"}, "ada"),
        ({"aud": "https://mcp.test/MCP"}, "The token is not for this server"),
        ({"aud": "https://mcp.test"}, "The token is not for this server"),
        ({"aud": "https://mcp.test/mcp2"}, "The token is not for this server"),
        ({"aud": f"{RESOURCE}?tenant=b"}, "The token is not for this server"),
        ({"aud": f"{RESOURCE}#b"}, "The token is not for this server"),
        ({"exp": None}, "The token does not say when it expires"),
        ({"exp": "soon"}, "The token has a time that is none"),
        ({"exp": True}, "The token has a time that is none"),
        ({"exp": NOW - 29}, "ada"),
        ({"exp": NOW - 30}, "The token is expired"),
        ({"exp": 10**400}, "ada"),
        ({"nbf": NOW + 30}, "ada"),
        ({"nbf": NOW + 31}, "The token is not valid yet"),
        ({"nbf": "now"}, "The token has a time that is none"),
    ],
)
async def test_claims(claims: dict[str, Any], expected: str) -> None:
    there = AuthorizationServer()
    assert await outcome(there, there.token(**claims)) == expected


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scope": None, "scp": "a b"}, {"a", "b"}),
        ({"scope": None, "scp": ["a", "b", 3]}, {"a", "b"}),
        ({"scope": 5}, set()),
        ({"scope": None}, set()),
    ],
)
async def test_scopes(claims: dict[str, Any], scopes: set[str]) -> None:
    there = AuthorizationServer()
    principal = await there.auth().admit(*request(there.token(**claims)))
    assert isinstance(principal, Principal) and principal.scopes == scopes


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"typ": "at+jwt"}, "ada"),
        ({"typ": "application/at+JWT"}, "ada"),
        ({"typ": "JWT"}, "ada"),
        ({"typ": None}, "ada"),
        ({"typ": "dpop+jwt"}, "The token is no access token"),
        ({"typ": "logout+jwt"}, "The token is no access token"),
        ({"typ": "oauth-id-jag+jwt"}, "The token is no access token"),
        ({"crit": ["exp"], "exp": 1}, "The token is malformed"),
        ({"crit": ["b64"], "b64": True}, "The token is malformed"),
        ({"crit": None}, "The token is malformed"),
        ({"kid": None}, "ada"),
        ({"kid": "two"}, "The token is signed with an unknown key"),
        ({"jku": "https://evil.test/keys", "x5u": "https://evil.test/x"}, "ada"),
    ],
)
async def test_headers(header: dict[str, Any], expected: str) -> None:
    there = AuthorizationServer()
    token = there.token(header=header) if "crit" not in header else with_header(there.token(), header)
    assert await outcome(there, token) == expected
    assert not [asked for asked in there.asked if "evil" in asked]


def with_header(token: str, changes: dict[str, Any]) -> str:
    """A token with another header. Its signature is that of before."""
    first, rest = token.split(".", 1)
    header = {**json.loads(base64.urlsafe_b64decode(first + "==")), **changes}
    return f"{base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b'=').decode()}.{rest}"


async def test_another_key_than_the_one_it_names() -> None:
    there = AuthorizationServer()
    assert await outcome(there, there.token("two", {"kid": "one"})) == "The signature of the token is wrong"


async def test_what_is_changed_after_it_was_signed() -> None:
    there = AuthorizationServer()
    first, payload, signature = there.token().split(".")
    _, other, _ = there.token(sub="eve").split(".")
    assert await outcome(there, f"{first}.{other}.{signature}") == "The signature of the token is wrong"
    for changed in (f"{first}.{payload}.", f"{first}.{payload}.{signature[:-4]}", f"{first}.{payload}.{'A' * 86}"):
        assert await outcome(there, changed) == "The signature of the token is wrong"


@pytest.mark.parametrize("token", ["x", "a.b.c", "....", "e30.e30.e30", "W10.W10.W10", "bnVsbA.e30."])
async def test_what_is_no_token(token: str) -> None:
    assert await outcome(AuthorizationServer(), token) == "The token is malformed"


async def test_a_token_of_any_length_is_not_read() -> None:
    there = AuthorizationServer()
    assert await outcome(there, there.token(x="y" * 8000)) == "ada"
    assert await outcome(there, there.token(x="y" * 16384)) == "The token is malformed"


async def test_deep_nesting_is_malformed() -> None:
    deep = base64.urlsafe_b64encode(b'{"alg":"ES256","x":' + b"[" * 5000).rstrip(b"=").decode()
    assert await outcome(AuthorizationServer(), f"{deep}.e30.AA") == "The token is malformed"


async def test_none_and_shared_secrets_are_no_signatures() -> None:
    there = AuthorizationServer()
    first, payload, _ = there.token().split(".")
    for alg in ("none", "None", "NONE", "HS256"):
        unsigned = with_header(f"{first}.{payload}.", {"alg": alg})
        assert await outcome(there, unsigned) == "The token is signed in a way that is not accepted"
    unsigned = with_header(f"{first}.{payload}", {"alg": "HS256"})
    secret = key("one").as_pem(private=False)  # what everybody knows
    signature = base64.urlsafe_b64encode(hmac.digest(secret, unsigned.encode(), "sha256")).rstrip(b"=").decode()
    assert await outcome(there, f"{unsigned}.{signature}") == "The token is signed in a way that is not accepted"


@pytest.mark.parametrize(
    ("alg", "kind"),
    [("RS256", "RSA"), ("PS256", "RSA"), ("ES256", "EC"), ("ES384", "EC384"), ("Ed25519", "OKP")],
)
async def test_algorithms_are_pinned(alg: str, kind: str) -> None:
    there = AuthorizationServer()
    there.documents[JWKS] = {"keys": [key("one", kind).as_dict(private=False)]}
    token = sign(there.claims(), key("one", kind), alg=alg)
    assert await outcome(there, token) == "ada"
    assert await outcome(there, token, algorithms=[alg]) == "ada"
    assert await outcome(there, token, algorithms=["ES512"]) == "The token is signed in a way that is not accepted"


async def test_a_key_is_only_for_what_it_says() -> None:
    there = AuthorizationServer()
    public = key("one", "RSA").as_dict(private=False)
    token = sign(there.claims(), key("one", "RSA"), alg="PS256")
    unknown = "The token is signed with an unknown key"
    for more, expected in (
        ({}, "ada"),
        ({"alg": "PS256", "use": "sig"}, "ada"),
        ({"alg": "RS256"}, unknown),
        ({"use": "enc"}, unknown),
        ({"kty": "EC"}, unknown),
    ):
        there.documents[JWKS] = {"keys": [{**public, **more}]}
        assert await outcome(there, token) == expected, more
    there.documents[JWKS] = {"keys": [key("one", "EC384").as_dict(private=False)]}
    assert await outcome(there, there.token()) == unknown


async def test_several_issuers_have_their_own_keys() -> None:
    there = AuthorizationServer()
    other = "https://b.test/tenant"
    there.documents["https://b.test/.well-known/oauth-authorization-server/tenant"] = {
        "issuer": other,
        "jwks_uri": "https://b.test/keys",
    }
    there.documents["https://b.test/keys"] = {"keys": [key("two").as_dict(private=False)]}
    auth = there.auth(issuer=[ISSUER, other])
    mine = await auth.admit(*request(there.token()))
    theirs = await auth.admit(*request(there.token("two", iss=other)))
    assert isinstance(mine, Principal) and isinstance(theirs, Principal)
    assert (mine.issuer, theirs.issuer) == (ISSUER, other) and mine.key != theirs.key
    crossed = await auth.admit(*request(there.token("two")))
    assert isinstance(crossed, Denied)


async def test_a_good_token_is_remembered_until_it_ends_and_for_a_minute_at_most() -> None:
    there = AuthorizationServer()
    auth = there.auth(leeway=0.0)
    long, short = there.token(), there.token(exp=NOW + 20)
    for token in (long, short, long, short):
        assert isinstance(await auth.admit(*request(token)), Principal)
    assert there.asked == [f"GET {METADATA}", f"GET {JWKS}"]
    there.clock.now += 20
    assert isinstance(await auth.admit(*request(short)), Denied)
    there.publish("two")
    there.clock.now = NOW + 601  # the keys are old by now, and so is what was remembered
    assert isinstance(await auth.admit(*request(there.token("two"))), Principal)
    assert isinstance(await auth.admit(*request(there.token("one"))), Denied)


async def test_an_audience_that_has_a_query_is_that_one_and_no_other() -> None:
    there = AuthorizationServer()
    auth = there.auth(audience=f"{RESOURCE}?tenant=a")
    for tenant, kind in (("a", Principal), ("b", Denied)):
        assert isinstance(await auth.admit(*request(there.token(aud=f"{RESOURCE}?tenant={tenant}"))), kind)
