"""Our client logs in to servers that others protect, in their way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp.server.auth.identity_assertion import IdentityAssertion, IdentityAssertionValidator
from mcp.shared.auth import OAuthClientInformationFull

from backchannel import Client, EnterpriseManaged, IdentityProvider, Loopback, OAuth
from backchannel.server.http.listen import bind
from backchannel.testing import AuthServer
from backchannel.testing.serving import origin, serving
from tests.interop.auth import fast_server, ours, sdk_server
from tests.interop.auth.browser import Browser
from tests.interop.auth.trail import WAY, WAY_TO_OURS, Trail

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
ERAS = pytest.mark.parametrize("version", ["legacy", "modern"])
RENEWED = ["refused", "resource metadata", "server metadata", "token", "call"]
"""The way when a token has ended that can be refreshed."""


class Login:
    """A client that has to log in, and what it does for that."""

    def __init__(self) -> None:
        self.browser, self.trail = Browser(), Trail()
        self.auth = OAuth(redirect=Loopback(show=self.browser.show))

    def client(self, url: str, version: str) -> Client:
        return Client(url, version=version, auth=self.auth)


@asynccontextmanager
async def served(login: Login, make: Callable[[str], Any]) -> AsyncIterator[str]:
    """Serve an app that is made for an origin. Gives the origin."""
    with bind("127.0.0.1", 0) as listener:
        async with serving(login.trail.before(make(origin(listener))), listener) as where:
            yield where


async def log_in_and_refresh(login: Login, url: str, version: str, end: Callable[[], Any], expected: str) -> None:
    """Call a tool, end all access tokens, and call it again."""
    async with login.client(url, version) as client:
        assert (await client.call_tool("who")).text == expected
        assert login.trail.way == WAY
        end()
        login.trail.forget()
        assert (await client.call_tool("who")).text == expected
        assert login.trail.way == RENEWED
    login.trail.forget()
    async with login.client(url, version) as client:
        assert (await client.call_tool("who")).text == expected
        assert login.trail.way == ["call"]
    assert len(login.browser.pages) == 1


@ERAS
async def test_a_server_of_the_official_sdk(version: str) -> None:
    login, provider = Login(), sdk_server.Provider()
    async with served(login, lambda where: sdk_server.make(where, provider)) as where:
        expected = f"read for {where}/mcp"
        await log_in_and_refresh(login, f"{where}/mcp", version, provider.access.clear, expected)


@ERAS
async def test_a_server_of_fastmcp(version: str) -> None:
    login, made = Login(), []

    def make(where: str) -> Any:
        made.append(fast_server.Provider(where))
        return fast_server.make(made[0])

    async with served(login, make) as where:
        await log_in_and_refresh(login, f"{where}/mcp", version, lambda: made[0].access_tokens.clear(), "read")


@ERAS
@pytest.mark.parametrize(("kind", "person"), [("ours", "alice"), ("authlib", "grace")])
async def test_a_server_of_ours(version: str, kind: str, person: str) -> None:
    """And two authorization servers that share no code."""
    login = Login()
    async with ours.protected(kind, login.trail) as url, login.client(url, version) as client:
        assert (await client.call_tool("who")).text == f"{person} with read"
        assert login.trail.way == WAY_TO_OURS and len(login.browser.pages) == 1


@ERAS
async def test_an_enterprises_assertion_at_a_server_of_the_official_sdk(version: str) -> None:
    """An ID-JAG of ours, which FastMCP's validator checks."""
    login, provider = Login(), sdk_server.Provider()
    company = AuthServer("https://idp.test", subject="ada")
    info = {"client_id": "app", "client_secret": "secret", "token_endpoint_auth_method": "client_secret_basic"}
    grants = ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    provider.clients["app"] = OAuthClientInformationFull.model_validate(
        {**info, "redirect_uris": None, "grant_types": grants}
    )
    async with company.running() as idp:

        def make(where: str) -> Any:
            company.add_client("app-at-idp", "hush", known_as={where: "app"})
            trust = IdentityAssertion(trusted_issuers=[idp], algorithm="ES256")
            provider.validator = IdentityAssertionValidator(trust, where)
            return sdk_server.make(where, provider)

        async with served(login, make) as where:
            auth = EnterpriseManaged(
                IdentityProvider(idp, "app-at-idp", "hush"), company.id_token(client="app-at-idp"), "app", "secret"
            )
            async with Client(f"{where}/mcp", version=version, auth=auth) as client:
                assert (await client.call_tool("who")).text == f"read for {where}/mcp"
    assert login.trail.way == [step for step in WAY if step not in ("registration", "authorization")]
    assert company.count("token") == 1
