"""Assertions by which a client shows who it is, checked as an authorization server does."""

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey

from backchannel.client.auth.private_key import ASSERTION_TYPE, PrivateKey

EC = ec.generate_private_key(ec.SECP256R1())
PEM = EC.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_an_assertion_names_client_and_server_and_is_short_lived() -> None:
    parameters = PrivateKey(PEM, key_id="k1").assertion("me", "https://as.test", 1000.9, b"\x01\x02")
    assert parameters["client_assertion_type"] == ASSERTION_TYPE
    token = jwt.decode(parameters["client_assertion"], ECKey.import_key(EC.public_key()), algorithms=["ES256"])
    assert token.header == {"alg": "ES256", "typ": "JWT", "kid": "k1"}
    assert token.claims == {
        "iss": "me",
        "sub": "me",
        "aud": "https://as.test",
        "iat": 1000,
        "exp": 1060,
        "jti": "0102",
    }


def test_it_shows_its_algorithm_only() -> None:
    assert repr(PrivateKey(PEM)) == "PrivateKey(ES256)"
