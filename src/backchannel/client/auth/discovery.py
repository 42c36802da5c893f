"""Finding out who issues the tokens of an MCP server, from its metadata and from those of its authorization server
(basic/authorization/authorization-server-discovery)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ...errors import LoginFailed
from ...protocol.versions import Version
from . import well_known
from .challenge import Challenge
from .documents import ResourceMetadata, ServerMetadata, read
from .steps import Fetch, Fetched, Flow

T = TypeVar("T", bound=msgspec.Struct)
_HEADERS = {"accept": "application/json"}
_OLD_HEADERS = {**_HEADERS, "mcp-protocol-version": Version.V2025_03_26.value}
"""A client of 2025-03-26 "SHOULD include the header" (its basic/authorization, MCP-Protocol-Version Header)."""


@dataclass(frozen=True)
class Discovered:
    """resource: what tokens are for, as the server has published it.  scopes: that it supports, or None.  issuer: the
    metadata of its authorization server.  metadata_url: where those of the resource lie, or None for a server of
    2025-03-26, which has none.  assumed: nor does the authorization server publish any."""

    resource: str
    scopes: tuple[str, ...] | None
    issuer: ServerMetadata
    metadata_url: str | None
    assumed: bool = False


def discover(
    server: str, challenge: Challenge, *, hint: str | None = None, wanted: Collection[str] = ()
) -> Flow[Discovered]:
    """Find the authorization server of the MCP server at this URL.

    challenge: what the server has answered.  hint: where the resource's metadata were found before.  wanted: issuers
    to choose before others, where there are several.

    Raises: LoginFailed, ConnectionFailed.
    """
    well_known.secure(server, "the URL of the MCP server")
    found = yield from _resource(server, challenge.resource_metadata or hint)
    if found is None:
        return (yield from _without_metadata(server))
    resource, url = found
    issuers = resource.authorization_servers
    if not issuers:
        raise LoginFailed(f"the metadata of the resource name no authorization server: {url}")
    chosen = next((one for one in issuers if any(well_known.same_issuer(one, other) for other in wanted)), issuers[0])
    metadata = yield from find_issuer(chosen)
    if metadata is None:
        raise LoginFailed(f"the authorization server {chosen[:200]} publishes no metadata")
    return Discovered(resource.resource, resource.scopes_supported, metadata, url)


def _resource(server: str, advertised: str | None) -> Flow[tuple[ResourceMetadata, str] | None]:
    """The metadata of the resource and where they are: "use the resource metadata URL from the parsed
    `WWW-Authenticate` headers when present; otherwise, they MUST fall back to constructing and requesting the
    well-known URIs"."""
    first = [well_known.joined(server, advertised)] if advertised else []
    places = dict.fromkeys([*first, *well_known.resource_metadata(server)])
    found = yield from _first(places, ResourceMetadata, "the metadata of the resource")
    if found is not None and not well_known.covers(found[0].resource, server):
        # "MUST identify the MCP server that the client intends to use the token with" (Resource Parameter)
        text = (
            f"the metadata at {found[1]} are for {found[0].resource[:200]!r}, which is not the server {_shown(server)}"
        )
        raise LoginFailed(text)
    return found


def _without_metadata(server: str) -> Flow[Discovered]:
    """A server of 2025-03-26 issues tokens itself: its metadata lie at its root, or it has `/authorize`, `/token` and
    `/register` there (2025-03-26 basic/authorization, Server Metadata Discovery)."""
    base, resource = well_known.origin(server), server.partition("#")[0]
    published = yield from find_issuer(base, _OLD_HEADERS)
    metadata = published or ServerMetadata(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
    )
    return Discovered(resource, None, metadata, None, assumed=published is None)


def find_issuer(issuer: str, headers: Mapping[str, str] = _HEADERS) -> Flow[ServerMetadata | None]:
    """The metadata of an authorization server, or None where it publishes none. headers: of the requests.

    Raises: LoginFailed for what may not be used, ConnectionFailed.
    """
    well_known.secure(issuer, "the authorization server")
    places = well_known.server_metadata(issuer)
    found = yield from _first(places, ServerMetadata, "the authorization server's metadata", headers)
    if found is None:
        return None
    metadata, url = found
    # "the `issuer` value in the document MUST be identical to the issuer identifier used to construct the well-known
    # URL. If they differ, the client MUST NOT use the metadata"
    if not well_known.same_issuer(metadata.issuer, issuer):
        raise LoginFailed(f"the metadata at {url} are those of {metadata.issuer[:200]!r}, not of {issuer[:200]!r}")
    for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
        if endpoint := getattr(metadata, name):
            well_known.secure(endpoint, f"the {name} of {issuer[:200]}")
    return metadata


def _first(
    places: Iterable[str], type: type[T], what: str, headers: Mapping[str, str] = _HEADERS
) -> Flow[tuple[T, str] | None]:
    """The first document that is there, and its URL. A server that fails is not one that has none; one that answers
    everything with a page has none."""
    for url in places:
        response: Fetched = yield Fetch("GET", well_known.secure(url, what), headers)
        if response.status == 200 and response.body.lstrip()[:1] == b"{":
            return read(response, type, f"{what} at {url}"), url
        if response.status >= 500:
            raise LoginFailed(f"{what} cannot be had: HTTP {response.status} from {url}")
    return None


def _shown(server: str) -> str:
    """The URL of the server without what may be secret in it."""
    return repr(server.partition("?")[0][:200])
