"""A person who has logged in to the enterprise needs no login at each server: its identity provider vouches for them
(extensions/auth, Enterprise-Managed Authorization)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Unpack

import msgspec

from ...errors import ConfigurationError, LoginFailed
from . import well_known
from .discovery import Discovered, find_issuer
from .documents import read
from .private_key import PrivateKey
from .registration import Registration, method_for
from .steps import Flow
from .supplied import Supplier, given, text_of
from .token_request import prepare, refusal
from .unattended import Options, Unattended
from .workload import JWT_BEARER

_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_TYPE = "urn:ietf:params:oauth:token-type:"
_ID_JAG = f"{_TYPE}id-jag"


class Exchanged(msgspec.Struct, frozen=True):
    """The answer to a token exchange (RFC 8693, 2.2.1)."""

    access_token: str
    issued_token_type: str

    def __repr__(self) -> str:
        return f"Exchanged({self.issued_token_type!r})"


@dataclass(frozen=True)
class IdentityProvider:
    """Where the people of an enterprise log in. issuer: its URL.  client_id, and client_secret or private_key: as this
    client is registered there.  token_endpoint: default as its metadata say."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    private_key: PrivateKey | None = None
    token_endpoint: str | None = None

    def endpoint(self) -> Flow[tuple[str, tuple[str, ...] | None]]:
        """Its token endpoint, and the ways in which a client can show there who it is, if it says so.

        Raises: LoginFailed.
        """
        if self.token_endpoint is not None:
            return well_known.secure(self.token_endpoint, "the token endpoint of the identity provider"), None
        metadata = yield from find_issuer(self.issuer)
        if metadata is None:
            raise LoginFailed(f"the identity provider {self.issuer} publishes no metadata: give its token_endpoint")
        return metadata.token_endpoint, metadata.token_endpoint_auth_methods_supported


class EnterpriseManaged(Unattended):
    """Tokens for a person whom an identity provider knows: `Client(url, auth=EnterpriseManaged(provider, id_token,
    "id", "secret"))`.

    provider: where the person has logged in.  identity: the ID token that was issued then, or a function that gives
    the one that is good now; it is called for each token.  identity_type: "id_token", or "refresh_token" or "saml2" if
    it is one of these.  client_id, and client_secret or private_key: as registered with the authorization server of
    the MCP server.  options: `scopes`, `issuer` and more, as in Options.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        provider: IdentityProvider,
        identity: str | Supplier,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: PrivateKey | None = None,
        identity_type: Literal["id_token", "refresh_token", "saml2"] = "id_token",
        **options: Unpack[Options],
    ):
        if not client_id:
            raise ConfigurationError("the authorization server knows this client by a client_id")
        super().__init__(client_id, client_secret, private_key, **options)
        self._provider = provider
        self._identity = given("a person's identity", identity)
        self._identity_type = identity_type

    def grant(self, found: Discovered, scopes: list[str]) -> Flow[dict[str, str]]:
        """What the token is issued for: an assertion of the identity provider, which is for one use."""
        return {"grant_type": JWT_BEARER, "assertion": (yield from self._assertion(found, scopes))}

    def _assertion(self, found: Discovered, scopes: list[str]) -> Flow[str]:
        """Exchange the person's identity for an assertion that the server's authorization server takes (Token
        Exchange). It is no access token, and its type says so: "N_A" (RFC 8693, 2.2.1)."""
        provider = self._provider
        endpoint, methods = yield from provider.endpoint()
        client = Registration(
            issuer=provider.issuer,
            client_id=provider.client_id,
            client_secret=provider.client_secret,
            method="private_key_jwt" if provider.private_key else method_for(provider.client_secret, methods),
        )
        parameters = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            # "MUST be the issuer identifier of the Resource Authorization Server"
            "audience": found.issuer.issuer,
            "resource": found.resource,
            **({"scope": " ".join(scopes)} if scopes else {}),
            "subject_token": (yield from text_of(self._identity)),
            "subject_token_type": _TYPE + self._identity_type,
        }
        response = yield (yield from prepare(endpoint, client, parameters, provider.private_key))
        if error := refusal(response, provider.issuer):
            raise error
        exchanged = read(response, Exchanged, f"the answer of {provider.issuer}")
        if exchanged.issued_token_type != _ID_JAG:
            raise LoginFailed(f"{provider.issuer} issued another kind of token than was asked for")
        return exchanged.access_token
