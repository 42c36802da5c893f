"""Finding out what a server speaks, and bringing the connection up (basic/versioning; basic/transports, Backward
Compatibility)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..errors import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_VERSION,
    RemoteProtocolError,
    RequestTimeout,
    UnsupportedVersion,
)
from ..protocol.types.base import Implementation
from ..protocol.types.bringup import DiscoverResult, InitializeResult
from ..protocol.versions import LATEST_LEGACY, LATEST_MODERN, META_SERVER_INFO, SUPPORTED, Era, Version, choose, parse
from .connection import Clock, Connection

logger = logging.getLogger("backchannel.client")
_MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION})
"""Codes that only a server of the stateless protocol sends."""
PROBE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the server said of itself. Not verified."""

    version: Version
    info: Implementation | None = None
    capabilities: dict[str, Any] = field(default_factory=dict)
    instructions: str | None = None


async def connect(
    connection: Connection, version: str, *, timeout: float | None = None, probe_timeout: float = PROBE_TIMEOUT
) -> ServerInfo:
    """Bring an open connection up.

    version: "auto" probes with `server/discover` and falls back to `initialize`; "modern" and "legacy" keep to one era;
    a version's name keeps to that version.  timeout: seconds for each step.  probe_timeout: seconds that a server may
    stay silent on the probe before it counts as legacy.

    Raises: UnsupportedVersion, RemoteProtocolError, ConnectionLost, RequestTimeout, AuthRequired.
    """
    if version == "auto":
        found = await _probe(connection, LATEST_MODERN, probe_timeout)
        return found if found is not None else await _initialize(connection, LATEST_LEGACY, timeout, exact=False)
    if version in ("modern", "legacy"):
        era = Era(version)
        wanted = LATEST_MODERN if era is Era.MODERN else LATEST_LEGACY
    else:
        exact = parse(version)
        if exact is None:
            raise UnsupportedVersion(version, [known.value for known in SUPPORTED])
        wanted, era = exact, exact.era
    if era is Era.MODERN:
        return await _discover(connection, wanted, timeout)
    return await _initialize(connection, wanted, timeout, exact=version != "legacy")


async def _probe(connection: Connection, version: Version, timeout: float) -> ServerInfo | None:
    """Ask for `server/discover`. None means that the server is legacy.

    The fallback depends on no one error code: whatever is not a recognised modern error comes from a legacy server.
    """
    try:
        return await _discover(connection, version, timeout)
    except RequestTimeout:
        logger.debug("the server did not answer server/discover; taken for one of the session-based protocol")
    except UnsupportedVersion as error:
        chosen = choose(error.supported)
        if chosen is None:
            raise
        if chosen.is_modern:
            return await _discover(connection, chosen, timeout)
    except RemoteProtocolError as error:
        if error.code in _MODERN_ERRORS:
            raise
        logger.debug("the server answered server/discover with %s", error.code)
    return None


async def _discover(connection: Connection, version: Version, timeout: float | None) -> ServerInfo:
    try:
        raw = await connection.request("server/discover", {}, Clock(timeout, None), version=version)
        result = msgspec.json.decode(raw, type=DiscoverResult)
    except RemoteProtocolError as error:
        if error.code == UNSUPPORTED_VERSION and isinstance(error.data, dict):
            raise UnsupportedVersion(version, [str(name) for name in error.data.get("supported") or []]) from error
        raise
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(0, f"the answer to server/discover is malformed: {error}") from error
    chosen = version if version.value in result.supported_versions else choose(result.supported_versions)
    if chosen is None or not chosen.is_modern:
        raise UnsupportedVersion(version, result.supported_versions)
    connection.use(chosen)
    info = (result.meta or {}).get(META_SERVER_INFO)
    return ServerInfo(chosen, _implementation(info), result.capabilities, result.instructions)


def _implementation(value: Any) -> Implementation | None:
    try:
        return msgspec.convert(value, Implementation) if value is not None else None
    except msgspec.ValidationError:
        return None


async def _initialize(connection: Connection, version: Version, timeout: float | None, exact: bool) -> ServerInfo:
    """The handshake (2025-11-25 basic/lifecycle)."""
    params = {
        "protocolVersion": version.value,
        "capabilities": connection.answers.capabilities(),
        "clientInfo": connection.info,
    }
    raw = await connection.request("initialize", params, Clock(timeout, None))
    try:
        result = msgspec.json.decode(raw, type=InitializeResult)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(0, f"the answer to initialize is malformed: {error}") from error
    spoken = parse(result.protocol_version)
    if spoken is None or spoken.is_modern or (exact and spoken is not version):
        raise UnsupportedVersion(version, [result.protocol_version])
    connection.use(spoken)
    await connection.notify("notifications/initialized")
    await connection.transport.listen()
    return ServerInfo(spoken, result.server_info, result.capabilities, result.instructions)
