"""What an authorization server has granted: codes, refresh tokens and access tokens, in memory."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

from .web import OAuthError

_CODE_LASTS = 60.0  # seconds


@dataclass(frozen=True)
class Grant:
    """What somebody has allowed a client.

    resources: where it may use it.  family: what came from the same login: one key for all of it.  key: the thumbprint
    of the DPoP key that it is bound to.  nonce: of OpenID Connect.
    """

    client: str
    subject: str
    scopes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    key: str = ""
    nonce: str = field(default="", repr=False)
    family: str = field(default_factory=lambda: secrets.token_hex(8))

    def narrowed(self, scope: str, resources: tuple[str, ...]) -> Grant:
        """The grant, or a part of it. Raises: OAuthError for what is not in it."""
        scopes = tuple(scope.split()) or self.scopes
        if not set(scopes) <= set(self.scopes):
            raise OAuthError("invalid_scope", "scope has more than was granted")
        if not set(resources) <= set(self.resources):
            raise OAuthError("invalid_target", "resource is not what the code was given for")
        return replace(self, scopes=scopes, resources=resources or self.resources)


@dataclass(frozen=True)
class Code:
    """An authorization code. challenge: of PKCE."""

    grant: Grant
    redirect: str
    redirect_given: bool
    challenge: str = field(repr=False)
    expires: float


@dataclass(frozen=True)
class Access:
    """An access token: what it grants, its claims and when it expires."""

    grant: Grant
    claims: dict[str, object] = field(repr=False)
    expires: float


class Tokens:
    """All that are valid, and the refresh tokens and codes that were."""

    def __init__(self) -> None:
        self._codes: dict[str, Code] = {}
        self._refresh: dict[str, Grant] = {}
        self._access: dict[str, Access] = {}
        self._used: dict[str, str] = {}  # code or refresh token -> family

    def code(self, code: Code) -> str:
        """A new code."""
        text = secrets.token_urlsafe(24)
        self._codes[text] = code
        return text

    def redeem(self, text: str, now: float) -> Code:
        """Use a code. Raises: OAuthError for one that is unknown or expired; one that was used ends what came of it
        (RFC 6749, 4.1.2)."""
        self._reused(text)
        code = self._codes.pop(text, None)
        if code is None or code.expires <= now:
            raise OAuthError("invalid_grant", "the code is unknown or has expired")
        self._used[text] = code.grant.family
        return code

    def refresh(self, grant: Grant) -> str:
        """A new refresh token."""
        text = secrets.token_urlsafe(24)
        self._refresh[text] = grant
        return text

    def refreshed(self, text: str, client: str) -> Grant:
        """What a refresh token stands for. Raises: OAuthError."""
        self._reused(text)
        grant = self._refresh.get(text)
        if grant is None or grant.client != client:
            raise OAuthError("invalid_grant", "the refresh token is unknown, expired or of another client")
        return grant

    def retire(self, text: str) -> None:
        """A refresh token has been exchanged for another."""
        self._used[text] = self._refresh.pop(text).family

    def add(self, text: str, access: Access) -> None:
        """Know an access token."""
        self._access[text] = access

    def access(self, text: str) -> Access | None:
        """What an access token stands for; None for one that is unknown or revoked."""
        return self._access.get(text)

    def revoke(self, text: str, client: str) -> None:
        """End a token of a client, and with a refresh token all of its family (RFC 7009)."""
        access, grant = self._access.get(text), self._refresh.get(text)
        if access is not None and access.grant.client == client:
            del self._access[text]
        if grant is not None and grant.client == client:
            self._end(grant.family)

    def revoke_all(self) -> None:
        """End every token and code."""
        self._codes.clear()
        self._refresh.clear()
        self._access.clear()

    def _reused(self, text: str) -> None:
        """Raises: OAuthError if a code or refresh token was used before, which ends its whole family."""
        if text in self._used:
            self._end(self._used[text])
            raise OAuthError("invalid_grant", "it was used before, and what came of it is revoked")

    def _end(self, family: str) -> None:
        self._refresh = {text: grant for text, grant in self._refresh.items() if grant.family != family}
        self._access = {text: access for text, access in self._access.items() if access.grant.family != family}


def code_for(grant: Grant, redirect: str, given: bool, challenge: str, now: float) -> Code:
    """A code that lasts a minute. given: whether the redirect URI was in the request, and so has to be repeated."""
    return Code(grant, redirect, given, challenge, now + _CODE_LASTS)
