"""The official Python SDK's client, and how it logs in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.client import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.interop.auth.browser import Browser

REDIRECT = "http://127.0.0.1:3030/callback"  # where nobody listens: the redirect is read, and not followed
MODES: dict[str, Any] = {"legacy": "legacy", "modern": "2026-07-28"}


class Storage(TokenStorage):
    """In memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@asynccontextmanager
async def calling(url: str, version: str, auth: Any) -> AsyncIterator[Client]:
    """A client that has tokens from somewhere. auth: of the official SDK."""
    async with create_mcp_http_client(auth=auth) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=MODES[version]) as client:
            yield client


def person(url: str, browser: Browser, document: str | None = None) -> OAuthClientProvider:
    """What logs in with a browser. document: the URL of the client's own metadata, in place of a registration."""
    came: list[str] = []

    async def visit(where: str) -> None:
        came.append(await browser.follow(where))

    async def answer() -> AuthorizationCodeResult:
        found = parse_qs(urlsplit(came.pop()).query)
        return AuthorizationCodeResult(code=found["code"][0], state=found["state"][0], iss=found["iss"][0])

    metadata = OAuthClientMetadata(
        client_name="official", redirect_uris=[AnyUrl(REDIRECT)], grant_types=["authorization_code", "refresh_token"]
    )
    return OAuthClientProvider(url, metadata, Storage(), visit, answer, client_metadata_url=document)
