"""Which scopes are asked for (basic/authorization, Scope Selection Strategy)."""

from __future__ import annotations

from collections.abc import Iterable

from .challenge import Challenge
from .discovery import Discovered

OFFLINE = "offline_access"


def select(
    found: Discovered, challenge: Challenge, given: Iterable[str] = (), earlier: Iterable[str] = ()
) -> tuple[str, ...]:
    """The scopes of an authorization request; empty: it names none.

    given: by the user of this client, in place of those that the server supports.  earlier: those that were asked for
    before, which are kept: "the union of the client's previously requested scope set and the scopes from the current
    challenge" (Step-Up Authorization Flow).
    """
    base = tuple(given) or challenge.scope or found.scopes or ()
    scopes = list(dict.fromkeys([*earlier, *base, *(challenge.scope or ())]))
    # "MAY add `offline_access` to the `scope` parameter [...] when the Authorization Server metadata contains it"
    # (Refresh Tokens). Alone it would take the place of the server's default scopes.
    supported = found.issuer.scopes_supported or ()
    grants = found.issuer.grant_types_supported
    if scopes and OFFLINE in supported and (grants is None or "refresh_token" in grants):
        scopes.append(OFFLINE)
    return tuple(dict.fromkeys(scopes))


def missing(challenge: Challenge, scope: str | None) -> set[str]:
    """What the challenge wants and a token of this scope does not have."""
    return set(challenge.scope or ()) - set((scope or "").split())
