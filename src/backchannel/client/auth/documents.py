"""The JSON documents of authorization, as far as a client reads them. What is not as it should be is an error that
names the place, but never shows what may be a secret."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ...errors import LoginFailed
from .steps import Fetched

T = TypeVar("T", bound=msgspec.Struct)


class ResourceMetadata(msgspec.Struct, frozen=True):
    """Of a protected resource (RFC 9728, 2)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Of an authorization server (RFC 8414, 2; OpenID Connect Discovery, 3)."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    client_id_metadata_document_supported: bool | None = None


class RegistrationResponse(msgspec.Struct, frozen=True):
    """RFC 7591, 3.2.1."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None

    def __repr__(self) -> str:
        return f"RegistrationResponse({self.client_id!r})"


class TokenResponse(msgspec.Struct, frozen=True):
    """RFC 6749, 5.1. Some servers write the number as a text."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: float | str | None = None
    scope: str | None = None
    refresh_token: str | None = None

    def __repr__(self) -> str:
        return f"TokenResponse({self.token_type!r})"


class ErrorDocument(msgspec.Struct, frozen=True):
    """RFC 6749, 5.2; RFC 7591, 3.2.2."""

    error: str = ""
    error_description: str = ""


def read(response: Fetched, type: type[T], what: str) -> T:
    """The document in a response.

    what: its name, for the message.

    Raises: LoginFailed.
    """
    try:
        return msgspec.json.decode(response.body, type=type)
    except (msgspec.DecodeError, RecursionError) as error:
        why = str(error) if isinstance(error, msgspec.ValidationError) else "it is no JSON"
        raise LoginFailed(f"{what} cannot be read: {why}") from None


def error_in(response: Fetched) -> ErrorDocument:
    """The error that the response speaks of, or an empty one. Some servers send errors with HTTP 200."""
    try:
        found: Any = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, RecursionError):
        return ErrorDocument()
    if not isinstance(found, dict):
        return ErrorDocument()
    texts = [found.get(name) for name in ("error", "error_description")]
    return ErrorDocument(*(text if isinstance(text, str) else "" for text in texts))
