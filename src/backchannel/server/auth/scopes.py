"""Scopes: how they are written, and what they imply (RFC 6749, section 3.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import ConfigurationError
from ..options import listed

_TOKEN = re.compile(r"[!#-\[\]-~]+")
NONE: frozenset[str] = frozenset()


def scopes_of(what: str, given: Any) -> frozenset[str]:
    """Scopes as an author gives them.

    Raises: ConfigurationError for what is none, and for "offline_access", for "refresh tokens are not a resource
    requirement" (basic/authorization, Refresh Tokens).
    """
    scopes = listed(what, given)
    for scope in scopes:
        if not _TOKEN.fullmatch(scope):
            raise ConfigurationError(f"{what} has scopes without spaces and quotes, not {scope!r}")
        if scope == "offline_access":
            raise ConfigurationError(f"{what} has 'offline_access', which is the client's to ask for, not a server's")
    return frozenset(scopes)


def read_scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """The scopes that a token's claims grant: `scope` (RFC 9068, section 2.2.3), or `scp` as some servers call it."""
    granted = claims.get("scope", claims.get("scp"))
    if isinstance(granted, str):
        return frozenset(granted.split())
    return frozenset(one for one in granted if isinstance(one, str)) if isinstance(granted, list) else NONE


def written(scopes: Iterable[str]) -> str:
    """Scopes as one text, always in the same order."""
    return " ".join(sorted(scopes))


class Hierarchy:
    """Which scopes a broader one implies: "Servers MUST account for scope hierarchies" (basic/authorization, Step-Up
    Authorization Flow)."""

    def __init__(self, implies: Mapping[str, Iterable[str]]):
        self._implies = {scope: scopes_of(f"implies[{scope!r}]", below) for scope, below in implies.items()}

    def all_of(self, scopes: frozenset[str]) -> frozenset[str]:
        """The scopes with all that they imply."""
        found, fresh = scopes, scopes
        while fresh and self._implies:
            fresh = frozenset().union(*(self._implies.get(scope, NONE) for scope in fresh)) - found
            found |= fresh
        return found
