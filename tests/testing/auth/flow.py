"""A client that does as it is told, right or wrong."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

from backchannel.testing.auth import AuthServer
from backchannel.testing.auth.web import Response

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
REDIRECT = "http://127.0.0.1:5000/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
RESOURCE = "https://shop.test/mcp"
NATIVE = {
    "redirect_uris": ["http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "token_endpoint_auth_method": "none",
    "application_type": "native",
    "client_name": "A test",
}


class Time:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Flow:
    """The requests of a client. A parameter that is given as None is left out."""

    auth: AuthServer
    client_id: str = "app"
    headers: dict[str, str] = field(default_factory=dict)

    def post(self, endpoint: str, headers: dict[str, str] | None = None, **parameters: Any) -> Response:
        body = urlencode({name: value for name, value in parameters.items() if value is not None}, doseq=True)
        sent = {**FORM, **self.headers, **(headers or {})}
        return self.auth.fetch("POST", self.auth.endpoint(endpoint), sent, body.encode())

    def register(self, **metadata: Any) -> Response:
        """Register, and be that client from now on."""
        body = {name: value for name, value in {**NATIVE, **metadata}.items() if value is not None}
        reply = self.auth.fetch("POST", self.auth.endpoint("register"), JSON, json.dumps(body).encode())
        self.client_id = reply.json.get("client_id", "")
        return reply

    def url(self, **parameters: Any) -> str:
        """Where the browser goes."""
        asked = {
            "client_id": self.client_id,
            "response_type": "code",
            "redirect_uri": REDIRECT,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "a-state",
            "resource": RESOURCE,
            **parameters,
        }
        query = urlencode({name: value for name, value in asked.items() if value is not None}, doseq=True)
        return f"{self.auth.endpoint('authorize')}?{query}"

    def authorize(self, **parameters: Any) -> dict[str, str]:
        """What the redirect says."""
        return redirected(self.auth.visit(self.url(**parameters)))

    def exchange(self, code: str, headers: dict[str, str] | None = None, **parameters: Any) -> Response:
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": VERIFIER,
            "redirect_uri": REDIRECT,
            "client_id": self.client_id,
            **parameters,
        }
        return self.post("token", headers, **asked)

    def login(self, **parameters: Any) -> dict[str, Any]:
        """The whole way. Returns the token endpoint's answer."""
        reply = self.exchange(self.authorize(**parameters)["code"])
        assert reply.status == 200, reply.body
        answer: dict[str, Any] = reply.json
        return answer

    def refresh(self, refresh_token: str, **parameters: Any) -> Response:
        asked = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": self.client_id}
        return self.post("token", **{**asked, **parameters})


def redirected(url: str) -> dict[str, str]:
    """The parameters in a URL."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def claims(token: str) -> dict[str, Any]:
    """What a JWT says, unverified."""
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def basic(name: str, secret: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


def signed(key: ECKey, content: dict[str, Any], **header: Any) -> str:
    return jwt.encode({"alg": "ES256", **header}, content, key, ["ES256"])


def error(reply: Response) -> str:
    """The error code in an answer."""
    code: str = reply.json["error"]
    return code
