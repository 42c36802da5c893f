"""OAuth for a person: the authorization code grant, and refreshing what it brought (basic/authorization)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from ...errors import ConfigurationError, LoginFailed
from . import registration, stored_token
from .auth import Auth, Demand, Why
from .code_request import request_code
from .discovery import Discovered, discover
from .dpop import SCHEME
from .loopback import Loopback, Redirect
from .private_key import PrivateKey
from .registration import Registration, method_for
from .scopes import missing, select
from .steps import Fetch, Fetched, Flow, ListenForRedirect, Now, Token
from .stored_token import StoredToken
from .stores import Store
from .token_request import request_token
from .well_known import same_issuer

_THIS_MACHINE = Loopback()
_EXPIRED = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "invalid_target"})
"""What ends a refresh token: there has to be a new login."""
_UNKNOWN = frozenset({"invalid_client", "unauthorized_client"})
"""What a registration that the server has lost leads to."""


class OAuth(Auth):
    """A person logs in with the browser, once; then tokens are refreshed.

    client_metadata_url: https URL of this client's own metadata document, which is its id at servers that know such
    ids.  client_id, client_secret, private_key: as registered with the authorization server beforehand; such a client
    is used before any other, and registers by itself nowhere.  issuer: of that server, so that they go to no other.
    scopes: to ask for in place of those that the server supports.  redirect: how the answer comes back, a Loopback(...)
    with other settings, or None where nobody can log in.  client_name: what the person reads.  store, dpop,
    trust_network, fetch: as for Auth.

    Raises: ConfigurationError.  Specification: basic/authorization.
    """

    def __init__(
        self,
        client_metadata_url: str | None = None,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        private_key: PrivateKey | None = None,
        issuer: str | None = None,
        scopes: Iterable[str] | None = None,
        store: Store | None = None,
        redirect: Redirect | None = _THIS_MACHINE,
        client_name: str = "backchannel",
        dpop: bool = False,
        trust_network: bool = False,
        fetch: Callable[[Fetch], Awaitable[Fetched]] | None = None,
    ):
        super().__init__(store=store, dpop=dpop, trust_network=trust_network, fetch=fetch)
        if isinstance(scopes, str):
            raise ConfigurationError(f"scopes is a list of texts; write {scopes.split()!r}")
        if (client_secret and not client_id) or (private_key and not (client_id or client_metadata_url)):
            raise ConfigurationError("a client_secret or private_key goes with the client_id that it is registered for")
        url = urlsplit(client_metadata_url or "https://-/-")
        if url.scheme != "https" or not url.hostname or url.path in ("", "/"):
            raise ConfigurationError('client_metadata_url is an "https" URL with a path')
        self.redirect = redirect
        self._metadata_url = client_metadata_url
        self._client = client_id, client_secret, private_key
        self._issuer = issuer
        self._scopes = tuple(scopes or ())
        self._name = client_name

    def recall(self, server: str) -> Flow[Token | None]:
        """The token that is stored for this server, if there is one."""
        stored = yield from self._stored(server)
        return stored.token if stored is not None else None

    def renews(self, token: Token) -> bool:
        """Whether it can be refreshed."""
        return token.refresh_token is not None

    def obtain(self, demand: Demand) -> Flow[Token]:
        """A token, refreshed if it can be, else from a login. One that another client has stored meanwhile will do.

        Raises: LoginFailed, ConnectionFailed.
        """
        stored = yield from self._stored(demand.server)
        if stored is not None and (yield from self._will_do(stored, demand)):
            return stored.token
        hint = stored.metadata_url if stored is not None else None
        wanted = [one for one in (self._issuer, stored.issuer if stored is not None else None) if one]
        found = yield from discover(demand.server, demand.challenge, hint=hint, wanted=wanted)
        self._check_issuer(found, stored)
        if stored is not None and (stored.issuer, stored.resource) != (found.issuer.issuer, found.resource):
            stored = None  # "MUST NOT reuse client credentials from a different authorization server"
        if stored is not None and stored.refresh_token is not None and demand.why is not Why.SCOPE and not demand.again:
            refreshed = yield from self._refresh(found, stored, demand.server)
            if refreshed is not None:
                return refreshed
        if demand.why is Why.EXPIRES:
            raise LoginFailed("the token cannot be refreshed any more")
        return (yield from self._log_in(found, demand, stored))

    def _stored(self, server: str) -> Flow[StoredToken | None]:
        """What is stored, if it was issued to this client, and is bound where it has to be."""
        stored = yield from stored_token.load(server)
        if stored is None or self._client[0] not in (None, stored.client_id):
            return None
        if self.dpop and stored.token_type != SCHEME:
            return None
        return stored if self._issuer is None or same_issuer(self._issuer, stored.issuer) else None

    def _will_do(self, stored: StoredToken, demand: Demand) -> Flow[bool]:
        """Whether the stored token is another than the one that will not do, and good."""
        if demand.token is not None and stored.access_token == demand.token.access_token:
            return False
        if demand.why is Why.SCOPE and missing(demand.challenge, stored.scope):
            return False
        return stored.token.is_fresh((yield Now()))

    def _check_issuer(self, found: Discovered, stored: StoredToken | None) -> None:
        """What was registered beforehand was registered with one server: "clients SHOULD surface an error rather than
        silently attempting to use mismatched credentials" (Authorization Server Binding)."""
        registered = self._issuer or (stored.issuer if stored is not None and self._client[0] else None)
        if registered is not None and not same_issuer(registered, found.issuer.issuer):
            other = found.issuer.issuer
            raise LoginFailed(
                f"the server's tokens are issued by {other}, but this client is registered with {registered}"
            )

    def _refresh(self, found: Discovered, stored: StoredToken, server: str) -> Flow[Token | None]:
        """A new token for the refresh token, or None where that has ended."""
        assert stored.refresh_token is not None
        client = self._given(found) or stored.client
        if client.client_id != stored.client_id or (client.expires_at and client.expires_at <= (yield Now())):
            return None
        asked = {"grant_type": "refresh_token", "refresh_token": stored.refresh_token, "resource": found.resource}
        try:
            token = yield from self._token(found, client, asked)
        except LoginFailed as error:
            if error.error not in _EXPIRED:
                raise
            if error.error in _UNKNOWN:
                yield from registration.forget(client)
            return None
        token = token.over(stored.token)
        yield from stored_token.save(server, token, found, client, stored.requested)
        return token

    def _log_in(self, found: Discovered, demand: Demand, stored: StoredToken | None) -> Flow[Token]:
        scopes = select(found, demand.challenge, self._scopes, stored.requested if stored is not None else ())
        client, redirect_uri = yield from self._introduced(found, scopes)
        try:
            token = yield from self._with_code(found, client, redirect_uri, scopes)
        except LoginFailed as error:
            if not client.registered or error.error not in _UNKNOWN:
                raise
            yield from registration.forget(client)
            client, redirect_uri = yield from self._introduced(found, scopes)
            token = yield from self._with_code(found, client, redirect_uri, scopes)
        yield from stored_token.save(demand.server, token, found, client, scopes)
        return token

    def _with_code(
        self, found: Discovered, client: Registration, redirect_uri: str, scopes: tuple[str, ...]
    ) -> Flow[Token]:
        try:
            code = yield from request_code(found, client, redirect_uri, scopes)
        except TimeoutError:
            # A server that does not know the client any more tells the person so, and nobody else.
            yield from registration.forget(client)
            raise LoginFailed("nobody has logged in within the time for it") from None
        token = yield from self._token(found, client, code.parameters(found.resource))
        return token.over(Token("", scope=" ".join(scopes) or None))

    def _token(self, found: Discovered, client: Registration, parameters: dict[str, str]) -> Flow[Token]:
        key = self._client[2]
        return request_token(found.issuer.token_endpoint, client, parameters, key=key, send=self.send)

    def _given(self, found: Discovered) -> Registration | None:
        """This client as the user has named it: as it was registered beforehand, or by the URL of its metadata where
        the authorization server knows such ids."""
        issuer = found.issuer
        client_id, secret, key = self._client
        if client_id is None and issuer.client_id_metadata_document_supported:
            client_id = self._metadata_url
        if client_id is not None:
            method = method_for(secret, issuer.token_endpoint_auth_methods_supported)
            method = "private_key_jwt" if key is not None else method
            return Registration(issuer=issuer.issuer, client_id=client_id, client_secret=secret, method=method)
        return None

    def _introduced(self, found: Discovered, scopes: tuple[str, ...]) -> Flow[tuple[Registration, str]]:
        """The client and the redirect URI of this login. In the order of client-registration: as it was given, and if
        it was not, as it has registered itself, which it does where that will not do."""
        given = self._given(found)
        if given is not None:
            uri: str = yield ListenForRedirect()
            return given, uri
        known = yield from registration.load(found.issuer.issuer, (yield Now()))
        uri = yield ListenForRedirect(known.redirect_uri if known is not None else None)
        if known is None or known.redirect_uri != uri or not set(scopes) <= set(known.scope):
            earlier = known.scope if known is not None else ()
            known = yield from registration.register(found, self._name, uri, scopes, earlier)
        return known, uri
