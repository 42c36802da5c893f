"""Tokens that are bound to a key, and the proof that a client has it (RFC 9449)."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from hmac import compare_digest, digest
from typing import Any

import anyio

from ...errors import ConfigurationError
from ..options import number, offers
from ..state import PATIENCE
from ..state_store import MemoryStateStore, StateStore
from .jose import ALGORITHMS, Jwt, NoJwt, check_algorithms, encode_base64, import_key, is_public
from .refusal import TokenRefused, Unavailable
from .resource import canonical

logger = logging.getLogger("backchannel.auth")
_LONGEST = 8192  # characters of a proof
_MOST = 250_000  # proofs that are remembered


class DPoP:
    """required: take no tokens but bound ones.  max_age: seconds for which a proof is good.  nonces: seconds for which
    a nonce of this server is good, that a proof has to have; None: none.  algorithms: of proofs.

    For replicas: secret: of their nonces, at least 32 bytes; default random.  store: where proofs are remembered, as
    each is good once; default in this process.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        *,
        required: bool = False,
        max_age: float = 60.0,
        nonces: float | None = None,
        algorithms: Sequence[str] = ALGORITHMS,
        secret: bytes | str | None = None,
        store: StateStore | None = None,
    ):
        number("max_age", max_age, positive=True)
        if nonces is not None:
            number("nonces", nonces, positive=True)
        if store is not None:
            offers("store", store, "add")
        self._secret = secret.encode() if isinstance(secret, str) else secret or secrets.token_bytes(32)
        if len(self._secret) < 32:
            raise ConfigurationError("the secret of a DPoP has at least 32 bytes")
        self.required = required
        self.algorithms = check_algorithms(algorithms)
        self._max_age = max_age
        self._nonces = nonces
        self.store = store if store is not None else MemoryStateStore(max_size=_MOST)

    async def check(
        self, proof: str | None, method: str, url: str, token: str, thumbprint: str, now: float, leeway: float
    ) -> None:
        """Check the proof that comes with a token (section 4.3).

        method, url: of the request.  thumbprint: of the key that the token is bound to.

        Raises: TokenRefused; Unavailable if it cannot be remembered.
        """
        claims, key = self._read(proof)
        expected = {"htm": method, "ath": encode_base64(hashlib.sha256(token.encode()).digest())}
        for name, value in expected.items():
            if not _same(claims.get(name), value):
                raise _refused(f"The DPoP proof is for another request ({name})")
        htu = claims.get("htu")
        if not isinstance(htu, str) or canonical(htu.partition("#")[0].partition("?")[0]) != canonical(url):
            detail = f"htu is {htu!r:.200}, and this is {url}"
            raise _refused("The DPoP proof is for another request (htu)", detail=detail)
        issued, id = claims.get("iat"), claims.get("jti")
        if not isinstance(issued, int | float) or not -leeway <= now - issued < self._max_age + leeway:
            raise _refused("The DPoP proof is too old, or not valid yet")
        if not isinstance(id, str) or not id:
            raise _refused("The DPoP proof has no jti")
        if not _same(key.thumbprint(), thumbprint):
            raise TokenRefused("The token is bound to another key")
        self._check_nonce(claims, now)
        name = "dpop:" + encode_base64(hashlib.sha256(f"{thumbprint} {id}".encode()).digest())
        # Longer than it is good here: by the clock of another replica it may be good for some more time.
        if not await self._is_fresh(name, issued + self._max_age + 2 * leeway - now):
            raise _refused("The DPoP proof was used before")

    async def _is_fresh(self, name: str, ttl: float) -> bool:
        """Whether a proof was not used before. Raises: Unavailable where the store fails."""
        try:
            with anyio.fail_after(PATIENCE):
                return await self.store.add(name, b"1", ttl)
        except Exception as error:
            logger.error("the store of proofs failed", exc_info=error)
            raise Unavailable("whether a proof was used before cannot be found out") from error

    def _read(self, proof: str | None) -> tuple[dict[str, Any], Any]:
        """The claims of a proof that is signed with the key it brings, and the key."""
        if not proof or "," in proof or len(proof) > _LONGEST:
            raise _refused("There is not exactly one DPoP proof")
        try:
            jwt = Jwt.read(proof)
        except NoJwt:
            raise _refused("The DPoP proof is malformed") from None
        if jwt.typ != "dpop+jwt" or jwt.alg not in self.algorithms or jwt.jwk is None or not is_public(jwt.jwk):
            raise _refused("The DPoP proof is malformed")
        key = import_key(jwt.jwk)
        if key is None or not jwt.verified_by(key):
            raise _refused("The signature of the DPoP proof is wrong")
        return jwt.claims, key

    def _check_nonce(self, claims: Mapping[str, Any], now: float) -> None:
        """Raises: TokenRefused with the nonce to use."""
        if self._nonces is None:
            return
        period = int(now // self._nonces)
        good = [self._nonce(one) for one in (period, period - 1)]
        if not any([_same(claims.get("nonce"), nonce) for nonce in good]):  # a list: all are compared
            text = "The DPoP proof needs a nonce of this server"
            raise TokenRefused(text, "use_dpop_nonce", nonce=good[0])

    def _nonce(self, period: int) -> str:
        return encode_base64(digest(self._secret, f"nonce {period}".encode(), "sha256"))


def _same(given: Any, expected: str) -> bool:
    return isinstance(given, str) and compare_digest(given.encode(), expected.encode())


def _refused(text: str, detail: str = "") -> TokenRefused:
    return TokenRefused(text, "invalid_dpop_proof", detail=detail)
