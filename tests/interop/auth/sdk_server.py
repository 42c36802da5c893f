"""A server of the official Python SDK, protected by its own authorization server."""

from __future__ import annotations

import secrets
import time
from typing import Any

from fastmcp.server.auth.identity_assertion import IdentityAssertionValidator
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    IdentityAssertionParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

LASTS = 3600  # seconds


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Lets everybody in, and keeps everything in memory. validator: of the assertions of identity providers."""

    def __init__(self) -> None:
        self.validator: IdentityAssertionValidator | None = None
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, tuple[RefreshToken, str | None]] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_urlsafe(),
            client_id=client.client_id,
            scopes=params.scopes or ["read"],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh[refresh_token][0] if refresh_token in self.refresh else None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        _, resource = self.refresh.pop(refresh_token.token)
        return self._issue(refresh_token.client_id, scopes or refresh_token.scopes, resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        assert self.validator is not None and client.client_id is not None
        claims = await self.validator.validate(
            params.assertion, client_id=client.client_id, resource_url=params.resource
        )
        token = self._issue(client.client_id, claims["scope"].split(), claims["resource"])
        return token.model_copy(update={"refresh_token": None})

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=int(time.time()) + LASTS, resource=resource
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes), resource
        return OAuthToken(access_token=access, expires_in=LASTS, scope=" ".join(scopes), refresh_token=refresh)


def make(origin: str, provider: Provider) -> Any:
    """The app at an origin: the server, and the authorization server beside it."""
    settings: dict[str, Any] = {
        "issuer_url": origin,
        "resource_server_url": f"{origin}/mcp",
        "required_scopes": ["read"],
        "validate_token_resource": True,
        "identity_assertion_enabled": provider.validator is not None,
        "client_registration_options": ClientRegistrationOptions(
            enabled=True, valid_scopes=["read"], default_scopes=["read"]
        ),
    }
    server = MCPServer("sdk", log_level="ERROR", auth=AuthSettings(**settings), auth_server_provider=provider)

    @server.tool()
    async def who() -> str:
        """Tell who calls."""
        token = get_access_token()
        assert token is not None
        return f"{' '.join(token.scopes)} for {token.resource}"

    return server.streamable_http_app()
