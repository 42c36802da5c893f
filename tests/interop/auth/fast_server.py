"""A server of FastMCP, protected by its own authorization server."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token


class Provider(InMemoryOAuthProvider):
    """FastMCP's own, which lets everybody in."""

    def __init__(self, origin: str) -> None:
        options = ClientRegistrationOptions(enabled=True, valid_scopes=["read"], default_scopes=["read"])
        super().__init__(base_url=origin, client_registration_options=options, required_scopes=["read"])


def make(provider: Provider) -> Any:
    """The app: the server, and the authorization server beside it."""
    server = FastMCP("fast", auth=provider)

    @server.tool
    async def who() -> str:
        """Tell who calls."""
        token = get_access_token()
        assert token is not None
        return " ".join(token.scopes)

    return server.http_app(path="/mcp")
