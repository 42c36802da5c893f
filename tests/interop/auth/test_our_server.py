"""Clients of others log in to a server of ours, at authorization servers that others and we made."""

from __future__ import annotations

import asyncio
import webbrowser
from typing import Any

import fastmcp
import pytest
from fastmcp.client.auth import OAuth as FastOAuth
from joserfc.jwk import ECKey
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

from backchannel.testing import AuthServer
from tests.interop.auth import ours
from tests.interop.auth.browser import Browser
from tests.interop.auth.official_client import REDIRECT, Storage, calling, person
from tests.interop.auth.trail import WAY_TO_OURS, Trail

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
ERAS = pytest.mark.parametrize("version", ["legacy", "modern"])
DOCUMENT = "https://app.test/client.json"


@ERAS
@pytest.mark.parametrize(("kind", "name"), [("ours", "alice"), ("authlib", "grace")])
async def test_the_official_client(version: str, kind: str, name: str) -> None:
    trail, browser = Trail(), Browser()
    async with ours.protected(kind, trail) as url, calling(url, version, person(url, browser)) as client:
        result = await client.call_tool("who")
        assert result.content[0].text == f"{name} with read"  # type: ignore[union-attr]
        assert trail.way == WAY_TO_OURS and len(browser.pages) == 1


@ERAS
async def test_the_official_client_with_a_document_in_place_of_a_registration(version: str) -> None:
    trail, browser = Trail(), Browser()
    said = {"client_id": DOCUMENT, "client_name": "official", "redirect_uris": [REDIRECT]}
    auth = AuthServer(scopes=["read"], documents={DOCUMENT: said})
    async with ours.protected("ours", trail, auth) as url:
        async with calling(url, version, person(url, browser, DOCUMENT)) as client:
            result = await client.call_tool("who")
            assert result.content[0].text == "alice with read"  # type: ignore[union-attr]
            assert trail.way == [step for step in WAY_TO_OURS if step != "registration"]


@pytest.mark.parametrize(("kind", "name"), [("ours", "alice"), ("authlib", "grace")])
@pytest.mark.filterwarnings("ignore:Using in-memory token storage")
async def test_fastmcps_client(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trail, browser, tabs = Trail(), Browser(), set()

    def open_tab(url: str) -> bool:
        tabs.add(asyncio.ensure_future(browser.show(url)))
        return True

    monkeypatch.setattr(webbrowser, "open", open_tab)
    async with ours.protected(kind, trail) as url, fastmcp.Client(url, auth=FastOAuth()) as client:
        result = await client.call_tool("who")
        assert result.content[0].text == f"{name} with read"
        assert trail.way == WAY_TO_OURS
        await asyncio.gather(*tabs)


# Without a person.

UNATTENDED = [step for step in WAY_TO_OURS if step not in ("registration", "authorization")]


async def call(url: str, version: str, provider: Any) -> str:
    """Who the server says calls."""
    async with calling(url, version, provider) as client:
        result = await client.call_tool("who")
        return result.content[0].text  # type: ignore[union-attr]


@ERAS
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_the_official_clients_secret(version: str, method: Any) -> None:
    trail, auth = Trail(), AuthServer(scopes=["read"])
    auth.add_client("robot", "a: secret%", method=method)
    async with ours.protected("ours", trail, auth) as url:
        provider = ClientCredentialsOAuthProvider(
            url, Storage(), "robot", "a: secret%", token_endpoint_auth_method=method, issuer=auth.issuer
        )
        assert await call(url, version, provider) == "robot with read"
        assert trail.way == UNATTENDED


@ERAS
async def test_the_official_clients_private_key(version: str) -> None:
    trail, auth, key = Trail(), AuthServer(scopes=["read"]), ECKey.generate_key("P-256")
    auth.add_client("robot", jwks={"keys": [key.as_dict(private=False)]})
    signs = SignedJWTParameters(
        issuer="robot", subject="robot", signing_key=key.as_pem(private=True).decode(), signing_algorithm="ES256"
    )
    async with ours.protected("ours", trail, auth) as url:
        provider = PrivateKeyJWTOAuthProvider(
            url, Storage(), "robot", signs.create_assertion_provider(), issuer=auth.issuer
        )
        assert await call(url, version, provider) == "robot with read"
        assert trail.way == UNATTENDED


@ERAS
async def test_the_official_clients_identity_assertion(version: str) -> None:
    trail, auth = Trail(), AuthServer(scopes=["read"])
    company = AuthServer("https://idp.test", subject="ada")
    auth.trust(company)
    auth.add_client("app", "secret", method="client_secret_post")

    async def assertion(audience: str, resource: str) -> str:
        return company.id_jag(audience=audience, client="app", resource=resource, scope="read")

    async with ours.protected("ours", trail, auth) as url:
        provider = IdentityAssertionOAuthProvider(url, Storage(), "app", "secret", auth.issuer, assertion)
        assert await call(url, version, provider) == "ada with read"
        assert trail.way[-4:] == ["token", "server metadata", "keys", "call"]
