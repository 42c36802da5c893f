"""JWTs in place of a login: ID-JAGs of an enterprise's identity provider and tokens of a workload's platform, and how
an identity provider gives an ID-JAG."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from .clients import RegisteredClient, check_assertion
from .keys import peek, read
from .tokens import Grant
from .web import OAuthError, Params

if TYPE_CHECKING:
    from .server import AuthServer

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
ID_JAG_TYP = "oauth-id-jag+jwt"
_LASTS = 300  # seconds


def asserted(auth: AuthServer, client: RegisteredClient, form: Params) -> Grant:
    """What a JWT of somebody who is trusted grants (RFC 7523, 3.1). Raises: OAuthError."""
    try:
        header, claims = _trusted(auth, form.need("assertion"))
        check_assertion(claims, (auth.issuer, auth.endpoint("token")), auth.now())
    except ValueError as error:
        raise OAuthError("invalid_grant", str(error)) from None
    if header.get("typ") != ID_JAG_TYP:
        scopes, resources = auth.granted(form.get("scope")), auth.resources_for(form.all("resource"))
        subject = _text(claims, "sub")
        return Grant(client.id or subject, subject, scopes, resources)
    if claims.get("client_id") != client.id:
        raise OAuthError("invalid_grant", "the ID-JAG is for another client")
    if client.method == "none":
        raise OAuthError("invalid_client", "the client has to show who it is", 401)
    auth.once(_text(claims, "jti"))
    resource = claims.get("resource", ())
    resources = auth.resources_for((resource,) if isinstance(resource, str) else tuple(resource))
    scopes = auth.granted(str(claims.get("scope", "")))
    return Grant(client.id, _text(claims, "sub"), scopes, resources).narrowed(form.get("scope"), form.all("resource"))


def exchanged(auth: AuthServer, client: RegisteredClient, form: Params) -> dict[str, Any]:
    """An ID-JAG for an identity token of ours (RFC 8693). Raises: OAuthError."""
    if form.need("requested_token_type") != ID_JAG or form.need("subject_token_type") != ID_TOKEN:
        raise OAuthError("invalid_request", "an identity token can be exchanged for an ID-JAG, and nothing else")
    try:
        _, claims = read(form.need("subject_token"), auth.keys.jwks())
        check_assertion(claims, (client.id,), auth.now())
    except ValueError as error:
        raise OAuthError("invalid_grant", str(error)) from None
    audience = form.need("audience")
    more = {name: value for name in ("resource", "scope") if (value := form.get(name))}
    known_as = client.known_as.get(audience, client.id)
    jag = auth.id_jag(claims["sub"], audience=audience, client=known_as, **more)
    kind = auth.misbehaviour.exchange_type or ID_JAG
    return {"access_token": jag, "issued_token_type": kind, "token_type": "N_A", "expires_in": _LASTS, **more}


def claims_of_id_jag(issuer: str, subject: str, audience: str, client: str, now: float) -> dict[str, Any]:
    """What an ID-JAG says at least."""
    return {
        "iss": issuer,
        "sub": subject,
        "aud": audience,
        "client_id": client,
        "jti": secrets.token_hex(12),
        "iat": int(now),
        "exp": int(now) + _LASTS,
    }


def _trusted(auth: AuthServer, assertion: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a JWT whose issuer is trusted. Raises: ValueError."""
    keys = auth.trusted.get(str(peek(assertion).get("iss", "")))
    if keys is None:
        raise ValueError("the issuer of the assertion is not trusted")
    return read(assertion, keys())


def _text(claims: dict[str, Any], name: str) -> str:
    """Raises: OAuthError without the claim."""
    if not isinstance(value := claims.get(name), str) or not value:
        raise OAuthError("invalid_grant", f"the assertion has no {name}")
    return value
