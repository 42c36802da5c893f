"""Grants that need no person: the client obtains tokens by what it has itself, as often as it needs them, so none are
stored (extensions/auth)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypedDict

from ...errors import ConfigurationError, LoginFailed
from .auth import Auth, Demand
from .discovery import Discovered, discover
from .private_key import PrivateKey
from .registration import Registration, method_for
from .scopes import OFFLINE, select
from .steps import Fetch, Fetched, Flow, Token
from .stores import Store
from .token_request import request_token
from .well_known import same_issuer


class Options(TypedDict, total=False):
    """scopes: to ask for, in place of those that the server names.  issuer: of the authorization server that may have
    what this client has; without it the MCP server says who gets it.  store, dpop, trust_network, fetch: as for
    Auth."""

    scopes: Iterable[str]
    issuer: str | None
    store: Store | None
    dpop: bool
    trust_network: bool
    fetch: Callable[[Fetch], Awaitable[Fetched]] | None


class Unattended(Auth):
    """What these grants have in common. client_id, and client_secret or private_key: by which the authorization server
    knows this client.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        client_id: str | None,
        client_secret: str | None,
        private_key: PrivateKey | None,
        scopes: Iterable[str] = (),
        issuer: str | None = None,
        **common: Any,
    ):
        super().__init__(**common)
        if isinstance(scopes, str):
            raise ConfigurationError(f"scopes is a list of texts; write {scopes.split()!r}")
        if client_secret is not None and private_key is not None:
            raise ConfigurationError("a client has a secret or a private key, and not both")
        self._client_id = client_id
        self._secret = client_secret
        self._key = private_key
        self._scopes = tuple(scopes)
        self._issuer = issuer
        self._places: dict[str, str] = {}  # where the metadata of each server were

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client_id!r})"

    def obtain(self, demand: Demand) -> Flow[Token]:
        """A token in place of the one that will not do. Raises: LoginFailed."""
        wanted = [self._issuer] if self._issuer is not None else []
        hint = self._places.get(demand.server)
        found = yield from discover(demand.server, demand.challenge, hint=hint, wanted=wanted)
        if found.metadata_url is not None:
            self._places[demand.server] = found.metadata_url
        if self._issuer is not None and not same_issuer(found.issuer.issuer, self._issuer):
            text = (
                f"the server's tokens are issued by {found.issuer.issuer}, but this client is known to {self._issuer}"
            )
            raise LoginFailed(text)
        earlier = (demand.token.scope or "").split() if demand.token is not None else ()
        # There is no refresh token to ask for: a new token costs no more.
        scopes = [one for one in select(found, demand.challenge, self._scopes, earlier) if one != OFFLINE]
        grant = yield from self.grant(found, scopes)
        parameters = {**grant, "resource": found.resource, **({"scope": " ".join(scopes)} if scopes else {})}
        endpoint, client = found.issuer.token_endpoint, self._client(found)
        return (yield from request_token(endpoint, client, parameters, key=self._key, send=self.send))

    @abstractmethod
    def grant(self, found: Discovered, scopes: list[str]) -> Flow[dict[str, str]]:
        """What the token is issued for: the parameters that only this grant has."""

    def _client(self, found: Discovered) -> Registration:
        supported = found.issuer.token_endpoint_auth_methods_supported
        return Registration(
            issuer=found.issuer.issuer,
            client_id=self._client_id or "",
            client_secret=self._secret,
            method="private_key_jwt" if self._key is not None else method_for(self._secret, supported),
        )
