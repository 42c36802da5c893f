"""Finding out what a server speaks, and bringing the connection up (basic/versioning; basic/transports, Backward
Compatibility)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec

from ..errors import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_VERSION,
    ConfigurationError,
    ConnectionLost,
    RemoteProtocolError,
    RequestTimeout,
    UnsupportedVersion,
)
from ..protocol.types.base import Implementation
from ..protocol.types.bringup import DiscoverResult, InitializeResult
from ..protocol.versions import LEGACY, META_SERVER_INFO, MODERN, SUPPORTED, Version, parse
from .call import Call
from .connection import Connection

logger = logging.getLogger("backchannel.client")
T = TypeVar("T")
_MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION})
"""Codes that only a server of the stateless protocol sends."""
_NAMED = {"auto": SUPPORTED, "modern": MODERN, "legacy": LEGACY}
PROBE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the server said of itself. Not verified."""

    version: Version
    info: Implementation | None = None
    capabilities: dict[str, Any] = field(default_factory=dict)
    instructions: str | None = None


def versions_for(wanted: str) -> Sequence[Version]:
    """The versions that may be spoken, as for `connect`. Raises: ConfigurationError for what names none."""
    exact = parse(wanted) if isinstance(wanted, str) else None
    accepted = _NAMED.get(wanted) or ((exact,) if exact is not None else ())
    if not accepted:
        names = ", ".join([*_NAMED, *(known.value for known in SUPPORTED)])
        raise ConfigurationError(f"there is no version {wanted!r}: give one of {names}")
    return accepted


async def connect(
    connection: Connection, wanted: str, *, timeout: float | None = None, probe_timeout: float = PROBE_TIMEOUT
) -> ServerInfo:
    """Bring an open connection up.

    wanted: "auto" probes with `server/discover` and falls back to `initialize`; "modern" and "legacy" keep to one era;
    a version's name keeps to that version.  timeout: seconds for each step.  probe_timeout: seconds that a server may
    stay silent on the probe before it counts as legacy.

    Raises: UnsupportedVersion, RemoteProtocolError, ConnectionLost, RequestTimeout, AuthRequired.
    """
    accepted = versions_for(wanted)
    modern = [version for version in accepted if version.is_modern]
    legacy = [version for version in accepted if not version.is_modern]
    if not modern:
        return await _initialize(connection, legacy[0], legacy, timeout)
    if not legacy:
        return await _discover_only(connection, modern, timeout)
    found = await _probe(connection, modern, legacy, probe_timeout)
    if isinstance(found, ServerInfo):
        return found
    try:
        return await _initialize(connection, found or legacy[0], legacy, timeout)
    except RemoteProtocolError as refused:
        if found is not None:
            raise
        # It was silent, and answers now: a modern server that took long to start.
        try:
            return await _discover(connection, modern, probe_timeout)
        except (RemoteProtocolError, RequestTimeout, UnsupportedVersion):
            raise refused from None


async def _discover_only(connection: Connection, modern: Sequence[Version], timeout: float | None) -> ServerInfo:
    """Speak a modern version or none. Raises: UnsupportedVersion, also for what only a legacy server answers."""
    try:
        return await _discover(connection, modern, timeout)
    except RemoteProtocolError as error:
        if error.code in _MODERN_ERRORS or error.status >= 500:
            raise
        text = (
            f"Unsupported protocol version: {', '.join(modern)} was wanted, and the server does not know "
            f'server/discover, so it seems to be older (version="auto" finds out): {error}'
        )
        raise UnsupportedVersion(modern[0], [], text) from error


async def _probe(
    connection: Connection, modern: Sequence[Version], legacy: Sequence[Version], timeout: float
) -> ServerInfo | Version | None:
    """Ask for `server/discover`. A version means that the server is legacy, and is what to offer it; None that it said
    nothing, so it is taken for legacy.

    The fallback depends on no one error code: whatever is not a recognised modern error comes from a legacy server.
    """
    try:
        return await _discover(connection, modern, timeout)
    except UnsupportedVersion as error:
        # "Use one of the versions in its advertised `supported` list" (basic/transports/stdio, Backward Compatibility)
        offer = _newest(legacy, error.supported)
        if offer is None or _newest(modern, error.supported) is not None:
            raise
        return offer
    except RequestTimeout:
        logger.debug("the server did not answer server/discover; taken for one of the session-based protocol")
        return None
    except ConnectionLost:  # of one response, or for good, which the next request says
        why = "gave no response to"
    except RemoteProtocolError as error:
        if error.code in _MODERN_ERRORS:
            raise
        why = f"answered with {error.code} to"
    logger.debug("the server %s server/discover; taken for one of the session-based protocol", why)
    return legacy[0]


async def _discover(connection: Connection, accepted: Sequence[Version], timeout: float | None) -> ServerInfo:
    """Speak a modern version, without a handshake (server/discover). Raises: UnsupportedVersion."""
    version = accepted[0]
    with connection.call("server/discover", timeout) as call:
        try:
            result = await _ask(connection, call, version)
        except UnsupportedVersion as error:
            # "The client SHOULD select a mutually supported version from the `supported` list and retry the request"
            # (basic/versioning, Protocol Version Negotiation)
            again = _newest(accepted, error.supported)
            if again is None:
                raise
            version = again
            call.restart()
            result = await _ask(connection, call, version)
    chosen = version if version.value in result.supported_versions else _newest(accepted, result.supported_versions)
    if chosen is None:
        raise UnsupportedVersion(version, result.supported_versions)
    connection.use(chosen)
    info = (result.meta or {}).get(META_SERVER_INFO)
    return ServerInfo(chosen, _implementation(info), result.capabilities, result.instructions)


async def _ask(connection: Connection, call: Call, version: Version) -> DiscoverResult:
    try:
        raw = await _once_more(connection, partial(connection.request, call.method, {}, call, version=version))
        return msgspec.json.decode(raw, type=DiscoverResult)
    except RemoteProtocolError as error:
        if error.code != UNSUPPORTED_VERSION:
            raise
        listed = error.data.get("supported") if isinstance(error.data, dict) else None
        names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        raise UnsupportedVersion(version, names) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(0, f"the answer to server/discover is malformed: {error}") from error


async def _initialize(
    connection: Connection, offer: Version, accepted: Sequence[Version], timeout: float | None
) -> ServerInfo:
    """The handshake (2025-11-25 basic/lifecycle). Raises: UnsupportedVersion."""
    begun = connection.version is not None  # a session before this one, whose capabilities stay as they were
    params = {
        "protocolVersion": offer.value,
        "capabilities": connection.answers.declared if begun else connection.answers.declare(offer),
        "clientInfo": connection.info,
    }
    with connection.call("initialize", timeout) as call:
        raw = await _once_more(connection, partial(connection.request, call.method, params, call))
    try:
        result = msgspec.json.decode(raw, type=InitializeResult)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(0, f"the answer to initialize is malformed: {error}") from error
    # "If the client does not support the version in the server's response, it SHOULD disconnect" (Version Negotiation)
    spoken = _newest(accepted, [result.protocol_version])
    if spoken is None:
        raise UnsupportedVersion(offer, [result.protocol_version])
    connection.use(spoken)
    await _once_more(connection, partial(connection.notify, "notifications/initialized", timeout=timeout))
    await connection.transport.listen()
    return ServerInfo(spoken, result.server_info, result.capabilities, result.instructions)


async def _once_more(connection: Connection, send: Callable[[], Awaitable[T]]) -> T:
    """What `send` gives, which is called again where the response was lost, as over HTTP where a server closes a
    connection that was kept alive just then: what brings a connection up may come twice."""
    try:
        return await send()
    except ConnectionLost:
        if connection.lost is not None:
            raise
    return await send()


def _newest(ours: Iterable[Version], theirs: Sequence[str]) -> Version | None:
    """The first of ours, which are sorted newest first, that is in their list."""
    return next((version for version in ours if version.value in theirs), None)


def _implementation(value: Any) -> Implementation | None:
    try:
        return msgspec.convert(value, Implementation) if value is not None else None
    except msgspec.ValidationError:
        return None
