"""DPoP proofs at the token endpoint: a token is bound to the key that the client has shown (RFC 9449)."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable
from typing import Any

from .keys import read
from .web import OAuthError

ALGORITHMS = ("ES256",)
_SKEW = 60.0  # seconds
_NONCES = 2  # that are valid: the newest, and the one before


class Proofs:
    """Checks proofs, each once. nonces: whether they need one that was given (RFC 9449, 8)."""

    def __init__(self, now: Callable[[], float], nonces: bool):
        self.nonces = nonces
        self._now = now
        self._seen: set[str] = set()
        self._valid: list[str] = []
        self.renew()

    @property
    def nonce(self) -> str:
        """The newest."""
        return self._valid[0]

    def renew(self) -> None:
        """A new nonce. The one before it stays valid."""
        self._valid.insert(0, secrets.token_urlsafe(12))
        del self._valid[_NONCES:]

    def check(self, proof: str, method: str, url: str, endless: bool = False) -> str:
        """The thumbprint of the key that a proof shows.

        url: of the request, without its query.  endless: no nonce is right.  Raises: OAuthError.
        """
        try:
            key, claims = _read(proof)
        except (ValueError, KeyError, TypeError) as error:
            raise OAuthError("invalid_dpop_proof", f"the proof is malformed: {error}") from None
        if claims.get("htm") != method or str(claims.get("htu", "")).partition("?")[0] != url:
            raise OAuthError("invalid_dpop_proof", "the proof is for another request")
        issued, name = claims.get("iat"), claims.get("jti")
        if not isinstance(issued, int | float) or abs(issued - self._now()) > _SKEW:
            raise OAuthError("invalid_dpop_proof", "the proof is too old, or of the future")
        if not isinstance(name, str) or not name or name in self._seen:
            raise OAuthError("invalid_dpop_proof", "the proof has no jti, or was used before")
        self._seen.add(name)
        if self.nonces and (claims.get("nonce") not in self._valid or endless):
            self.renew()
            raise OAuthError("use_dpop_nonce", "the proof needs the nonce", headers={"dpop-nonce": self.nonce})
        return str(key.thumbprint())


def _read(proof: str) -> tuple[Any, dict[str, Any]]:
    """The key in a proof, and the claims that it has signed. Raises: ValueError, KeyError, TypeError."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey

    first = proof.partition(".")[0]
    header = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    if header["typ"] != "dpop+jwt" or header["alg"] not in ALGORITHMS or "d" in header["jwk"]:
        raise ValueError("its header is wrong")
    try:
        key = ECKey.import_key(header["jwk"])
    except JoseError:
        raise ValueError("its key is wrong") from None
    return key, read(proof, {"keys": [header["jwk"]]})[1]
