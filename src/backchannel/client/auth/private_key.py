"""A client that shows who it is with a signed assertion: `private_key_jwt` (RFC 7523, section 2.2; OpenID Connect Core,
section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .signing import SigningKey

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_VALID = 60  # seconds: each request gets an assertion of its own
_ENTROPY = 16  # bytes of a jti


class PrivateKey:
    """The key that a client has registered with its authorization server, in place of a secret.

    key: a PEM, or a JWK as a dict or JSON text.  algorithm: such as "ES256" or "RS256"; default the usual one for the
    key.  key_id: the `kid` under which it is registered, if it has one.

    Raises: ConfigurationError for what is no private key, and without the extra `auth`.
    """

    def __init__(self, key: str | bytes | Mapping[str, Any], algorithm: str | None = None, key_id: str | None = None):
        self._key = SigningKey(key, algorithm, key_id)

    def __repr__(self) -> str:
        return f"PrivateKey({self.algorithm})"

    @property
    def algorithm(self) -> str:
        """What its signatures are made with."""
        return self._key.algorithm

    def assertion(self, client_id: str, audience: str, now: float, random: bytes) -> dict[str, str]:
        """The parameters of a token request by which the client shows who it is, for one use.

        audience: the issuer of the authorization server.  now: seconds since the epoch.  random: bytes that are used
        only once.
        """
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": int(now),
            "exp": int(now) + _VALID,
            "jti": random.hex(),
        }
        header = {"typ": "JWT"} | ({"kid": self._key.key_id} if self._key.key_id else {})
        return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": self._key.sign(header, claims)}
