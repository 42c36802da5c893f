"""Proofs of possession: what is in them, and the nonces that servers want."""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
from joserfc import jwt
from joserfc.jwk import import_key

from backchannel.client.auth.dpop import KEY, Prover, stored_prover
from backchannel.client.auth.private_key import PrivateKey
from backchannel.client.auth.registration import Method, Registration
from backchannel.client.auth.signing import SigningKey
from backchannel.client.auth.steps import Fetch, Fetched, Flow, Load, Now, Random, Save, Token
from backchannel.client.auth.token_request import request_token
from backchannel.errors import LoginFailed

SERVER = "https://s.test/mcp"
TOKENS = "https://as.test/token"


@pytest.fixture
def prover() -> Prover:
    return Prover(SigningKey.generate())


def read(proof: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a proof whose signature verifies with the key in it."""
    header = json.loads(base64.urlsafe_b64decode(proof.split(".")[0] + "=="))
    token = jwt.decode(proof, import_key(header["jwk"]), algorithms=["ES256"])
    return token.header, token.claims


def claims(proof: str) -> dict[str, Any]:
    return read(proof)[1]


def test_a_proof_is_of_one_request(prover: Prover) -> None:
    header, claims = read(prover.proof("POST", "https://as.test/token?a=1#f", 1000.9, b"\xab"))
    assert header == {"typ": "dpop+jwt", "alg": "ES256", "jwk": prover.key.public}
    assert "d" not in header["jwk"]
    assert claims == {"jti": "ab", "htm": "POST", "htu": "https://as.test/token", "iat": 1000}


def test_a_proof_with_a_token_has_its_digest(prover: Prover) -> None:
    headers = prover.headers("GET", SERVER, 1000, b"\xab", "secret")
    assert headers["authorization"] == "DPoP secret"
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"secret").digest()).decode().rstrip("=")
    assert claims(headers["dpop"])["ath"] == digest


def test_a_url_without_a_path_is_proven_as_the_server_sees_it(prover: Prover) -> None:
    assert claims(prover.proof("POST", "https://s.test", 0, b""))["htu"] == "https://s.test/"


def test_nonces_are_kept_for_each_server_and_role(prover: Prover) -> None:
    assert prover.learn("https://both.test/mcp", {"dpop-nonce": "r"}, resource=True)
    assert prover.learn("https://BOTH.test/token", {"dpop-nonce": "t"}, resource=False)
    assert claims(prover.proof("POST", "https://both.test/other", 0, b"", "token"))["nonce"] == "r"
    assert claims(prover.proof("POST", "https://both.test/token", 0, b""))["nonce"] == "t"
    assert "nonce" not in claims(prover.proof("POST", SERVER, 0, b"", "token"))


def test_the_last_nonce_counts(prover: Prover) -> None:
    for nonce in ("a", "b"):
        assert prover.learn(SERVER, {"dpop-nonce": nonce}, resource=True)
    assert not prover.learn(SERVER, {}, resource=True)
    assert not prover.learn(SERVER, {"dpop-nonce": "x" * 1001}, resource=True)
    assert claims(prover.proof("POST", SERVER, 0, b"", "token"))["nonce"] == "b"


class World:
    """Answers the steps of a flow: counts up where randomness is wanted, and stores in a dict."""

    def __init__(self, responses: list[Fetched], stored: dict[str, bytes] | None = None):
        self.sent: list[Fetch] = []
        self.stored = stored if stored is not None else {}
        self._responses = iter(responses)
        self._random: Iterator[int] = iter(range(256))

    def run(self, flow: Flow[Any]) -> Any:
        answer: Any = None
        try:
            while True:
                answer = self.answer(flow.send(answer))
        except StopIteration as end:
            return end.value

    def answer(self, step: Any) -> Any:
        match step:
            case Fetch():
                self.sent.append(step)
                return next(self._responses)
            case Load(key):
                return self.stored.get(key)
            case Save(key, value) if value is not None:
                self.stored[key] = value
                return None
            case Now():
                return 1000.0
            case Random(n):
                return bytes([next(self._random)]) * n
        raise AssertionError(step)


def refused(error: str, **headers: str) -> Fetched:
    return Fetched(400, headers, json.dumps({"error": error}).encode(), TOKENS)


NONCE = {"dpop-nonce": "n1"}
GIVEN = Fetched(200, {"dpop-nonce": "n2"}, b'{"access_token": "t", "token_type": "dpop"}', TOKENS)
REQUEST = Fetch("POST", TOKENS, {"content-type": "x"}, b"grant_type=x")


def ask(world: World, prover: Prover, key: PrivateKey | None = None) -> Token:
    method: Method = "private_key_jwt" if key else "none"
    client = Registration(issuer="https://as.test", client_id="me", method=method)
    flow = request_token(TOKENS, client, {"grant_type": "x"}, key=key, send=prover.send)
    token: Token = world.run(flow)
    return token


def test_a_token_request_has_a_proof(prover: Prover) -> None:
    world = World([GIVEN])
    assert world.run(prover.send(REQUEST)) == GIVEN
    (sent,) = world.sent
    assert (sent.method, sent.url, sent.body, sent.headers["content-type"]) == ("POST", TOKENS, b"grant_type=x", "x")
    assert claims(sent.headers["dpop"])["htu"] == TOKENS


def test_a_nonce_that_is_wanted_is_sent_with_a_fresh_proof(prover: Prover) -> None:
    world = World([refused("use_dpop_nonce", **NONCE), GIVEN, GIVEN])
    assert ask(world, prover).token_type == "DPoP"
    first, second = (claims(sent.headers["dpop"]) for sent in world.sent)
    assert "nonce" not in first
    assert second["nonce"] == "n1"
    assert first["jti"] != second["jti"]
    ask(world, prover)
    assert claims(world.sent[2].headers["dpop"])["nonce"] == "n2"


def test_an_assertion_is_made_anew_too_since_it_is_for_one_use(prover: Prover) -> None:
    world = World([refused("use_dpop_nonce", **NONCE), GIVEN])
    ask(world, prover, PrivateKey(SigningKey.generate().to_json()))
    first, second = (dict(parse_qsl(sent.body.decode()))["client_assertion"] for sent in world.sent)
    assert first != second


@pytest.mark.parametrize(
    "answers",
    [
        [refused("use_dpop_nonce", **NONCE)] * 2,  # wants the same nonce for ever
        [refused("use_dpop_nonce")],  # gives none
        [refused("invalid_grant", **NONCE)],
        [Fetched(400, NONCE, b"no JSON", TOKENS)],
    ],
)
def test_it_is_sent_again_once_at_most(prover: Prover, answers: list[Fetched]) -> None:
    world = World(answers)
    with pytest.raises(LoginFailed):
        ask(world, prover)
    assert len(world.sent) == len(answers)


@pytest.mark.parametrize("kind", [b"", b', "token_type": "Bearer"'])
def test_a_token_that_is_not_bound_is_not_used(prover: Prover, kind: bytes) -> None:
    world = World([Fetched(200, {}, b'{"access_token": "t"' + kind + b"}", TOKENS)])
    with pytest.raises(LoginFailed, match="binds no tokens"):
        world.run(prover.send(REQUEST))


def test_the_key_is_stored_and_used_again() -> None:
    world = World([])
    first = world.run(stored_prover())
    assert world.run(stored_prover()).key.thumbprint() == first.key.thumbprint()


def test_a_stored_key_that_cannot_be_read_is_replaced() -> None:
    world = World([], {KEY: b"garbage"})
    key = world.run(stored_prover()).key
    assert SigningKey(world.stored[KEY]).thumbprint() == key.thumbprint()


def test_nothing_of_it_shows_the_key(prover: Prover) -> None:
    assert repr(prover) == "Prover()"
