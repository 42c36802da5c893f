"""How a client is known to an authorization server, and how it becomes so (basic/authorization/client-registration)."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import msgspec

from ...errors import LoginFailed
from ...one_line import one_line
from .discovery import Discovered
from .documents import RegistrationResponse, error_in, read
from .steps import Fetch, Fetched, Flow, Load, Save
from .well_known import is_loopback

Method = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
_METHODS: tuple[Method, ...] = ("none", "client_secret_basic", "client_secret_post")
"""That a client which registers itself can use; the first that the server supports is chosen."""
_NOT_THERE = (401, 403, 404, 405)
"""What an assumed endpoint answers with that is none: the server is no authorization server."""


class Registration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A client as one authorization server knows it. method: by which it shows who it is to the token endpoint.
    registered: by itself, so it can be done again; `scope`, `redirect_uri`: with which.  expires_at: of the secret,
    seconds since the epoch."""

    issuer: str
    client_id: str
    client_secret: str | None = None
    method: Method = "none"
    registered: bool = False
    redirect_uri: str | None = None
    scope: tuple[str, ...] = ()
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"Registration({self.client_id!r} at {self.issuer!r})"


def load(issuer: str, now: float) -> Flow[Registration | None]:
    """What was registered with this authorization server before: "keyed by the authorization server's `issuer`
    identifier" (Authorization Server Binding)."""
    stored: bytes | None = yield Load(_key(issuer))
    try:
        found = msgspec.json.decode(stored or b"", type=Registration)
    except (msgspec.DecodeError, RecursionError):
        return None
    if found.issuer != issuer or (found.expires_at and found.expires_at <= now):
        return None
    return found


def forget(client: Registration) -> Flow[None]:
    """Register anew the next time, unless that was done meanwhile."""
    known = yield from load(client.issuer, 0.0)
    if known is not None and known.client_id == client.client_id:
        yield Save(_key(client.issuer), None)


def register(
    found: Discovered, name: str, redirect_uri: str, scopes: tuple[str, ...], earlier: tuple[str, ...] = ()
) -> Flow[Registration]:
    """Dynamic Client Registration (RFC 7591). Deprecated, for authorization servers that know no client ID metadata
    documents.

    scopes: that are about to be asked for; those that either server supports are registered too, for later: another
    registration is another client, and what belongs to this one would not be its.  earlier: those of the registration
    that this one takes the place of: other MCP servers may need them.

    Raises: LoginFailed.
    """
    issuer = found.issuer
    if issuer.registration_endpoint is None:
        text = f"{issuer.issuer} registers no clients by itself: give OAuth(client_id=...) that you registered there"
        raise LoginFailed(text)
    supported = issuer.token_endpoint_auth_methods_supported
    method = next((one for one in _METHODS if supported is None or one in supported), _METHODS[0])
    scopes = tuple(dict.fromkeys([*scopes, *(found.scopes or ()), *(issuer.scopes_supported or ()), *earlier]))
    wanted = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": application_type(redirect_uri),
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    headers = {"content-type": "application/json", "accept": "application/json"}
    response: Fetched = yield Fetch("POST", issuer.registration_endpoint, headers, msgspec.json.encode(wanted))
    if response.status not in (200, 201):
        raise _refused(response, found, redirect_uri)
    given = read(response, RegistrationResponse, f"the registration of {issuer.issuer}")
    registration = Registration(
        issuer=issuer.issuer,
        client_id=given.client_id,
        client_secret=given.client_secret or None,
        method=_method(given, supported),
        registered=True,
        redirect_uri=redirect_uri,
        scope=scopes,
        expires_at=given.client_secret_expires_at or None,
    )
    yield Save(_key(issuer.issuer), msgspec.json.encode(registration))
    return registration


def method_for(secret: str | None, supported: tuple[str, ...] | None) -> Method:
    """How a client with or without a secret shows who it is: with Basic, if the server does not say otherwise (RFC
    8414, 2)."""
    if secret is None:
        return "none"
    return "client_secret_post" if supported and "client_secret_basic" not in supported else "client_secret_basic"


def application_type(redirect_uri: str) -> str:
    """ "MCP clients MUST specify an appropriate `application_type`" (Application Type and Redirect URI Constraints)."""
    parts = urlsplit(redirect_uri)
    return "web" if parts.scheme == "https" and not is_loopback(parts.hostname) else "native"


def _method(given: RegistrationResponse, supported: tuple[str, ...] | None) -> Method:
    for method in _METHODS:
        if given.token_endpoint_auth_method == method and (method == "none" or given.client_secret):
            return method
    return method_for(given.client_secret or None, supported)


def _refused(response: Fetched, found: Discovered, redirect_uri: str) -> LoginFailed:
    error, issuer = error_in(response), found.issuer.issuer
    if found.assumed and response.status in _NOT_THERE:
        said = f"it publishes no metadata, and registers no clients (HTTP {response.status} from {response.url})"
        return LoginFailed(f"{issuer} does not say how to log in: {said}")
    why = ": ".join(part for part in (error.error, error.error_description) if part) or f"HTTP {response.status}"
    text = f"{issuer} did not register this client with the redirect to {redirect_uri}: {one_line(why)}"
    return LoginFailed(text, error=error.error)


def _key(issuer: str) -> str:
    return f"client {issuer}"
