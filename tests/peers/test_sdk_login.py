"""The official SDK's client (mcp 2.3.0) logs in to our server, which is protected, and steps up for a tool that needs
more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from backchannel import BearerAuth, http_app
from backchannel.server.http.listen import bind
from backchannel.testing.auth import AuthServer, serving
from tests.interop.auth.official_client import Storage
from tests.server.auth.bank import bank

pytestmark = pytest.mark.anyio
LEGACY, MODERN = "2025-11-25", "2026-07-28"


@asynccontextmanager
async def protected() -> AsyncIterator[tuple[AuthServer, str]]:
    """The authorization server, and the URL of the server it protects."""
    there = AuthServer(scopes=["read", "pay"])
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    async with there.running() as issuer:
        app = http_app(bank(), auth=BearerAuth(issuer=issuer, resource=url, scopes=["read"]))
        async with serving(app, listener):
            yield there, url


def provider(there: AuthServer, url: str) -> OAuthClientProvider:
    """The SDK's login, with a browser that agrees to everything."""
    visited: list[str] = []

    async def visit(page: str) -> None:
        visited.append(there.visit(page))

    async def returned() -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(visited[-1]).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    redirects: list[Any] = ["http://127.0.0.1:1/callback"]
    metadata = OAuthClientMetadata(redirect_uris=redirects, client_name="sdk", token_endpoint_auth_method="none")
    return OAuthClientProvider(url, metadata, Storage(), visit, returned)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_it_logs_in_once_and_steps_up_once(version: str) -> None:
    with anyio.fail_after(30):
        async with (
            protected() as (there, url),
            httpx2.AsyncClient(auth=provider(there, url)) as http,
            Client(
                streamable_http_client(url, http_client=http), mode="legacy" if version == LEGACY else version
            ) as sdk,
        ):
            for tool, expected in (("whoami", "alice"), ("pay", "paid"), ("pay", "paid")):
                result = await sdk.call_tool(tool, {})
                assert not result.is_error and result.content[0].text == expected  # type: ignore[union-attr]
            asked = [one["scope"].split() for one in there.seen("authorize")]
            assert asked[0] == ["read"] and sorted(asked[1]) == ["pay", "read"] and len(asked) == 2
            assert {one["resource"] for one in there.seen("authorize")} == {url}
