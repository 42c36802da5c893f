"""A token as it is stored for one server, with what is needed to renew it after a restart."""

from __future__ import annotations

import msgspec

from .discovery import Discovered
from .registration import Registration
from .steps import Flow, Load, Save, Token


class StoredToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """client, resource: what it was issued to, and for: it can be refreshed by this client alone. A secret that the
    user has given is not stored.  requested: the scopes that were asked for.  metadata_url: where the resource's
    metadata were found."""

    client: Registration
    resource: str
    access_token: str
    token_type: str = "Bearer"
    scope: str | None = None
    expires_at: float | None = None
    issued_at: float | None = None
    refresh_token: str | None = None
    requested: tuple[str, ...] = ()
    metadata_url: str | None = None

    def __repr__(self) -> str:
        return f"StoredToken(for {self.resource!r} of {self.issuer!r})"

    @property
    def issuer(self) -> str:
        """Of the authorization server."""
        return self.client.issuer

    @property
    def client_id(self) -> str:
        """As the authorization server knows the client."""
        return self.client.client_id

    @property
    def token(self) -> Token:
        """As the flows have it."""
        return Token(
            self.access_token, self.token_type, self.scope, self.expires_at, self.refresh_token, self.issued_at
        )


def load(server: str) -> Flow[StoredToken | None]:
    """What is stored for the server at this URL."""
    stored: bytes | None = yield Load(_key(server))
    try:
        return msgspec.json.decode(stored or b"", type=StoredToken)
    except (msgspec.DecodeError, RecursionError):
        return None


def save(server: str, token: Token, found: Discovered, client: Registration, requested: tuple[str, ...]) -> Flow[None]:
    """Store it."""
    stored = StoredToken(
        client=client if client.registered else msgspec.structs.replace(client, client_secret=None),
        resource=found.resource,
        access_token=token.access_token,
        token_type=token.token_type,
        scope=token.scope,
        expires_at=token.expires_at,
        issued_at=token.issued_at,
        refresh_token=token.refresh_token,
        requested=requested,
        metadata_url=found.metadata_url,
    )
    yield Save(_key(server), msgspec.json.encode(stored))


def forget(server: str) -> Flow[None]:
    """Log out of it."""
    yield Save(_key(server), None)


def _key(server: str) -> str:
    return f"token {server.partition('#')[0].rstrip('/')}"
