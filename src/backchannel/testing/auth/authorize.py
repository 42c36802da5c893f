"""The authorization endpoint: where a person lets a client in, or the server does it for them."""

from __future__ import annotations

import hmac
import re
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .clients import RegisteredClient
from .tokens import Grant, code_for
from .web import OAuthError, Params, Request, Response, as_page, as_redirect

if TYPE_CHECKING:
    from .server import AuthServer

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Allow access?</title>
<body style="font-family: sans-serif; max-width: 32em; margin: 4em auto"><p><b>Not for production:</b> a server for
development and tests.</p><h1>Allow {client} access?</h1><p>It would act for <b>{subject}</b> at {resources}, with the
scopes <b>{scopes}</b>, and you return to <b>{host}</b>.</p><form method="post"><input type="hidden" name="consent"
value="{consent}"><button name="answer" value="allow">Allow</button> <button name="answer" value="deny">Deny</button>
</form>"""
_REFUSAL = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Refused</title><p>{text}</p>'


def authorize(auth: AuthServer, request: Request) -> Response:
    """Redirect with a code or an error, or show a page: one for consent, or what is wrong where no redirect URI can be
    trusted."""
    try:
        asked = request.asked
        client = auth.clients.find(asked.need("client_id"))
        redirect = client.redirect(asked.get("redirect_uri"), auth.misbehaviour.exact_ports)
    except OAuthError as error:
        return as_page(_REFUSAL.format(text=escape(f"{error.error}: {error.description}")), 400)
    try:
        grant = _grant(auth, client, asked)
        if auth.consent and request.method != "POST":
            return _ask(auth, client, grant, redirect)
        if auth.consent:
            _answered(auth, request)
        if auth.misbehaviour.refuse:
            raise OAuthError(auth.misbehaviour.refuse, "refused")
    except OAuthError as error:
        return _back(auth, asked, redirect, error=error.error, error_description=error.description)
    given = bool(asked.get("redirect_uri"))
    code = code_for(grant, redirect, given, asked.get("code_challenge"), auth.now())
    return _back(auth, asked, redirect, code=auth.tokens.code(code))


def _grant(auth: AuthServer, client: RegisteredClient, asked: Params) -> Grant:
    """What is asked for. Raises: OAuthError."""
    client.may("authorization_code")
    if asked.need("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type has to be code")
    if asked.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(asked.need("code_challenge")):
        raise OAuthError("invalid_request", "PKCE with S256 is required")
    return Grant(
        client.id,
        auth.subject,
        auth.granted(asked.get("scope")),
        auth.resources_for(asked.all("resource")),
        key=asked.get("dpop_jkt"),
        nonce=asked.get("nonce"),
    )


def _ask(auth: AuthServer, client: RegisteredClient, grant: Grant, redirect: str) -> Response:
    """The page for consent. It names where the person returns to (basic/authorization/security-considerations)."""
    values = {
        "client": client.name or client.id,
        "subject": grant.subject,
        "resources": ", ".join(grant.resources) or "any server",
        "scopes": " ".join(grant.scopes) or "none",
        "host": urlsplit(redirect).netloc or redirect,
        "consent": auth.consent_key,
    }
    return as_page(_PAGE.format(**{name: escape(value) for name, value in values.items()}))


def _answered(auth: AuthServer, request: Request) -> None:
    """Raises: OAuthError unless the person has said yes, on our page."""
    form = request.form
    if (
        not hmac.compare_digest(form.get("consent").encode(), auth.consent_key.encode())
        or form.get("answer") != "allow"
    ):
        raise OAuthError("access_denied", "the person has said no")


def _back(auth: AuthServer, asked: Params, redirect: str, **values: str) -> Response:
    """A redirect with `state` and `iss` (RFC 9207)."""
    wrong = auth.misbehaviour
    state = asked.get("state") if wrong.redirect_state is None else wrong.redirect_state
    return as_redirect(redirect, {**values, "state": state, "iss": auth.named(wrong.redirect_iss)})
