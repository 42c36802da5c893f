"""Signed tokens as they are read here: the compact form, and public keys only (RFC 7515, RFC 7517, RFC 7519)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import msgspec

from ...errors import ConfigurationError
from ..options import listed

FAMILIES: dict[str, tuple[str, str | None]] = {
    **{f"{kind}{size}": ("RSA", None) for kind in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The key type and curve of each algorithm. There is no "none", and no HS*, whose key both sides know."""
ALGORITHMS = tuple(name for name in FAMILIES if name != "EdDSA")  # which RFC 9864 has replaced
_PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
_SHORTEST_N = 342  # characters of the modulus of an RSA key of 2048 bits
_LONGEST_HEADER = 8192  # bytes


class NoJwt(ValueError):
    """A text is no signed token of the compact form."""


class _Header(msgspec.Struct, frozen=True):
    alg: str
    typ: str = "jwt"
    kid: str | None = None
    jwk: dict[str, Any] | None = None
    crit: Any = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Jwt:
    """A token that is read, and not verified. typ: in lower case.  jwk: the key that it brings itself."""

    text: str = field(repr=False)
    alg: str
    typ: str
    kid: str | None
    jwk: dict[str, Any] | None = field(repr=False)
    claims: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Jwt:
        """Raises: NoJwt, also for one whose header has what has to be understood: nothing of that kind is."""
        try:
            first, payload, _ = text.split(".")
            header = msgspec.json.decode(_decode(first), type=_Header)
            claims = msgspec.json.decode(_decode(payload), type=dict[str, Any])
        except (ValueError, RecursionError) as error:
            raise NoJwt("it is no signed token") from error
        if header.crit is not msgspec.UNSET:
            raise NoJwt("it has critical headers")
        typ = header.typ.lower().removeprefix("application/")
        return cls(text, header.alg, typ, header.kid, header.jwk, claims)

    def verified_by(self, key: Any) -> bool:
        """Whether this key, of `import_key`, has signed it."""
        from joserfc.errors import JoseError
        from joserfc.jws import deserialize_compact

        try:
            deserialize_compact(self.text, key, registry=_registry(self.alg))
        except (JoseError, ValueError):
            return False
        return True


def fits(jwk: Mapping[str, Any], algorithm: str) -> bool:
    """Whether a key is for this algorithm."""
    kind, curve = FAMILIES[algorithm]
    if jwk.get("kty") != kind or (curve is not None and jwk.get("crv") != curve):
        return False
    return jwk.get("alg") in (None, algorithm) and jwk.get("use") in (None, "sig")


def import_key(jwk: Mapping[str, Any]) -> Any:
    """The public key of a JWK; None for what is none that can be used."""
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    if jwk.get("kty") == "RSA" and len(str(jwk.get("n", ""))) < _SHORTEST_N:
        return None
    try:
        return JWKRegistry.import_key({name: value for name, value in jwk.items() if name not in _PRIVATE})
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def is_public(jwk: Mapping[str, Any]) -> bool:
    """Whether a JWK tells no secret."""
    return not _PRIVATE & jwk.keys()


def check_algorithms(given: Iterable[str]) -> tuple[str, ...]:
    """The algorithms, all of them asymmetric. Raises: ConfigurationError, also where joserfc is not installed."""
    algorithms = listed("algorithms", given)
    if not algorithms or (unknown := [name for name in algorithms if name not in FAMILIES]):
        names = ", ".join(map(repr, unknown)) if algorithms else "none at all"
        raise ConfigurationError(f"algorithms are of {', '.join(FAMILIES)}; not {names}")
    if find_spec("joserfc") is None:
        raise ConfigurationError("signed tokens need the extra: pip install 'backchannel[auth]'")
    return tuple(algorithms)


def encode_base64(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(segment: str) -> bytes:
    try:
        return base64.b64decode(segment + "=" * (-len(segment) % 4), b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("it is not in Base64") from error


@cache
def _registry(algorithm: str) -> Any:
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = _LONGEST_HEADER
    return registry
