"""How client and server get to know each other: `initialize` (2025-11-25 basic/lifecycle) and `server/discover`."""

from __future__ import annotations

from typing import Any

from .base import Implementation, Meta, Wire, meta
from .requests import RequestParams


class InitializeParams(RequestParams, kw_only=True):
    """Params of `initialize`. Capabilities stay an open map, so that unknown ones are kept."""

    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation


class InitializeResult(Wire):
    """The server's answer to `initialize`."""

    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | None = None
    meta: Meta | None = meta()


class DiscoverResult(Wire):
    """The server's answer to `server/discover`. `ttl_ms` in milliseconds."""

    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | None = None
    ttl_ms: int | None = None
    cache_scope: str | None = None
    meta: Meta | None = meta()
