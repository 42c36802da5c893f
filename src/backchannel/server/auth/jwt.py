"""Access tokens that are signed, and verified here (RFC 9068, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..exchange import Principal
from .claims import Rules
from .fetch import Fetch
from .issuer import Issuer
from .jose import Jwt, NoJwt
from .keys import Keys
from .refusal import TokenRefused
from .remembered import Remembered

_TYPES = ("at+jwt", "jwt")  # not those of proofs, of logout tokens, of assertions
_KEEP = 60.0  # seconds


class JwtVerifier:
    """issuers: that may have signed.  jwks_uri: of their keys; None: as their metadata says.  algorithms: none else.

    How it works: what a token says of its own key is not listened to. Its issuer says where the keys are, and each key
    says what it is for. A token that was good is remembered for up to a minute.
    """

    def __init__(
        self,
        issuers: Sequence[Issuer],
        jwks_uri: str | None,
        algorithms: Sequence[str],
        rules: Rules,
        fetch: Fetch,
        clock: Callable[[], float],
    ):
        self._algorithms = algorithms
        self._rules = rules
        self._clock = clock
        self._remembered = Remembered(clock)
        self._issuers: dict[str, tuple[str, Keys]] = {}
        for issuer in issuers:
            locate = partial(issuer.endpoint, "jwks_uri") if jwks_uri is None else partial(_given, jwks_uri)
            self._issuers[issuer.identifier.rstrip("/")] = issuer.identifier, Keys(locate, fetch, clock)

    async def __call__(self, token: str) -> Principal:
        """Who sends this token. Raises: TokenRefused, Unavailable."""
        known = self._remembered.get(token)
        if known is not None:
            return known
        try:
            jwt = Jwt.read(token)
        except NoJwt as error:
            raise TokenRefused("The token is malformed", detail=str(error)) from None
        if jwt.alg not in self._algorithms:
            raise TokenRefused("The token is signed in a way that is not accepted", detail=f"alg is {jwt.alg!r:.50}")
        if jwt.typ not in _TYPES:
            raise TokenRefused("The token is no access token", detail=f"typ is {jwt.typ!r:.50}")
        issuer, keys = self._issuer(jwt.claims.get("iss"))
        await keys.verify(jwt)
        if "exp" not in jwt.claims:
            raise TokenRefused("The token does not say when it expires")
        now = self._clock()
        expires = self._rules.check_times(jwt.claims, now)
        self._rules.check_audience(jwt.claims)
        principal = self._rules.principal(jwt.claims, issuer)
        self._remembered.put(token, principal, min(expires, now + _KEEP))
        return principal

    def _issuer(self, named: object) -> tuple[str, Keys]:
        found = self._issuers.get(named.rstrip("/")) if isinstance(named, str) else None
        if found is None:
            known = [identifier for identifier, _ in self._issuers.values()]
            raise TokenRefused("The token is of another issuer", detail=f"iss is {named!r:.200}, not of {known}")
        return found


async def _given(url: str) -> str:
    return url
