"""The token endpoint: one function per grant type."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .assertions import EXCHANGE, JWT_BEARER, asserted, exchanged
from .clients import RegisteredClient
from .tokens import Grant
from .web import OAuthError, Params, Request, Response, as_json, as_page, as_redirect

if TYPE_CHECKING:
    from .server import AuthServer

_OFFLINE = "offline_access"


def token(auth: AuthServer, request: Request) -> Response:
    """Answer at the token endpoint. Raises: OAuthError."""
    wrong = auth.misbehaviour
    if wrong.token_redirect:
        return as_redirect(wrong.token_redirect, {}, 307)
    if wrong.token_garbage:
        return as_page("<h1>Internal Server Error</h1>", 500)
    if wrong.token_error:
        raise OAuthError(wrong.token_error, "refused")
    form = request.form
    kind = form.need("grant_type")
    if (grant := GRANTS.get(kind)) is None:
        raise OAuthError("unsupported_grant_type", "this grant type is not known here")
    if wrong.invalid_client:
        raise OAuthError("invalid_client", "the client is unknown", 401)
    client = _client(auth, request, form)
    client.may(kind)
    answer = grant(auth, client, form, _key(auth, request))
    headers = {"dpop-nonce": auth.proofs.nonce} if auth.proofs.nonces else None
    return as_json(answer, headers=headers)


def _client(auth: AuthServer, request: Request, form: Params) -> RegisteredClient:
    """Who sends a request. With a JWT of somebody who is trusted it need be no client (RFC 7523, 3.1).

    Raises: OAuthError.
    """
    shown = request.headers.get("authorization", "") or form.get("client_id") or form.get("client_assertion")
    if not shown and form.get("grant_type") == JWT_BEARER:
        return RegisteredClient("", grants=(JWT_BEARER,))
    return auth.clients.authenticate(request, form)


def _key(auth: AuthServer, request: Request) -> str:
    """The thumbprint of the key that the token is to be bound to, "" for none. Raises: OAuthError."""
    proof = request.headers.get("dpop", "")
    if proof:
        return auth.proofs.check(proof, "POST", auth.endpoint("token"), auth.misbehaviour.endless_nonces)
    if auth.dpop_required:
        raise OAuthError("invalid_dpop_proof", "a DPoP proof is required")
    return ""


def _code(auth: AuthServer, client: RegisteredClient, form: Params, key: str) -> dict[str, Any]:
    """An authorization code (OAuth 2.1, 4.1.3)."""
    code = auth.tokens.redeem(form.need("code"), auth.now())
    if code.grant.client != client.id:
        raise OAuthError("invalid_grant", "the code is of another client")
    if form.get("redirect_uri") != code.redirect and (code.redirect_given or form.get("redirect_uri")):
        raise OAuthError("invalid_grant", "redirect_uri is not the one that the code was given to")
    digest = hashlib.sha256(form.need("code_verifier").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=")
    if not hmac.compare_digest(challenge, code.challenge.encode()):
        raise OAuthError("invalid_grant", "code_verifier does not fit the code_challenge")
    if code.grant.key and code.grant.key != key:
        raise OAuthError("invalid_dpop_proof", "the code is bound to another key")
    grant = replace(code.grant, key=key)
    part = grant.narrowed("", form.all("resource"))
    return {**answer(auth, part), **_refresh_token(auth, client, grant), **_id_token(auth, part)}


def _refresh(auth: AuthServer, client: RegisteredClient, form: Params, key: str) -> dict[str, Any]:
    """A refresh token, which is exchanged for a new one (OAuth 2.1, 4.3)."""
    text = form.need("refresh_token")
    if auth.misbehaviour.refuse_refresh:
        raise OAuthError("invalid_grant", "the refresh token is not valid any more")
    grant = auth.tokens.refreshed(text, client.id)
    if client.method == "none" and grant.key != key:
        raise OAuthError("invalid_grant", "the refresh token is bound to another key")
    part = grant.narrowed(form.get("scope"), form.all("resource"))
    found = answer(auth, replace(part, key=key))
    if auth.misbehaviour.keep_refresh_token:
        return found
    auth.tokens.retire(text)
    return {**found, **_refresh_token(auth, client, grant)}


def _credentials(auth: AuthServer, client: RegisteredClient, form: Params, key: str) -> dict[str, Any]:
    """A client on its own behalf, which has to show who it is (OAuth 2.1, 4.2)."""
    if client.method == "none":
        raise OAuthError("unauthorized_client", "a public client cannot act on its own behalf")
    scopes, resources = auth.granted(form.get("scope")), auth.resources_for(form.all("resource"))
    return answer(auth, Grant(client.id, client.id, scopes, resources, key=key))


def _bearer(auth: AuthServer, client: RegisteredClient, form: Params, key: str) -> dict[str, Any]:
    """A JWT of somebody who is trusted (RFC 7523)."""
    return answer(auth, replace(asserted(auth, client, form), key=key))


def _exchange(auth: AuthServer, client: RegisteredClient, form: Params, key: str) -> dict[str, Any]:
    """An identity token for an ID-JAG (RFC 8693)."""
    return exchanged(auth, client, form)


GRANTS: dict[str, Callable[[AuthServer, RegisteredClient, Params, str], dict[str, Any]]] = {
    "authorization_code": _code,
    "refresh_token": _refresh,
    "client_credentials": _credentials,
    JWT_BEARER: _bearer,
    EXCHANGE: _exchange,
}


def answer(auth: AuthServer, grant: Grant) -> dict[str, Any]:
    """A new access token, as the token endpoint answers it."""
    wrong = auth.misbehaviour
    if wrong.granted is not None:
        grant = replace(grant, scopes=wrong.granted)
    found: dict[str, Any] = {
        "access_token": auth.access_token(grant),
        "token_type": wrong.token_type or ("DPoP" if grant.key else "Bearer"),
    }
    if not wrong.silent_expiry:
        found["expires_in"] = int(auth.lifetime)
    if grant.scopes and not wrong.silent_scope:
        found["scope"] = " ".join(grant.scopes)
    return found


def _refresh_token(auth: AuthServer, client: RegisteredClient, grant: Grant) -> dict[str, str]:
    """A refresh token for who may have one; where there is a scope for it, only for who asked for that."""
    unasked = _OFFLINE in auth.scopes and _OFFLINE not in grant.scopes
    if auth.misbehaviour.no_refresh_token or unasked or "refresh_token" not in client.grants:
        return {}
    return {"refresh_token": auth.tokens.refresh(grant)}


def _id_token(auth: AuthServer, grant: Grant) -> dict[str, str]:
    """An identity token, where OpenID Connect was asked for."""
    if "openid" not in grant.scopes:
        return {}
    return {
        "id_token": auth.id_token(grant.subject, client=grant.client, **({"nonce": grant.nonce} if grant.nonce else {}))
    }
