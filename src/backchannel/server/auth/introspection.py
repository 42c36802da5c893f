"""Access tokens that the authorization server is asked about (RFC 7662)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from ...errors import ConfigurationError
from ..exchange import Principal
from ..options import number
from .claims import Rules
from .fetch import Fetch
from .issuer import JSON, Issuer
from .refusal import TokenRefused, Unavailable
from .remembered import Remembered

_REFUSED = 5.0  # seconds for which a token that is not active is remembered
_PAUSE = 1.0  # seconds after a failure, for its token alone: one that the issuer chokes on stops no others


@dataclass(frozen=True)
class Introspection:
    """Ask about each token, for ones that are not signed, or can be revoked.

    client_id, client_secret: of this server at the authorization server, sent as HTTP Basic.  endpoint: its URL; None:
    as the issuer's metadata says.  cache: seconds for which an answer is good.  audience_required: refuse tokens of
    which the answer does not say whom they are for. Only a server that is told of no tokens but its own may do without.
    """

    client_id: str
    client_secret: str = field(repr=False)
    endpoint: str | None = None
    cache: float = 30.0
    audience_required: bool = True

    def __post_init__(self) -> None:
        if not self.client_id or not self.client_secret:
            raise ConfigurationError("introspection needs a client_id and a client_secret")
        number("cache", self.cache)

    def headers(self) -> dict[str, str]:
        """The headers of a question (RFC 6749, section 2.3.1)."""
        pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}".encode()
        return {
            **JSON,
            "authorization": f"Basic {base64.b64encode(pair).decode()}",
            "content-type": "application/x-www-form-urlencoded",
        }


class IntrospectionVerifier:
    """Asks the issuer."""

    def __init__(self, options: Introspection, issuer: Issuer, rules: Rules, fetch: Fetch, clock: Callable[[], float]):
        self._options = options
        self._issuer = issuer
        self._locate = partial(issuer.endpoint, "introspection_endpoint")
        self._rules = rules
        self._fetch = fetch
        self._clock = clock
        self._remembered = Remembered(clock)

    async def __call__(self, token: str) -> Principal:
        """Who sends this token. Raises: TokenRefused, Unavailable."""
        known = self._remembered.get(token)
        if known is not None:
            return known
        if not self._options.cache:
            return self._judge(token, await self._ask(token))
        async with self._remembered.turn(token):
            return self._remembered.get(token) or self._judge(token, await self._ask(token))

    async def _ask(self, token: str) -> dict[str, Any]:
        """What the issuer says. Raises: Unavailable, which is remembered for a moment: who waits has waited enough."""
        try:
            url = self._options.endpoint or await self._locate()
            body = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
            fetched = await self._fetch("POST", url, self._options.headers(), body)
            claims = fetched.document()
            if claims is None:
                raise Unavailable(f"{url} answered with status {fetched.status}, and no JSON object")
            return claims
        except (Unavailable, OSError) as error:
            failure = Unavailable(str(error) or type(error).__name__)
            self._remembered.put(token, failure, self._clock() + _PAUSE)
            raise failure from error

    def _judge(self, token: str, claims: dict[str, Any]) -> Principal:
        """Raises: TokenRefused."""
        now = self._clock()
        if claims.get("active") is not True:
            refused = TokenRefused("The token is not active")
            self._remembered.put(token, refused, now + min(self._options.cache, _REFUSED))
            raise refused
        named = claims.get("iss", self._issuer.identifier)
        if not isinstance(named, str) or named.rstrip("/") != self._issuer.identifier.rstrip("/"):
            raise TokenRefused("The token is of another issuer", detail=f"iss is {named!r:.200}")
        expires = self._rules.check_times(claims, now)
        if self._options.audience_required or "aud" in claims:
            self._rules.check_audience(claims)
        principal = self._rules.principal(claims, self._issuer.identifier)
        self._remembered.put(token, principal, min(expires, now + self._options.cache))
        return principal
