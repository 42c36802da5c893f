"""Ending a login at the authorization server too (RFC 7009)."""

from __future__ import annotations

import msgspec

from . import stored_token
from .discovery import find_issuer
from .steps import Fetched, Flow
from .token_request import prepare
from .well_known import secure


def revoke(server: str, client_secret: str | None = None) -> Flow[bool]:
    """Have the authorization server end the login that is stored for this server. With a refresh token all that came of
    it ends. Returns whether it did; some cannot.

    client_secret: of a client that was registered beforehand.

    Raises: LoginFailed, ConnectionFailed.
    """
    stored = yield from stored_token.load(server)
    metadata = (yield from find_issuer(stored.issuer)) if stored is not None else None
    if stored is None or metadata is None or metadata.revocation_endpoint is None:
        return False
    endpoint = secure(metadata.revocation_endpoint, f"the revocation_endpoint of {stored.issuer}")
    client = stored.client
    if not client.registered:  # its secret is not stored
        client = msgspec.structs.replace(client, client_secret=client_secret)
    hint = "refresh_token" if stored.refresh_token is not None else "access_token"
    token = {"token": stored.refresh_token or stored.access_token, "token_type_hint": hint}
    response: Fetched = yield (yield from prepare(endpoint, client, token, None))
    return response.status == 200
