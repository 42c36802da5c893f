"""What an authorization server says of itself, and where (RFC 8414, OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .proofs import ALGORITHMS
from .web import Response, as_json, as_redirect

if TYPE_CHECKING:
    from .server import AuthServer

GRANTS = (
    "authorization_code",
    "refresh_token",
    "client_credentials",
    "urn:ietf:params:oauth:grant-type:jwt-bearer",
    "urn:ietf:params:oauth:grant-type:token-exchange",
)


def places(issuer: str) -> dict[str, str]:
    """Path -> which of the places for metadata it is. Without a path in the issuer two of them are one."""
    path = urlsplit(issuer).path.rstrip("/")
    return {
        f"{path}/.well-known/openid-configuration": "appended",
        f"/.well-known/openid-configuration{path}": "oidc",
        f"/.well-known/oauth-authorization-server{path}": "oauth",
    }


def metadata(auth: AuthServer) -> dict[str, Any]:
    """The document."""
    wrong = auth.misbehaviour
    found: dict[str, Any] = {
        "issuer": auth.named(wrong.metadata_issuer),
        "authorization_endpoint": wrong.authorization_endpoint or auth.endpoint("authorize"),
        "token_endpoint": wrong.token_endpoint or auth.endpoint("token"),
        "jwks_uri": auth.endpoint("jwks"),
        "introspection_endpoint": auth.endpoint("introspect"),
        "revocation_endpoint": auth.endpoint("revoke"),
        "scopes_supported": list(auth.scopes),
        "response_types_supported": ["code"],
        "grant_types_supported": list(GRANTS),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [auth.keys.algorithm],
        "token_endpoint_auth_methods_supported": list(auth.clients.methods),
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256"],
        "code_challenge_methods_supported": list(wrong.challenge_methods),
        "dpop_signing_alg_values_supported": list(ALGORITHMS),
        "authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"],
        "authorization_response_iss_parameter_supported": wrong.announce_iss,
        "client_id_metadata_document_supported": auth.client_documents,
    }
    if auth.registration:
        found["registration_endpoint"] = auth.endpoint("register")
    return {name: value for name, value in found.items() if value not in ([], "", False)}


def answer(auth: AuthServer, place: str) -> Response | None:
    """The answer at one of the places, None where there is nothing."""
    wrong = auth.misbehaviour
    if place == "oidc" and not urlsplit(auth.issuer).path.rstrip("/"):
        there = bool(wrong.metadata_at & {"oidc", "appended"})
    else:
        there = place in wrong.metadata_at
    if not there:
        return None
    if wrong.metadata_redirect:
        return as_redirect(wrong.metadata_redirect, {})
    document = metadata(auth)
    if wrong.metadata_padding:
        document["padding"] = "x" * wrong.metadata_padding
    return as_json(document, headers={"cache-control": "max-age=60"})
