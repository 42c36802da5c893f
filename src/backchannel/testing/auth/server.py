"""An OAuth 2.1 authorization server that lives in a test."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ...errors import ConfigurationError
from ...server.http.listen import bind
from ..serving import serving
from .asgi import WARNING, beside, serve
from .assertions import ID_JAG_TYP, claims_of_id_jag
from .clients import METHODS, Clients, RegisteredClient
from .documents import client_of, is_document
from .endpoints import route
from .keys import Keys
from .metadata import GRANTS
from .misbehaviour import Misbehaviour
from .proofs import Proofs
from .tokens import Access, Grant, Tokens
from .web import OAuthError, Request, Response

logger = logging.getLogger("backchannel.testing.auth")


class AuthServer:
    """An authorization server for development and tests. NOT FOR PRODUCTION: it lets everybody in as `subject` without
    a password, keeps all in memory, and serves this machine only.

    ```python
    async with AuthServer(scopes=["read"]).running() as issuer:
        app = http_app(server, auth=BearerAuth(issuer=issuer, audience=...))
    ```

    It is an ASGI app, too, and `fetch` answers without any I/O. It knows the grants authorization_code with PKCE,
    refresh_token with rotation, client_credentials, jwt-bearer (ID-JAGs and other JWTs of who is trusted) and
    token-exchange (to an ID-JAG); dynamic registration, client ID metadata documents, RFC 8414 and OpenID Connect
    metadata, JWKS, introspection, revocation, resource indicators, DPoP and `iss` in the redirect.

    issuer: its URL; `running()` puts the real origin in place of its own, and keeps the path.
    prefix: of the paths of its endpoints, such as "/oauth", which come after the issuer's path.
    misbehaviour: what it does wrong. May be exchanged at any time.
    subject: who lets clients in.  consent: ask on a page first.
    scopes: that exist; others are refused. With "offline_access" only who asks for that gets a refresh token.
    resources: that tokens can be asked for; None for any.
    audience: of tokens that no resource was asked for; default the issuer.
    methods: of client authentication at the token endpoint.
    registration, client_documents: whether clients can register, and have an URL for an id.
    documents: client ID metadata documents by URL, which are not fetched then.
    lifetime: of access tokens, in seconds.  opaque: they are no JWTs.
    dpop_required, dpop_nonces: whether the token endpoint insists on DPoP, and on nonces in it.
    algorithm: to sign with, such as "ES256" or "RS256".  clock: seconds since the epoch.

    Raises: ConfigurationError without joserfc.
    """

    def __init__(
        self,
        issuer: str = "https://auth.test",
        *,
        prefix: str = "",
        misbehaviour: Misbehaviour | None = None,
        subject: str = "alice",
        consent: bool = False,
        scopes: Sequence[str] = (),
        resources: Sequence[str] | None = None,
        audience: str = "",
        methods: Sequence[str] = METHODS,
        registration: bool = True,
        client_documents: bool = True,
        documents: Mapping[str, Any] | None = None,
        lifetime: float = 3600.0,
        opaque: bool = False,
        dpop_required: bool = False,
        dpop_nonces: bool = False,
        algorithm: str = "ES256",
        clock: Callable[[], float] = time.time,
    ):
        self.issuer = issuer
        self.prefix = prefix
        self.misbehaviour = misbehaviour or Misbehaviour()
        self.subject = subject
        self.consent = consent
        self.consent_key = secrets.token_urlsafe(16)
        self.scopes = tuple(scopes)
        self.resources = resources if resources is None else tuple(resources)
        self.audience = audience
        self.registration = registration
        self.client_documents = client_documents
        self.documents = dict(documents or {})
        self.lifetime = lifetime
        self.opaque = opaque
        self.dpop_required = dpop_required
        self.now = clock
        self.keys = Keys(algorithm)
        self.clients = Clients(methods, lambda: (self.issuer, self.endpoint("token")), clock)
        self.tokens = Tokens()
        self.proofs = Proofs(clock, dpop_nonces)
        self.trusted: dict[str, Callable[[], dict[str, Any]]] = {}
        self.requests: list[Request] = []
        """All that was asked, in order."""
        self._once: set[str] = set()

    # What a test arranges and looks at

    def add_client(self, client_id: str, secret: str = "", **options: Any) -> RegisteredClient:
        """Know a client beforehand. secret: for client_secret_basic, unless `method` is another.

        options: see RegisteredClient. By default all grant types are allowed, and all redirects on loopback.
        """
        method = "client_secret_basic" if secret else "private_key_jwt" if options.get("jwks") else "none"
        client = RegisteredClient(client_id, secret, **{"method": method, "grants": GRANTS, **options})
        self.clients.add(client)
        return client

    def trust(self, issuer: str | AuthServer, jwks: Mapping[str, Any] | None = None) -> None:
        """Accept JWTs of another issuer for an access token.

        issuer: its URL, with the public keys in `jwks`; or another AuthServer.
        """
        if isinstance(issuer, AuthServer):
            self.trusted[issuer.issuer] = issuer.keys.jwks
        elif jwks is not None:
            self.trusted[issuer] = lambda: dict(jwks)
        else:
            raise ConfigurationError("trust() takes another AuthServer, or an issuer and jwks=")

    def count(self, endpoint: str, **parameters: str) -> int:
        """How many requests went to an endpoint, such as "token", with parameters like grant_type="refresh_token"."""
        return len(self.seen(endpoint, **parameters))

    def seen(self, endpoint: str, **parameters: str) -> list[dict[str, str]]:
        """The parameters of the requests to an endpoint, such as "authorize", with `parameters` among them."""
        path = self.path(endpoint)
        found = [request.parameters for request in self.requests if request.path == path]
        return [one for one in found if parameters.items() <= one.items()]

    def visit(self, url: str) -> str:
        """What a browser would do at the authorization endpoint: returns where it is redirected to.

        Raises: OAuthError if it is shown a page instead.
        """
        response = self.fetch("GET", url)
        if "location" not in response.headers:
            raise OAuthError("invalid_request", f"no redirect, but a page with status {response.status}")
        return response.headers["location"]

    def fetch(self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Response:
        """The answer to a request, without I/O. Client ID metadata documents come from `documents` only."""
        parts = urlsplit(url)
        names = {name.lower(): value for name, value in (headers or {}).items()}
        request = Request(method, parts.path, parts.query, names, body)
        if (document := self.document(request)) in self.documents:
            self.clients.add(client_of(document, self.documents[document]))
        return route(self, request)

    def issue(
        self,
        subject: str = "",
        *,
        audience: str | Sequence[str] = "",
        scopes: Sequence[str] | str = (),
        client: str = "test-client",
        expires_in: float | None = None,
        key: str = "",
        forged: str = "",
        kind: str = "at+jwt",
        **claims: Any,
    ) -> str:
        """An access token, without a login.

        audience: default the server's.  scopes: a list, or one text.  expires_in: seconds; negative for one that has
        expired.  key: the thumbprint of the DPoP key that it is bound to.  forged: see Keys.forge.  kind: its `typ`.
        claims: more of them, or others; None leaves one out.
        """
        resources = (audience,) if isinstance(audience, str) else tuple(audience)
        parts = tuple(scopes.split()) if isinstance(scopes, str) else tuple(scopes)
        grant = Grant(client, subject or self.subject, parts, tuple(filter(None, resources)), key)
        lasts = self.lifetime if expires_in is None else expires_in
        content = {name: value for name, value in {**self._claims(grant, lasts), **claims}.items() if value is not None}
        if forged:
            return self.keys.forge(content, forged, kind)
        text = secrets.token_urlsafe(24) if self.opaque else self.keys.sign(content, kind)
        self.tokens.add(text, Access(grant, content, self.now() + lasts))
        return text

    def id_token(self, subject: str = "", *, client: str = "test-client", **claims: Any) -> str:
        """An identity token (OpenID Connect)."""
        now = int(self.now())
        content = {"iss": self.issuer, "sub": subject or self.subject, "aud": client, "iat": now}
        return self.keys.sign({**content, "exp": now + int(self.lifetime), **claims})

    def id_jag(self, subject: str = "", *, audience: str, client: str, **claims: Any) -> str:
        """An identity assertion for another authorization server. audience: its issuer.  client: its client's id."""
        content = claims_of_id_jag(self.issuer, subject or self.subject, audience, client, self.now())
        return self.keys.sign({**content, **claims}, ID_JAG_TYP)

    # What its endpoints need

    def endpoint(self, name: str) -> str:
        """The URL of an endpoint."""
        return f"{self.issuer.rstrip('/')}{self.prefix}/{name}"

    def path(self, name: str) -> str:
        """The path of an endpoint."""
        return urlsplit(self.endpoint(name)).path

    def document(self, request: Request) -> str:
        """The URL of a metadata document that is needed to know who sends a request, "" for none."""
        client_id = request.parameters.get("client_id", "")
        unknown = self.client_documents and client_id not in self.clients and is_document(client_id)
        return client_id if unknown else ""

    def named(self, template: str) -> str:
        """An issuer that Misbehaviour names."""
        return template.replace("{issuer}", self.issuer)

    def granted(self, scope: str) -> tuple[str, ...]:
        """The scopes that a client gets: what it asks for, else all but offline_access. Raises: OAuthError."""
        asked = tuple(scope.split())
        if self.scopes and not set(asked) <= {*self.scopes, "openid"}:
            raise OAuthError("invalid_scope", "a scope that is asked for does not exist")
        return asked or tuple(one for one in self.scopes if one != "offline_access")

    def resources_for(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """The resources that a client gets a token for. Raises: OAuthError (RFC 8707, 2)."""
        wrong = [uri for uri in asked if not urlsplit(uri).scheme or "#" in uri]
        if wrong or (self.resources is not None and not set(asked) <= set(self.resources)):
            raise OAuthError("invalid_target", "a resource that is asked for does not exist")
        return asked

    def access_token(self, grant: Grant) -> str:
        """A new access token for a grant, as Misbehaviour would have it."""
        wrong = self.misbehaviour
        lasts = -60.0 if wrong.expired else self.lifetime
        content = {**self._claims(grant, lasts), "iss": self.named(wrong.token_issuer)}
        if wrong.token_audience is not None:
            content["aud"] = wrong.token_audience
        text = secrets.token_urlsafe(24) if self.opaque else self.keys.sign(content, "at+jwt")
        self.tokens.add(text, Access(grant, content, self.now() + lasts))
        return text

    def once(self, name: str) -> None:
        """Raises: OAuthError for the id of an assertion that was used before."""
        if name in self._once:
            raise OAuthError("invalid_grant", "the assertion was used before")
        self._once.add(name)

    def _claims(self, grant: Grant, lasts: float) -> dict[str, Any]:
        """RFC 9068, 2.2."""
        now = int(self.now())
        audience: Any = list(grant.resources) if len(grant.resources) > 1 else "".join(grant.resources)
        claims = {
            "iss": self.issuer,
            "sub": grant.subject,
            "aud": audience or self.audience or self.issuer,
            "client_id": grant.client,
            "iat": now,
            "exp": int(now + lasts),
            "jti": secrets.token_hex(8),
            "scope": " ".join(grant.scopes),
        }
        return {**claims, **({"cnf": {"jkt": grant.key}} if grant.key else {})}

    # Serving

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve as an ASGI app."""
        await serve(self, scope, receive, send)

    @contextlib.asynccontextmanager
    async def running(self, app: Any = None, port: int = 0) -> AsyncIterator[str]:
        """Listen on loopback. Gives the issuer.

        app: what is served at all paths that are not its own, such as an MCP server on the same origin.  port: 0 for
        one that is free.

        Raises: ConfigurationError on another event loop than asyncio, and without uvicorn.
        """
        async with serving(beside(self, app) if app is not None else self, bind("127.0.0.1", port)) as origin:
            before = self.issuer
            self.issuer = origin + urlsplit(before).path
            logger.info("%s at %s", WARNING, self.issuer)
            try:
                yield self.issuer
            finally:
                self.issuer = before
