"""Whatever a client sends, it is let in or refused, and nothing breaks."""

from __future__ import annotations

import base64
import json
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jws import JWSRegistry, serialize_compact

from backchannel import DPoP, Principal
from backchannel.protocol.http import Headers
from backchannel.server.auth.refusal import Denied
from tests.server.auth.issuing import NOW, AuthorizationServer, key, proof, request

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("iss", "aud", "sub", "client_id", "scope", "scp", "exp", "nbf", "cnf", "azp")
ADA = key("ada")


def admit(there: AuthorizationServer, scope: dict[str, Any], headers: Headers) -> Principal | Denied:
    async def run() -> Principal | Denied:
        return await there.auth(dpop=DPoP()).admit(scope, headers)

    return anyio.run(run)


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=60))
def test_any_header(value: str) -> None:
    scope, _ = request()
    headers = Headers([(b"host", b"mcp.test"), (b"authorization", value.encode("latin-1"))])
    assert isinstance(admit(AuthorizationServer(), scope, headers), Denied)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["alg", "typ", "kid", "crit", "jwk", "b64", "x5c"]), JSON), JSON)
def test_any_token_that_nobody_has_signed(header: dict[str, Any], claims: Any) -> None:
    token = f"{segment({'alg': 'ES256', **header})}.{segment(claims)}.{'A' * 86}"
    assert isinstance(admit(AuthorizationServer(), *request(token)), Denied)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON, min_size=1))
def test_any_claims_that_are_signed(claims: dict[str, Any]) -> None:
    there = AuthorizationServer()
    answer = admit(there, *request(there.token(**claims)))
    if isinstance(answer, Principal):
        assert answer.subject and not {"iss", "aud"} & {name for name, value in claims.items() if value is not None}


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["htm", "htu", "iat", "jti", "ath", "nonce"]), JSON),
    st.dictionaries(st.sampled_from(["kty", "crv", "x", "y", "n", "e", "use", "key_ops", "alg", "kid"]), JSON),
)
def test_any_proof(claims: dict[str, Any], jwk: dict[str, Any]) -> None:
    there = AuthorizationServer()
    token = there.token(cnf={"jkt": ADA.thumbprint()})
    given_proof = proof(ADA, token, NOW, **claims)
    assert isinstance(admit(there, *request(token, scheme="DPoP", dpop=given_proof)), Principal | Denied)
    first, rest = given_proof.split(".", 1)
    header = json.loads(base64.urlsafe_b64decode(first + "=="))
    strange = f"{segment({**header, 'jwk': {**header['jwk'], **jwk}})}.{rest}"
    answer = admit(there, *request(token, scheme="DPoP", dpop=strange))
    assert isinstance(answer, Denied) or not jwk


def test_half_a_character_is_refused() -> None:
    there = AuthorizationServer()
    for text in ('{"alg":"ES256","kid":"\\ud800"}', '{"alg":"ES256","typ":"\\udfff"}'):
        head = base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
        assert isinstance(admit(there, *request(f"{head}.{segment(there.claims())}.AA")), Denied)
    token = there.token(cnf={"jkt": ADA.thumbprint()})
    first, payload, _ = proof(ADA, token, NOW).split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(one + "==")) for one in (first, payload))
    for name in ("htm", "htu", "jti", "ath", "nonce"):
        payload = json.dumps({**claims, name: "\ud800"})
        strange = serialize_compact(header, payload, ADA, registry=JWSRegistry(strict_check_header=False))
        assert isinstance(admit(there, *request(token, scheme="DPoP", dpop=strange)), Denied)
