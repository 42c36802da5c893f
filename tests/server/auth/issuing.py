"""What the tests of authorization share: an authorization server without a network, and requests without an app."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from backchannel.protocol.http import Headers
from backchannel.server.auth.bearer import BearerAuth
from backchannel.server.auth.fetch import Fetched
from backchannel.server.auth.jose import encode_base64
from backchannel.server.auth.refusal import Unavailable

ISSUER = "https://as.test"
RESOURCE = "https://mcp.test/mcp"
JWKS = f"{ISSUER}/keys"
METADATA = f"{ISSUER}/.well-known/oauth-authorization-server"
INTROSPECT = f"{ISSUER}/introspect"
NOW = 1_800_000_000.0


class Clock:
    """Seconds since the epoch, as the test says."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@cache
def key(kid: str, kind: str = "EC") -> Any:
    """A key pair. kind: EC, EC384, RSA or OKP."""
    parameters = {"kid": kid}
    if kind == "RSA":
        return RSAKey.generate_key(2048, parameters)
    if kind == "OKP":
        return OKPKey.generate_key("Ed25519", parameters)
    return ECKey.generate_key("P-384" if kind == "EC384" else "P-256", parameters)


def sign(claims: dict[str, Any], pair: Any, **header: Any) -> str:
    """A signed token. header: replaces its members; None leaves one out."""
    given = {"alg": "ES256", "typ": "at+jwt", "kid": pair.kid, **header}
    named = {name: value for name, value in given.items() if value is not None}
    registry = JWSRegistry(algorithms=[named["alg"]], strict_check_header=False)
    return jwt.encode(named, claims, pair, registry=registry, default_type=None)


class AuthorizationServer:
    """Answers what a server asks it, from `documents`. asked: what was asked.  down: it cannot be reached."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.asked: list[str] = []
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.down = False
        self.documents: dict[str, Any] = {
            METADATA: {"issuer": ISSUER, "jwks_uri": JWKS, "introspection_endpoint": INTROSPECT}
        }
        self.publish("one")

    def publish(self, *kids: str) -> None:
        """Publish these keys, and no others."""
        self.documents[JWKS] = {"keys": [key(kid).as_dict(private=False) for kid in kids]}

    async def fetch(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Fetched:
        self.asked.append(f"{method} {url}")
        self.bodies.append(body)
        self.headers.append(headers)
        if self.down:
            raise Unavailable("the network is down")
        document = self.documents.get(url)
        if document is None:
            return Fetched(404, b"")
        if isinstance(document, Fetched):
            return document
        return Fetched(200, json.dumps(document).encode())

    def token(self, kid: str = "one", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """An access token for ada. claims: replace its own; None leaves one out."""
        return sign(self.claims(**claims), key(kid), **(header or {}))

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(self.clock.now)
        own = {
            "iss": ISSUER,
            "aud": RESOURCE,
            "sub": "ada",
            "client_id": "app",
            "scope": "read",
            "iat": now,
            "exp": now + 300,
        }
        return {name: value for name, value in {**own, **claims}.items() if value is not None}

    def auth(self, **options: Any) -> BearerAuth:
        """What a server takes this one's tokens by."""
        return BearerAuth(**{"issuer": ISSUER, "resource": RESOURCE, **self.reached, **options})

    @property
    def reached(self) -> dict[str, Any]:
        return {"fetch": self.fetch, "clock": self.clock}


def request(
    token: str | None = None,
    *,
    scheme: str = "Bearer",
    method: str = "POST",
    path: str = "/mcp",
    root: str = "",
    host: str = "mcp.test",
    **headers: str,
) -> tuple[dict[str, Any], Headers]:
    """A request with this token, as an app gets it: the scope, and the headers."""
    scope = {"type": "http", "method": method, "path": path, "root_path": root, "scheme": "https"}
    named = {"host": host, **headers}
    if token is not None:
        named["authorization"] = f"{scheme} {token}"
    return scope, Headers([(name.encode(), value.encode()) for name, value in named.items()])


def challenges(headers: list[tuple[bytes, bytes]]) -> list[str]:
    return [value.decode() for name, value in headers if name == b"www-authenticate"]


def proof(pair: Any, token: str, now: float, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A DPoP proof for a POST to RESOURCE. claims, header: replace its own; None leaves one out."""
    own = {
        "jti": "proof 1",
        "htm": "POST",
        "htu": RESOURCE,
        "iat": int(now),
        "ath": encode_base64(hashlib.sha256(token.encode()).digest()),
    }
    named = {name: value for name, value in {**own, **claims}.items() if value is not None}
    return sign(named, pair, **{"typ": "dpop+jwt", "kid": None, "jwk": pair.as_dict(private=False), **(header or {})})
