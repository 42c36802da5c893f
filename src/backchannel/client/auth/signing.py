"""A key that signs for a client: its assertions, and its proofs of possession. The extra `auth` brings joserfc, which
does the signing; it is imported when the first key is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import ConfigurationError

ES256 = "ES256"
_FITTING = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
}
"""Curve of a key, or its type -> the algorithms that it can sign with, the usual one first."""
_KINDS = "a signing key is an unencrypted private key, RSA or EC (P-256, P-384, P-521), as a PEM or a JWK"


class SigningKey:
    """A private key, of which only `public` is ever shown.

    key: a text with a PEM (PKCS #8 or the older forms), or a JWK as a dict or JSON text.  algorithm: of its signatures;
    default the usual one for such a key.  key_id: the `kid` by which the other side finds it; default that of the JWK.

    Raises: ConfigurationError for what is no private key, or does not fit the algorithm, and without joserfc.
    """

    def __init__(self, key: str | bytes | Mapping[str, Any], algorithm: str | None = None, key_id: str | None = None):
        self._key = _read(key)
        fitting = _FITTING.get(getattr(self._key, "curve_name", self._key.key_type), ())
        self.algorithm = algorithm or next(iter(fitting), "this curve")
        self.key_id = key_id or self._key.get("kid")
        if self.algorithm not in fitting:
            raise ConfigurationError(f"this key does not sign with {self.algorithm}: {', '.join(fitting) or _KINDS}")
        private = {"kid", "alg", "use", "key_ops"}
        self.public = {name: part for name, part in self._key.as_dict(private=False).items() if name not in private}

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key for ES256. Raises: ConfigurationError without joserfc."""
        return cls(_jwk().ECKey.generate_key("P-256").as_dict(private=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.algorithm})"

    def to_json(self) -> bytes:
        """The private key as a JWK, for a store."""
        return json.dumps(self._key.as_dict(private=True)).encode()

    def thumbprint(self) -> str:
        """What a token that is bound to this key has as its `jkt` (RFC 7638)."""
        return str(self._key.thumbprint())

    def sign(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
        """A JWT in compact form, with `alg` added to its header."""
        from joserfc import jwt

        full = {"alg": self.algorithm, **header}
        return str(jwt.encode(full, dict(claims), self._key, algorithms=[self.algorithm]))


def _read(given: str | bytes | Mapping[str, Any]) -> Any:
    """The key. The library's own texts may repeat what was given, so they are not shown."""
    jwk = _jwk()
    value: Any = given
    if isinstance(given, str | bytes) and given.lstrip()[:1] in ("{", b"{"):
        value = _object(given)
    kinds = [jwk.ECKey, jwk.RSAKey]
    if isinstance(value, Mapping):
        value, kinds = dict(value), [kind for kind in kinds if kind.key_type == value.get("kty")]
    for kind in kinds:
        try:
            key = kind.import_key(value)
            if key.is_private:
                return key
        except (ValueError, TypeError, KeyError, _errors()):
            continue
    raise ConfigurationError(_KINDS)


def _object(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _jwk() -> Any:
    try:
        from joserfc import jwk
    except ImportError:
        raise ConfigurationError("signing needs the extra 'auth': pip install 'backchannel[auth]'") from None
    return jwk


def _errors() -> type[Exception]:
    from joserfc.errors import JoseError

    return JoseError
