"""Keys that sign: what is read, what is refused, and what is never shown."""

import json
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey, import_key

from backchannel.client.auth.signing import SigningKey
from backchannel.errors import ConfigurationError

EC = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("given", "algorithm", "used"),
    [
        (pem(EC), None, "ES256"),
        (pem(EC).encode(), "ES256", "ES256"),
        (pem(RSA), None, "RS256"),
        (pem(RSA), "PS256", "PS256"),
        (ECKey.import_key(pem(EC)).as_dict(private=True), None, "ES256"),
        (json.dumps(RSAKey.import_key(pem(RSA)).as_dict(private=True)), None, "RS256"),
    ],
)
def test_what_it_signs_verifies_with_its_public_key(given: str, algorithm: str | None, used: str) -> None:
    key = SigningKey(given, algorithm)
    token = jwt.decode(key.sign({"typ": "x"}, {"a": 1}), import_key(key.public), algorithms=[used])
    assert (token.header, token.claims) == ({"alg": used, "typ": "x"}, {"a": 1})


@pytest.mark.parametrize(
    ("given", "algorithm"),
    [
        ("no key", None),
        ("{", None),
        ("{}", None),
        (b"\xff\xfe", None),
        ({"kty": "EC", "crv": "P-256", "x": "secret"}, None),
        (OctKey.generate_key(256).as_dict(private=True), None),
        (ECKey.import_key(pem(EC)).as_dict(private=False), None),
        (pem(ec.generate_private_key(ec.SECP256K1())), None),
        (pem(EC), "RS256"),
        (pem(EC), "none"),
        (pem(RSA), "HS256"),
    ],
)
def test_what_cannot_sign_is_refused_without_showing_it(given: str, algorithm: str | None) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SigningKey(given, algorithm)
    text = f"{refused.value} {refused.value.__cause__}"
    assert "secret" not in text
    assert "BEGIN" not in text


def test_its_private_part_is_shown_nowhere() -> None:
    key = SigningKey(pem(EC))
    assert set(key.public) == {"kty", "crv", "x", "y"}
    assert repr(key) == "SigningKey(ES256)"


def test_a_stored_key_is_the_same_key() -> None:
    key = SigningKey.generate()
    assert SigningKey(key.to_json()).thumbprint() == key.thumbprint()


def test_the_key_id_comes_from_the_jwk_or_is_given() -> None:
    jwk = {**ECKey.import_key(pem(EC)).as_dict(private=True), "kid": "one"}
    assert SigningKey(jwk).key_id == "one"
    assert SigningKey(jwk, key_id="two").key_id == "two"
    assert "kid" not in SigningKey(jwk).public


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'backchannel\[auth\]'"):
        SigningKey.generate()
