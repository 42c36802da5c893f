"""Who sends a token: the way to find out that the options of a BearerAuth choose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ...errors import ConfigurationError
from ..exchange import Principal
from ..options import instance, listed, takes
from .claims import Rules
from .fetch import Fetch, check_url
from .introspection import Introspection, IntrospectionVerifier
from .issuer import Issuer
from .jose import check_algorithms
from .jwt import JwtVerifier
from .refusal import TokenRefused
from .resource import canonical

Verify = Callable[[str], Awaitable[Principal | None]]
Verifier = Callable[[str], Awaitable[Principal]]


def verifier(
    *,
    issuers: Sequence[Issuer],
    audience: str | Sequence[str] | None,
    resource: str | None,
    jwks_uri: str | None,
    algorithms: Sequence[str],
    introspection: Introspection | None,
    verify: Verify | None,
    leeway: float,
    insecure: bool,
    fetch: Fetch,
    clock: Callable[[], float],
) -> Verifier:
    """Options: see BearerAuth. What it gives raises TokenRefused and Unavailable.

    Raises: ConfigurationError.
    """
    if verify is not None:
        if introspection is not None or jwks_uri is not None or audience is not None:
            raise ConfigurationError("a verify= of your own checks all: there is no introspection, jwks_uri, audience")
        return _own(verify)
    if not issuers:
        raise ConfigurationError("BearerAuth needs an issuer=, or a verify= of your own")
    if jwks_uri is not None:
        check_url("jwks_uri", jwks_uri, insecure)
    if len(issuers) > 1 and (jwks_uri is not None or introspection is not None):
        raise ConfigurationError("jwks_uri and introspection are of one issuer, not of several")
    rules = Rules(_audiences(audience if audience is not None else resource), leeway)
    if introspection is None:
        return JwtVerifier(issuers, jwks_uri, check_algorithms(algorithms), rules, fetch, clock)
    instance("introspection", introspection, Introspection)
    if introspection.endpoint is not None:
        check_url("endpoint", introspection.endpoint, insecure)
    return IntrospectionVerifier(introspection, issuers[0], rules, fetch, clock)


def _own(verify: Verify) -> Verifier:
    takes("verify", verify, "token")

    async def find(token: str) -> Principal:
        principal = await verify(token)
        if principal is None:
            raise TokenRefused("The token is not good here")
        return principal

    return find


def _audiences(given: str | Sequence[str] | None) -> frozenset[str]:
    """Raises: ConfigurationError where there are none: a token for anybody would do."""
    names = [given] if isinstance(given, str) else listed("audience", given or ())
    if not names or "" in names:
        raise ConfigurationError("BearerAuth needs an audience=, or the resource= that its tokens are for")
    return frozenset(map(canonical, names))
