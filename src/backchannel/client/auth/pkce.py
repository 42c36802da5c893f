"""Proof Key for Code Exchange: who asks for the code is who uses it (RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field

from ...errors import LoginFailed
from .discovery import Discovered
from .steps import Flow, Random

_ENTROPY = 32  # bytes; in base64url they are 43 characters, the fewest that RFC 7636 allows


@dataclass(frozen=True)
class Secrets:
    """Of one authorization request. `challenge` is the only one that is no secret."""

    verifier: str = field(repr=False)
    challenge: str
    state: str = field(repr=False)


def new() -> Flow[Secrets]:
    """Secrets for one request, from 32 random bytes each."""
    verifier, state = _text((yield Random(_ENTROPY))), _text((yield Random(_ENTROPY)))
    return Secrets(verifier, _text(hashlib.sha256(verifier.encode()).digest()), state)


def require(found: Discovered) -> None:
    """ "If `code_challenge_methods_supported` is absent, the authorization server does not support PKCE and MCP clients
    MUST refuse to proceed" (basic/authorization/security-considerations, Authorization Code Protection). A server of
    2025-03-26 without metadata cannot say so. Raises: LoginFailed."""
    if not found.assumed and "S256" not in (found.issuer.code_challenge_methods_supported or ()):
        raise LoginFailed(
            f"the authorization server {found.issuer.issuer} does not say that it supports PKCE with S256"
        )


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
