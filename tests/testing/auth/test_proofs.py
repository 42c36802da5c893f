"""DPoP at the token endpoint."""

from typing import Any

import pytest
from joserfc.jwk import ECKey

from backchannel.testing import AuthServer, Misbehaviour
from tests.testing.auth.flow import Flow, Time, claims, error, signed

KEY, OTHER = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
TOKEN = "https://auth.test/token"


@pytest.fixture
def flow() -> Flow:
    auth = AuthServer(clock=Time())
    auth.add_client("app")
    return Flow(auth)


def proof(key: ECKey = KEY, header: dict[str, Any] | None = None, **changed: Any) -> dict[str, str]:
    content = {"htm": "POST", "htu": TOKEN, "iat": 1_800_000_000, "jti": "1", **changed}
    jwk = key.as_dict(private=False)
    fixed = {"typ": "dpop+jwt", "jwk": jwk}
    kept = {name: value for name, value in content.items() if value is not None}
    return {"dpop": signed(key, kept, **{**fixed, **(header or {})})}


def test_a_proof_binds_the_token_to_its_key(flow: Flow) -> None:
    answer = flow.exchange(flow.authorize()["code"], proof()).json
    assert answer["token_type"] == "DPoP"
    assert claims(answer["access_token"])["cnf"] == {"jkt": KEY.thumbprint()}


@pytest.mark.parametrize(
    "wrong",
    [
        proof(htm="GET"),
        proof(htu="https://auth.test/other"),
        proof(iat=1_700_000_000),
        proof(iat=1_900_000_000),
        proof(iat=None),
        proof(jti=None),
        proof(header={"typ": "JWT"}),
        proof(header={"jwk": OTHER.as_dict(private=False)}),
        proof(header={"jwk": KEY.as_dict(private=True)}),
        {"dpop": "x"},
        {"dpop": "e30.e30.x"},
    ],
)
def test_a_proof_that_is_wrong(flow: Flow, wrong: dict[str, str]) -> None:
    assert error(flow.exchange(flow.authorize()["code"], wrong)) == "invalid_dpop_proof"


def test_a_proof_counts_once(flow: Flow) -> None:
    assert flow.exchange(flow.authorize()["code"], proof()).status == 200
    assert error(flow.exchange(flow.authorize()["code"], proof())) == "invalid_dpop_proof"


def test_the_query_is_no_part_of_what_a_proof_is_for(flow: Flow) -> None:
    assert flow.exchange(flow.authorize()["code"], proof(htu=f"{TOKEN}?a=b")).status == 200


def test_a_code_and_a_refresh_token_may_be_bound_too(flow: Flow) -> None:
    jkt = KEY.thumbprint()
    assert error(flow.exchange(flow.authorize(dpop_jkt=jkt)["code"], proof(OTHER))) == "invalid_dpop_proof"
    answer = flow.exchange(flow.authorize(dpop_jkt=jkt)["code"], proof(jti="2")).json
    assert error(flow.refresh(answer["refresh_token"])) == "invalid_grant"
    flow.headers = proof(OTHER, jti="3")
    assert error(flow.refresh(answer["refresh_token"])) == "invalid_grant"
    flow.headers = proof(jti="4")
    assert flow.refresh(answer["refresh_token"]).json["token_type"] == "DPoP"


def test_it_can_be_required(flow: Flow) -> None:
    flow.auth.dpop_required = True
    assert error(flow.exchange(flow.authorize()["code"])) == "invalid_dpop_proof"
    assert flow.exchange(flow.authorize()["code"], proof()).status == 200


def test_nonces(flow: Flow) -> None:
    flow.auth.proofs.nonces = True
    code = flow.authorize()["code"]
    refused = flow.exchange(code, proof())
    assert (refused.status, error(refused)) == (400, "use_dpop_nonce")
    nonce = refused.headers["dpop-nonce"]
    assert error(flow.exchange(code, proof(jti="2", nonce="guessed"))) == "use_dpop_nonce"
    answer = flow.exchange(code, proof(jti="3", nonce=nonce))
    assert answer.status == 200 and answer.headers["dpop-nonce"] == flow.auth.proofs.nonce


def test_an_old_nonce_ends(flow: Flow) -> None:
    flow.auth.proofs.nonces = True
    old = flow.auth.proofs.nonce
    flow.auth.proofs.renew()
    assert flow.exchange(flow.authorize()["code"], proof(nonce=old)).status == 200
    flow.auth.proofs.renew()
    assert error(flow.exchange(flow.authorize()["code"], proof(jti="2", nonce=old))) == "use_dpop_nonce"


def test_nonces_can_be_endless(flow: Flow) -> None:
    flow.auth.proofs.nonces = True
    flow.auth.misbehaviour = Misbehaviour(endless_nonces=True)
    reply = flow.exchange(flow.authorize()["code"], proof(nonce=flow.auth.proofs.nonce))
    assert error(reply) == "use_dpop_nonce"
