"""The token endpoint: requests of every grant, and what it answers (RFC 6749, 3.2 and 5)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus, urlencode

from ...errors import LoginFailed
from ...one_line import one_line
from .documents import TokenResponse, error_in, read
from .private_key import PrivateKey
from .registration import Registration
from .steps import Fetch, Fetched, Flow, Now, Random, Token

Send = Callable[[Fetch], Flow[Fetched]]
_TYPES = {"bearer": "Bearer", "dpop": "DPoP"}
_ENTROPY = 16  # bytes, which a client assertion is named by


def plain(request: Fetch) -> Flow[Fetched]:
    """Send a token request as it is."""
    response: Fetched = yield request
    return response


def request_token(
    endpoint: str,
    client: Registration,
    parameters: Mapping[str, str],
    *,
    key: PrivateKey | None = None,
    send: Send = plain,
) -> Flow[Token]:
    """A token from the token endpoint at this URL.

    parameters: of the grant, without those by which the client shows who it is.  key: for `private_key_jwt`.  send:
    sends the request, say with a proof of possession.

    Raises: LoginFailed, with the server's code as its `error`.
    """
    now: float = yield Now()
    response = yield from send((yield from prepare(endpoint, client, parameters, key)))
    if error_in(response).error == "use_dpop_nonce" and "dpop-nonce" in response.headers:
        # The sender has it now. The request is made anew, since an assertion is for one use.
        response = yield from send((yield from prepare(endpoint, client, parameters, key)))
    return _token(response, now, client.issuer).over(Token("", scope=parameters.get("scope")))


def prepare(endpoint: str, client: Registration, parameters: Mapping[str, str], key: PrivateKey | None) -> Flow[Fetch]:
    """The request, with what shows who the client is. The arguments are those of `request_token`."""
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    body = dict(parameters)
    if client.client_id:
        body["client_id"] = client.client_id  # with Basic too: some servers look for it here alone
    if client.method == "client_secret_basic":
        # "encoded using the application/x-www-form-urlencoded encoding algorithm" (RFC 6749, 2.3.1)
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret or '')}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif client.method == "client_secret_post":
        body["client_secret"] = client.client_secret or ""
    elif client.method == "private_key_jwt" and key is not None:
        now, random = (yield Now()), (yield Random(_ENTROPY))
        body |= key.assertion(client.client_id, client.issuer, now, random)
    return Fetch("POST", endpoint, headers, urlencode(body).encode())


def refusal(response: Fetched, issuer: str) -> LoginFailed | None:
    """What a token endpoint says where it issues no token."""
    error = error_in(response)
    if response.status in (200, 201) and not error.error:
        return None
    why = ": ".join(part for part in (error.error, error.error_description) if part) or f"HTTP {response.status}"
    return LoginFailed(f"{issuer} issued no token: {one_line(why)}", error=error.error)


def _token(response: Fetched, now: float, issuer: str) -> Token:
    if error := refusal(response, issuer):
        raise error
    given = read(response, TokenResponse, f"the token response of {issuer}")
    kind = _TYPES.get(given.token_type.lower())
    if kind is None or not given.access_token or not all("!" <= char <= "~" for char in given.access_token):
        raise LoginFailed(f"{issuer} issued a token that cannot be used")
    life = _seconds(given.expires_in)
    return Token(
        given.access_token,
        kind,
        given.scope,
        now + life if life is not None else None,
        given.refresh_token or None,
        now,
    )


def _seconds(value: float | str | None) -> float | None:
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < 1e12 else None
