"""What the claims of a token have to be, and who they say that sends it (RFC 7519, section 4.1; RFC 9068)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..exchange import Principal
from .refusal import TokenRefused
from .resource import canonical
from .scopes import read_scopes

_FAR = 1e15  # seconds since the epoch


@dataclass(frozen=True)
class Rules:
    """audiences: of which a token has to name one.  leeway: seconds that clocks may differ."""

    audiences: frozenset[str]
    leeway: float

    def check_times(self, claims: Mapping[str, Any], now: float) -> float:
        """When a token ends, or a far time if that is not said. Raises: TokenRefused for one that is not valid now."""
        expires, begins = _seconds(claims, "exp", _FAR), _seconds(claims, "nbf", -_FAR)
        if now >= expires + self.leeway:
            raise TokenRefused("The token is expired")
        if now < begins - self.leeway:
            raise TokenRefused("The token is not valid yet")
        return expires

    def check_audience(self, claims: Mapping[str, Any]) -> None:
        """ "MCP servers MUST only accept tokens specifically intended for themselves" (basic/authorization/
        security-considerations, Access Token Privilege Restriction). Raises: TokenRefused for one that is not."""
        named = claims.get("aud")
        audiences = named if isinstance(named, list) else [named]
        if not any(isinstance(one, str) and canonical(one) in self.audiences for one in audiences):
            detail = f"it is for {named!r:.200}, and this server is {sorted(self.audiences)}"
            raise TokenRefused("The token is not for this server", detail=detail)

    def principal(self, claims: Mapping[str, Any], issuer: str) -> Principal:
        """Who sends the token. Raises: TokenRefused if it does not say."""
        client = claims.get("client_id", claims.get("azp"))
        client = client if isinstance(client, str) else ""
        subject = claims.get("sub", client)
        if not isinstance(subject, str) or not subject:
            raise TokenRefused("The token does not say whose it is")
        return Principal(subject, issuer, client, read_scopes(claims), dict(claims))


def _seconds(claims: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = claims.get(name, otherwise)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TokenRefused("The token has a time that is none")
    return float(min(max(value, -_FAR), _FAR))  # an int may be larger than any float
