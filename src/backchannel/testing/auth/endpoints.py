"""What is asked where."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from . import metadata
from .authorize import authorize
from .clients import register
from .grants import token
from .web import OAuthError, Request, Response, as_json

if TYPE_CHECKING:
    from .server import AuthServer

Endpoint = Callable[["AuthServer", Request], Response]


def paths(auth: AuthServer) -> set[str]:
    """All paths of an authorization server."""
    return {*metadata.places(auth.issuer), *(urlsplit(auth.endpoint(name)).path for name in ENDPOINTS)}


def route(auth: AuthServer, request: Request) -> Response:
    """The answer to a request."""
    auth.requests.append(request)
    places = metadata.places(auth.issuer)
    try:
        if request.path in places:
            found = metadata.answer(auth, places[request.path])
        else:
            found = _endpoint(auth, request)
    except OAuthError as error:
        found = error.response
        if auth.misbehaviour.errors_with_200:
            found = replace(found, status=200)
    return found or as_json({"error": "not_found"}, 404)


def _endpoint(auth: AuthServer, request: Request) -> Response | None:
    base = urlsplit(auth.endpoint("")).path
    name = request.path.removeprefix(base) if request.path.startswith(base) else ""
    if name not in ENDPOINTS or (name == "register" and not auth.registration):
        return None
    methods, endpoint = ENDPOINTS[name]
    if request.method not in methods:
        return as_json({"error": "method_not_allowed"}, 405, {"allow": ", ".join(methods)})
    return endpoint(auth, request)


def _register(auth: AuthServer, request: Request) -> Response:
    """RFC 7591, 3. Raises: OAuthError."""
    wrong = auth.misbehaviour
    if wrong.refuse_registration:
        raise OAuthError(wrong.refuse_registration, "refused")
    try:
        said = json.loads(request.body)
    except ValueError:
        raise OAuthError("invalid_client_metadata", "the metadata have to be JSON") from None
    client = register(said, auth.clients.methods, wrong.forced_method, wrong.web_by_default)
    auth.clients.add(client)
    found: dict[str, Any] = {**said, "client_id": client.id, "client_id_issued_at": int(auth.now())}
    found.pop("token_endpoint_auth_method", None)
    if not wrong.silent_method:
        found["token_endpoint_auth_method"] = client.method
    if client.secret:
        found |= {"client_secret": client.secret, "client_secret_expires_at": 0}
    return as_json(found, 201)


def _jwks(auth: AuthServer, request: Request) -> Response:
    if auth.misbehaviour.jwks_fails:
        return as_json({"error": "server_error"}, 500)
    return as_json(auth.keys.jwks(auth.misbehaviour.stale_jwks), headers={"cache-control": "max-age=60"})


def _introspect(auth: AuthServer, request: Request) -> Response:
    """RFC 7662. Raises: OAuthError."""
    if auth.misbehaviour.introspection_fails:
        return as_json({"error": "server_error"}, 500)
    form = request.form
    if auth.clients.authenticate(request, form).method == "none":
        raise OAuthError("invalid_client", "who asks has to show who it is", 401)
    access = auth.tokens.access(form.need("token"))
    if access is None or access.expires <= auth.now():
        return as_json({"active": False})
    kind = "DPoP" if access.grant.key else "Bearer"
    return as_json({**access.claims, "active": True, "token_type": kind, "username": access.grant.subject})


def _revoke(auth: AuthServer, request: Request) -> Response:
    """RFC 7009. Raises: OAuthError."""
    form = request.form
    auth.tokens.revoke(form.need("token"), auth.clients.authenticate(request, form).id)
    return as_json({})


ENDPOINTS: dict[str, tuple[tuple[str, ...], Endpoint]] = {
    "authorize": (("GET", "POST"), authorize),
    "token": (("POST",), token),
    "register": (("POST",), _register),
    "jwks": (("GET",), _jwks),
    "introspect": (("POST",), _introspect),
    "revoke": (("POST",), _revoke),
}
