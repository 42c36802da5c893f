"""Tokens that are of no use to who finds them: each request proves that its sender has the key that the token is bound
to (RFC 9449; extensions/auth, DPoP).

How it works: a proof is a JWT for one request, so it has the method, the URL, the time, and a name that is used once. A
server may want a nonce of its own in it. It says so by refusing the first request; every answer may bring the next
nonce. They are kept for each server, apart for its tokens and its resources.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from ...errors import ConfigurationError, LoginFailed
from .documents import TokenResponse, error_in, read
from .signing import ES256, SigningKey
from .steps import Fetch, Fetched, Flow, Load, Now, Random, Save

SCHEME = "DPoP"
KEY = "dpop-key"
"""Under which the key is stored: tokens that are stored are bound to it."""
ENTROPY = 16
"""Bytes of the name of a proof."""
_NONCE = "dpop-nonce"
_LONGEST = 1000  # characters of a nonce


class Prover:
    """Proves the possession of `key`, and remembers what servers want in a proof."""

    def __init__(self, key: SigningKey):
        self.key = key
        self._nonces: dict[tuple[str, bool], str] = {}

    def __repr__(self) -> str:
        return "Prover()"

    def proof(self, method: str, url: str, now: float, random: bytes, token: str | None = None) -> str:
        """A proof for one request, as its header `DPoP` has it.

        now: seconds since the epoch.  random: bytes that are used only once.  token: the access token that goes with
        the request; None where one is asked for.
        """
        parts = urlsplit(url)
        claims: dict[str, str | int] = {
            "jti": random.hex(),
            "htm": method,
            # "without query and fragment parts" (RFC 9449, section 4.2)
            "htu": urlunsplit((parts.scheme, parts.netloc, parts.path or "/", "", "")),
            "iat": int(now),
        }
        if token is not None:
            claims["ath"] = _digest(token)
        if nonce := self._nonces.get((_origin(url), token is not None)):
            claims["nonce"] = nonce
        return self.key.sign({"typ": "dpop+jwt", "jwk": self.key.public}, claims)

    def headers(self, method: str, url: str, now: float, random: bytes, token: str) -> dict[str, str]:
        """The headers that a request to a resource has, with the token. The arguments are those of `proof`."""
        return {"authorization": f"{SCHEME} {token}", "dpop": self.proof(method, url, now, random, token)}

    def learn(self, url: str, headers: Mapping[str, str], *, resource: bool) -> bool:
        """Take the nonce that a response has. Returns whether it has one.

        headers: names in lower case.  resource: whether the response is of a resource, and not of an authorization
        server.
        """
        nonce = headers.get(_NONCE, "")
        if not nonce or len(nonce) > _LONGEST:
            return False
        self._nonces[_origin(url), resource] = nonce
        return True

    def send(self, request: Fetch) -> Flow[Fetched]:
        """Send a token request with a proof. Where the server wants its nonce in the proof, that is learned, and the
        request can be sent again (RFC 9449, section 8).

        Raises: LoginFailed for a token that is not bound: who finds it could use it.
        """
        now, random = (yield Now()), (yield Random(ENTROPY))
        proof = self.proof(request.method, request.url, now, random)
        response: Fetched = yield replace(request, headers={**request.headers, "dpop": proof})
        self.learn(request.url, response.headers, resource=False)
        # A server that knows no DPoP leaves the proof out of account, and the type of the token tells (section 5).
        if response.status < 300 and not error_in(response).error:
            given = read(response, TokenResponse, "the token response")
            if given.token_type.lower() != SCHEME.lower():
                raise LoginFailed("the authorization server binds no tokens to keys, and dpop=True wants them bound")
        return response


def stored_prover() -> Flow[Prover]:
    """A prover with the stored key, or with a new one that is stored.

    Raises: ConfigurationError without the extra `auth`.
    """
    stored: bytes | None = yield Load(KEY)
    if stored is not None:
        try:
            return Prover(SigningKey(stored, ES256))
        except ConfigurationError:  # it cannot be read; a new key also means new tokens
            pass
    prover = Prover(SigningKey.generate())
    yield Save(KEY, prover.key.to_json())
    return prover


def _digest(token: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(token.encode("ascii", "replace")).digest()).rstrip(b"=").decode()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
