"""The keys that an authorization server signs with, and tokens that nobody should accept."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, KeySet, RSAKey

Claims = dict[str, Any]
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_PUBLISHED = 3  # keys that the JWKS has, the newest first
FORGERIES = ("none", "public_key", "other_key")


class Keys:
    """A ring of keys, of which the newest signs. algorithm: "ES256", "ES384", "ES512" or "RS256".

    Raises: ConfigurationError without joserfc, and for another algorithm.
    """

    def __init__(self, algorithm: str = "ES256"):
        try:
            from joserfc import jwt
        except ImportError as error:
            raise ConfigurationError("authorization needs the extra: pip install 'backchannel[auth]'") from error
        self._jwt = jwt
        self.algorithm = algorithm
        self._ring: list[ECKey | RSAKey] = []
        self.rotate()

    def rotate(self) -> None:
        """Sign with a new key from now on. The last two stay in the JWKS."""
        self._ring.insert(0, self._new())
        del self._ring[_PUBLISHED:]

    def replace(self) -> None:
        """Sign with a new key, and forget the others: what they signed is not valid any more."""
        self._ring.clear()
        self.rotate()

    def jwks(self, stale: bool = False) -> dict[str, list[Claims]]:
        """The public keys (RFC 7517). stale: without the newest."""
        return {"keys": [key.as_dict(private=False) for key in self._ring[stale:]]}

    def sign(self, claims: Claims, kind: str = "JWT") -> str:
        """A JWT. kind: its `typ`."""
        key = self._ring[0]
        return self._jwt.encode({"alg": self.algorithm, "typ": kind, "kid": key.kid}, claims, key, [self.algorithm])

    def forge(self, claims: Claims, how: str, kind: str = "at+jwt") -> str:
        """A JWT that must not be accepted: "none" is not signed, "public_key" is signed with the public key as a
        secret, "other_key" with a key that is not in the JWKS but has the id of one that is."""
        key = self._ring[0]
        if how == "none":
            return _compact({"alg": "none", "typ": kind}, claims) + "."
        if how == "public_key":
            text = _compact({"alg": "HS256", "typ": kind, "kid": key.kid}, claims)
            return f"{text}.{_b64(hmac.digest(key.as_pem(private=False), text.encode(), hashlib.sha256))}"
        if how == "other_key":
            header = {"alg": self.algorithm, "typ": kind, "kid": key.kid}
            return self._jwt.encode(header, claims, self._new(), [self.algorithm])
        raise ConfigurationError(f"a token can be forged in these ways: {', '.join(FORGERIES)}, not {how!r}")

    def _new(self) -> ECKey | RSAKey:
        from joserfc.jwk import ECKey, RSAKey

        parameters: Any = {"kid": secrets.token_hex(4), "use": "sig", "alg": self.algorithm}
        if self.algorithm in _CURVES:
            return ECKey.generate_key(_CURVES[self.algorithm], parameters)
        if self.algorithm == "RS256":
            return RSAKey.generate_key(2048, parameters)
        raise ConfigurationError(f"{self.algorithm!r} is no algorithm to sign with: {', '.join(_CURVES)} or RS256")


def read(token: str, jwks: Claims) -> tuple[Claims, Claims]:
    """Header and claims of a JWT that one of the keys has signed. Raises: ValueError if none has."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        keys: KeySet = KeySet.import_key_set({"keys": [*jwks["keys"]]})
        decoded = jwt.decode(token, keys, [*_CURVES, "RS256"])
    except (JoseError, KeyError, TypeError) as error:
        raise ValueError(f"no valid signature: {type(error).__name__}") from None
    return decoded.header, dict(decoded.claims)


def peek(token: str) -> Claims:
    """The claims of a JWT, unverified. Raises: ValueError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("a JWT has three parts")
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    if not isinstance(claims, dict):
        raise ValueError("the claims of a JWT are an object")
    return claims


def _compact(header: Claims, claims: Claims) -> str:
    return f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(claims).encode())}"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
