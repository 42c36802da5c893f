"""A program that calls a server for itself, and not for a person (extensions/auth, OAuth Client Credentials)."""

from __future__ import annotations

from typing import Unpack

from ...errors import ConfigurationError
from .discovery import Discovered
from .private_key import PrivateKey
from .steps import Flow
from .unattended import Options, Unattended


class ClientCredentials(Unattended):
    """Tokens for a client that was registered beforehand: `Client(url, auth=ClientCredentials("id", "secret"))`.

    client_id, and client_secret or private_key: as registered.  options: `scopes`, `issuer` and more, as in Options.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: PrivateKey | None = None,
        **options: Unpack[Options],
    ):
        if not client_id or (client_secret is None and private_key is None):
            raise ConfigurationError("client credentials are a client_id, and a client_secret or a private_key")
        super().__init__(client_id, client_secret, private_key, **options)

    def grant(self, found: Discovered, scopes: list[str]) -> Flow[dict[str, str]]:
        """What the token is issued for."""
        return {"grant_type": "client_credentials"}
        yield
