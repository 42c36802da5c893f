"""The authorization request: a person logs in with the browser, and a code comes back (basic/authorization,
Authorization Flow Steps)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit, urlunsplit

from ...errors import LoginFailed
from ...one_line import one_line
from . import pkce
from .discovery import Discovered
from .documents import ServerMetadata
from .registration import Registration
from .scopes import OFFLINE
from .steps import Flow, OpenBrowser, WaitForRedirect


@dataclass(frozen=True)
class Code:
    """What a token is issued for, once."""

    code: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_uri: str

    def parameters(self, resource: str) -> dict[str, str]:
        """Of the token request."""
        return {
            "grant_type": "authorization_code",
            "code": self.code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": resource,
        }


def request_code(found: Discovered, client: Registration, redirect_uri: str, scopes: tuple[str, ...]) -> Flow[Code]:
    """Have a person log in, and take the code.

    Raises: LoginFailed, TimeoutError where nobody came.
    """
    endpoint = found.issuer.authorization_endpoint
    if endpoint is None:
        raise LoginFailed(f"{found.issuer.issuer} has no authorization endpoint, so nobody can log in there")
    pkce.require(found)
    secrets = yield from pkce.new()
    given = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": secrets.challenge,
        "code_challenge_method": "S256",
        "state": secrets.state,
        "resource": found.resource,
        **({"scope": " ".join(scopes)} if scopes else {}),
        **({"prompt": "consent"} if OFFLINE in scopes else {}),  # OpenID Connect Core, 11: else it is ignored
    }
    yield OpenBrowser(_with_query(endpoint, given))
    while True:
        answer: Mapping[str, str] = yield WaitForRedirect(redirect_uri)
        # "discard any results that do not include or have a mismatch with the original state" (Open Redirection)
        if hmac.compare_digest(answer.get("state", "").encode(), secrets.state.encode()):
            break
    return Code(_code(answer, found.issuer), secrets.verifier, redirect_uri)


def _code(answer: Mapping[str, str], issuer: ServerMetadata) -> str:
    """The code, if it comes from the authorization server that was asked (Authorization Response Validation)."""
    sender = answer.get("iss")
    if sender is None and issuer.authorization_response_iss_parameter_supported:
        raise LoginFailed(f"the answer to the login does not say that it is of {issuer.issuer}, so it is not used")
    if sender is not None and sender != issuer.issuer:  # "simple string comparison"
        raise LoginFailed(f"the answer to the login is not of {issuer.issuer}, so it is not used")
    if error := answer.get("error"):
        why = ": ".join(part for part in (error, answer.get("error_description")) if part)
        raise LoginFailed(f"{issuer.issuer} refused the login: {one_line(why)}", error=error)
    if code := answer.get("code"):
        return code
    raise LoginFailed(f"the answer of {issuer.issuer} to the login has no code")


def _with_query(endpoint: str, parameters: Mapping[str, str]) -> str:
    """ "The endpoint URI MAY include [a] query component, which MUST be retained" (RFC 6749, 3.1)."""
    parts = urlsplit(endpoint)
    query = "&".join(part for part in (parts.query, urlencode(parameters)) if part)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
