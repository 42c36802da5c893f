"""Client ID metadata documents: a client whose id is the URL of what it says of itself
(basic/authorization/client-registration, Client ID Metadata Documents)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from .clients import METHODS, RegisteredClient, check_redirect, is_loopback
from .web import OAuthError

_LARGEST = 65536  # bytes
_PATIENCE = 5.0  # seconds
_FORBIDDEN = ("client_secret_basic", "client_secret_post", "client_secret_jwt")


def is_document(client_id: str) -> bool:
    """Whether a client's id is the URL of a document: https, or on loopback, with a path and no fragment."""
    try:
        parts = urlsplit(client_id)
        there = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(client_id))
        return there and len(parts.path) > 1 and not parts.fragment and not parts.username
    except ValueError:
        return False


def client_of(url: str, document: Any) -> RegisteredClient:
    """The client that a document describes. Raises: OAuthError for one that is not as it has to be."""
    if not isinstance(document, dict) or document.get("client_id") != url:
        raise OAuthError("invalid_client", "client_id in the document has to be the document's URL", 401)
    redirects = document.get("redirect_uris")
    if not document.get("client_name") or not isinstance(redirects, list) or not redirects:
        raise OAuthError("invalid_client_metadata", "the document needs client_name and redirect_uris")
    for uri in redirects:
        check_redirect(uri, native=True, loopback=True)
    method = document.get("token_endpoint_auth_method", "none")
    if method not in METHODS or method in _FORBIDDEN or "client_secret" in document:
        raise OAuthError("invalid_client_metadata", "a client with a public document has no secret")
    return RegisteredClient(
        id=url,
        jwks=document.get("jwks"),
        redirects=tuple(redirects),
        method=method,
        grants=tuple(document.get("grant_types") or ("authorization_code",)),
        name=str(document["client_name"]),
    )


async def client_at(url: str, documents: Mapping[str, Any]) -> RegisteredClient:
    """The client whose document is at a URL, with the keys at its `jwks_uri`. Raises: OAuthError."""
    document = await _fetch(url, documents)
    client = client_of(url, document)
    if client.method == "private_key_jwt" and client.jwks is None:
        return replace(client, jwks=await _fetch(str(document.get("jwks_uri")), documents))
    return client


async def _fetch(url: str, documents: Mapping[str, Any]) -> Any:
    """What is at a URL, out of `documents` or the network. Raises: OAuthError."""
    if url in documents:
        return documents[url]
    if not is_document(url):
        raise OAuthError("invalid_client", "the client's document cannot be fetched", 401)
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with session.get(url, allow_redirects=False) as reply:
                body = await reply.content.read(_LARGEST + 1)
                if reply.status != 200 or len(body) > _LARGEST:
                    raise OAuthError("invalid_client", "the client's document cannot be fetched", 401)
                return json.loads(body)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        raise OAuthError("invalid_client", "the client's document cannot be fetched", 401) from None
