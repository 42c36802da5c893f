"""What an authorization server can do wrong."""

from __future__ import annotations

from dataclasses import dataclass

PLACES = frozenset({"oauth", "oidc", "appended"})
"""Where metadata can be, for an issuer with a path: RFC 8414 and OpenID Connect with the well-known part before the
path, and OpenID Connect with it after the path (basic/authorization/authorization-server-discovery)."""


@dataclass(frozen=True)
class Misbehaviour:
    """What an AuthServer does wrong, or otherwise than most; by default nothing. It may be exchanged at any time:
    `auth.misbehaviour = Misbehaviour(refuse_refresh=True)`.

    In values that name an issuer, "{issuer}" stands for the right one; "" leaves the value out.

    Metadata:
    metadata_at: the places that have metadata, of PLACES; none at all for a server of the 2025-03-26 kind.
    metadata_issuer: the issuer that they name.  metadata_redirect: where the places redirect to.
    metadata_padding: how many bytes too long they are.  challenge_methods: what PKCE methods are announced, () leaves
    it out.  authorization_endpoint, token_endpoint: announced in place of the right ones.

    Redirect:
    redirect_iss: its `iss`.  announce_iss: whether the metadata promise it.  redirect_state: its `state`, in place of
    the client's.  refuse: an error code in place of a code, such as "access_denied".

    Registration:
    refuse_registration: an error code.  web_by_default: loopback redirects are for `application_type: native` only.
    forced_method: the token endpoint authentication method that each client gets, whatever it asks for.
    silent_method: the answer does not say which method it is.  exact_ports: a loopback redirect has to have the port
    that was registered.

    Token endpoint:
    token_error: an error code in place of a token.  token_garbage: a page in HTML with status 500.  token_redirect:
    where it redirects to.  errors_with_200: errors have the status 200.  delay: seconds until it answers.
    invalid_client: it knows no client any more.  refuse_refresh: no refresh token is valid.  no_refresh_token: none is
    given.  keep_refresh_token: a refresh is answered without a new one, and the old one stays valid.
    granted: the scopes that are granted, whatever was asked for.  silent_scope: the answer does not say which.
    silent_expiry: nor how long the token lasts.  token_type: in place of "Bearer".  exchange_type: the type of token
    that a token exchange says it gives.

    Access tokens:
    expired: they have expired when they are given.  token_issuer: their `iss`.  token_audience: their `aud`, in place
    of the resource.

    Keys, introspection, DPoP:
    jwks_fails, introspection_fails: status 500.  stale_jwks: the newest key is not in the JWKS.  endless_nonces: no
    proof has the right nonce.
    """

    metadata_at: frozenset[str] = PLACES
    metadata_issuer: str = "{issuer}"
    metadata_redirect: str = ""
    metadata_padding: int = 0
    challenge_methods: tuple[str, ...] = ("S256",)
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    redirect_iss: str = "{issuer}"
    announce_iss: bool = True
    redirect_state: str | None = None
    refuse: str = ""
    refuse_registration: str = ""
    web_by_default: bool = False
    forced_method: str = ""
    silent_method: bool = False
    exact_ports: bool = False
    token_error: str = ""
    token_garbage: bool = False
    token_redirect: str = ""
    errors_with_200: bool = False
    delay: float = 0.0
    invalid_client: bool = False
    refuse_refresh: bool = False
    no_refresh_token: bool = False
    keep_refresh_token: bool = False
    granted: tuple[str, ...] | None = None
    silent_scope: bool = False
    silent_expiry: bool = False
    token_type: str = ""
    exchange_type: str = ""
    expired: bool = False
    token_issuer: str = "{issuer}"
    token_audience: str | None = None
    jwks_fails: bool = False
    stale_jwks: bool = False
    introspection_fails: bool = False
    endless_nonces: bool = False
