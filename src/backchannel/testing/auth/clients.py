"""The clients of an authorization server, how they register and how they show who they are."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from .keys import peek, read
from .web import OAuthError, Params, Request

METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class RegisteredClient:
    """A client that the server knows.

    secret: for client_secret_basic and client_secret_post.  jwks: for private_key_jwt.  redirects: None for any on
    loopback.  method: how it shows who it is at the token endpoint.  grants: the grant types that it may use.
    known_as: its ids at other authorization servers, by issuer (for token exchange).
    """

    id: str
    secret: str = field(default="", repr=False)
    jwks: dict[str, Any] | None = field(default=None, repr=False)
    redirects: tuple[str, ...] | None = None
    method: str = "none"
    grants: tuple[str, ...] = ("authorization_code", "refresh_token")
    name: str = ""
    known_as: Mapping[str, str] = field(default_factory=dict)

    def redirect(self, given: str, exact_ports: bool) -> str:
        """The redirect URI to use. Raises: OAuthError for one that is not registered."""
        if not given and self.redirects is not None and len(self.redirects) == 1:
            return self.redirects[0]
        if self.redirects is None and is_loopback(given):
            return given
        for known in self.redirects or ():
            if given == known or (
                not exact_ports and is_loopback(known) and _without_port(given) == _without_port(known)
            ):
                return given
        raise OAuthError("invalid_request", "redirect_uri is not one that the client has registered")

    def may(self, grant: str) -> None:
        """Raises: OAuthError if it may not use a grant type."""
        if grant not in self.grants:
            raise OAuthError("unauthorized_client", f"the client is not registered for {grant}")


class Clients:
    """All that are known.

    audiences: what a client assertion may be for: the issuer and the token endpoint.  methods: that are supported.
    """

    def __init__(self, methods: Sequence[str], audiences: Callable[[], Sequence[str]], now: Callable[[], float]):
        self.methods = tuple(methods)
        self._audiences = audiences
        self._now = now
        self._known: dict[str, RegisteredClient] = {}
        self._seen: set[str] = set()

    def __contains__(self, client_id: str) -> bool:
        return client_id in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, client: RegisteredClient) -> None:
        """Know a client."""
        self._known[client.id] = client

    def forget(self) -> None:
        """Know no client any more."""
        self._known.clear()

    def find(self, client_id: str) -> RegisteredClient:
        """Raises: OAuthError for an unknown one."""
        if (client := self._known.get(client_id)) is None:
            raise OAuthError("invalid_client", "the client is unknown", 401)
        return client

    def authenticate(self, request: Request, form: Params) -> RegisteredClient:
        """The client that sends a request, by the method that it has registered. Raises: OAuthError."""
        basic = request.headers.get("authorization", "")
        used = {
            "client_secret_basic": basic[:6].lower() == "basic ",
            "client_secret_post": bool(form.get("client_secret")),
            "private_key_jwt": bool(form.get("client_assertion")),
        }
        methods = [method for method, there in used.items() if there] or ["none"]
        if len(methods) > 1:
            raise OAuthError("invalid_request", "the client shows who it is in more than one way")
        headers = {"www-authenticate": 'Basic realm="token"'} if methods == ["client_secret_basic"] else None
        try:
            client = self._by(methods[0], basic, form)
        except ValueError as error:
            raise OAuthError("invalid_client", str(error), 401, headers) from None
        if client.method != methods[0]:
            text = f"the client has registered {client.method}, and used {methods[0]}"
            raise OAuthError("invalid_client", text, 401, headers)
        return client

    def _by(self, method: str, basic: str, form: Params) -> RegisteredClient:
        """Raises: ValueError, OAuthError."""
        if method == "private_key_jwt":
            return self._by_assertion(form)
        client_id, secret = form.need("client_id") if method != "client_secret_basic" else "", form.get("client_secret")
        if method == "client_secret_basic":
            client_id, secret = _credentials(basic)
        client = self.find(client_id)
        if method != "none" and not hmac.compare_digest(secret.encode(), client.secret.encode()):
            raise ValueError("the secret is wrong")
        return client

    def _by_assertion(self, form: Params) -> RegisteredClient:
        """RFC 7523, 3. Raises: ValueError, OAuthError."""
        if form.get("client_assertion_type") != ASSERTION_TYPE:
            raise ValueError("client_assertion_type is wrong")
        assertion = form.need("client_assertion")
        client = self.find(form.get("client_id") or str(peek(assertion).get("sub", "")))
        _, claims = read(assertion, client.jwks or {"keys": []})
        if not client.id == claims.get("iss") == claims.get("sub"):
            raise ValueError("iss and sub of the assertion have to be the client's id")
        check_assertion(claims, self._audiences(), self._now())
        if not claims.get("jti") or claims["jti"] in self._seen:
            raise ValueError("the assertion has no jti, or was used before")
        self._seen.add(claims["jti"])
        return client


def check_assertion(claims: Mapping[str, Any], audiences: Sequence[str], now: float) -> None:
    """Raises: ValueError if a JWT is for somebody else, or has expired."""
    audience = claims.get("aud", ())
    for_whom = {audience} if isinstance(audience, str) else set(audience)
    if not for_whom & {form for known in audiences for form in (known, f"{known.rstrip('/')}/")}:
        raise ValueError("the assertion is for another audience")
    expires, begins = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(expires, int | float) or expires <= now or begins > now:
        raise ValueError("the assertion has expired, or is not valid yet")


def register(metadata: Any, methods: Sequence[str], forced: str, web_by_default: bool) -> RegisteredClient:
    """A client out of what it says of itself (RFC 7591; OpenID Connect Dynamic Client Registration).

    forced: its authentication method, whatever it asks for.  Raises: OAuthError.
    """
    if not isinstance(metadata, dict):
        raise OAuthError("invalid_client_metadata", "the metadata have to be a JSON object")
    grants = tuple(metadata.get("grant_types") or ("authorization_code",))
    redirects = metadata.get("redirect_uris") or []
    if "authorization_code" in grants and not redirects:
        raise OAuthError("invalid_redirect_uri", "redirect_uris are missing")
    native = metadata.get("application_type", "web") == "native"
    for uri in redirects:
        check_redirect(uri, native, loopback=native or not web_by_default)
    method = forced or metadata.get("token_endpoint_auth_method") or "client_secret_basic"
    if method not in methods and not forced:
        method = methods[0]
    return RegisteredClient(
        id=secrets.token_urlsafe(12),
        secret=secrets.token_urlsafe(24) if method.startswith("client_secret") else "",
        jwks=metadata.get("jwks"),
        redirects=tuple(redirects),
        method=method,
        grants=grants,
        name=str(metadata.get("client_name", "")),
    )


def check_redirect(uri: Any, native: bool, loopback: bool) -> None:
    """Raises: OAuthError for a redirect URI that is not HTTPS, not on loopback and not a scheme of an application."""
    try:
        parts = urlsplit(uri)
        own_scheme = "." in parts.scheme and native
        if not parts.fragment and ((parts.scheme == "https" and parts.hostname) or own_scheme):
            return
        if not parts.fragment and loopback and is_loopback(uri):
            return
    except (ValueError, AttributeError, TypeError):
        pass
    raise OAuthError("invalid_redirect_uri", "a redirect URI has to be https, or on loopback for a native application")


def is_loopback(uri: str) -> bool:
    """Whether only this machine can be meant."""
    try:
        parts = urlsplit(uri)
        return parts.scheme in ("http", "https") and parts.hostname in LOOPBACK
    except ValueError:
        return False


def _without_port(uri: str) -> str:
    """A loopback URI without its port, which may be any (RFC 8252, 7.3)."""
    if not is_loopback(uri):
        return ""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.hostname or "").geturl()


def _credentials(header: str) -> tuple[str, str]:
    """Id and secret in an Authorization header (RFC 6749, 2.3.1). Raises: ValueError."""
    try:
        name, _, secret = base64.b64decode(header[6:], validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("the Authorization header is malformed") from None
    return unquote_plus(name), unquote_plus(secret)
