"""The public keys of an authorization server (RFC 7517)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .fetch import Fetch
from .issuer import JSON
from .jose import Jwt, fits, import_key
from .kept import Kept
from .refusal import TokenRefused, Unavailable

_MOST = 100  # keys that are read of a set
_TRIED = 4  # keys that are tried for a token which names none
KeySet = list[tuple[Mapping[str, Any], Any]]


class Keys:
    """locate: gives the URL of the key set.  fetch, clock: see BearerAuth."""

    def __init__(self, locate: Callable[[], Awaitable[str]], fetch: Fetch, clock: Callable[[], float]):
        self._locate = locate
        self._fetch = fetch
        self._set: Kept[KeySet] = Kept(self._load, clock)

    async def verify(self, jwt: Jwt) -> None:
        """Check the signature of a token. A key id that is not known may be that of a new key.

        Raises: TokenRefused, Unavailable.
        """
        keys = await self._set.get()
        candidates = _for(jwt, keys)
        if not candidates:
            candidates = _for(jwt, await self._set.renew(keys))
        if not candidates:
            raise TokenRefused("The token is signed with an unknown key")
        if not any(jwt.verified_by(key) for key in candidates):
            raise TokenRefused("The signature of the token is wrong")

    async def _load(self) -> tuple[KeySet, float | None]:
        url = await self._locate()
        fetched = await self._fetch("GET", url, JSON, b"")
        found = (fetched.document() or {}).get("keys")
        if not isinstance(found, list):
            raise Unavailable(f"{url} is no set of keys (status {fetched.status})")
        keys = [(jwk, import_key(jwk)) for jwk in found[:_MOST] if isinstance(jwk, dict)]
        return [(jwk, key) for jwk, key in keys if key is not None], fetched.max_age


def _for(jwt: Jwt, keys: KeySet) -> list[Any]:
    named = [key for jwk, key in keys if fits(jwk, jwt.alg) and jwt.kid in (None, jwk.get("kid"))]
    return named[:_TRIED]
