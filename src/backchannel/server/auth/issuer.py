"""An authorization server, as its metadata describes it (RFC 8414; OpenID Connect Discovery 1.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ...errors import ConfigurationError
from .fetch import Fetch, check_url
from .kept import Kept
from .refusal import Unavailable

logger = logging.getLogger("backchannel.auth")
JSON = {"accept": "application/json"}


class Issuer:
    """identifier: what tokens have as `iss`.  fetch, clock: see BearerAuth.  insecure: its endpoints may be HTTP."""

    def __init__(self, identifier: str, fetch: Fetch, clock: Callable[[], float], insecure: bool = False):
        self.identifier = check_url("issuer", identifier, insecure)
        self._fetch = fetch
        self._insecure = insecure
        self._metadata = Kept(self._load, clock)

    async def endpoint(self, name: str) -> str:
        """The URL that the metadata gives, such as "jwks_uri". Raises: Unavailable if there is none."""
        url = (await self._metadata.get()).get(name)
        try:
            return check_url(f"{name} of {self.identifier}", url, self._insecure)
        except ConfigurationError as error:
            raise Unavailable(str(error)) from error

    async def _load(self) -> tuple[dict[str, Any], float | None]:
        for url in well_known(self.identifier):
            fetched = await self._fetch("GET", url, JSON, b"")
            document = fetched.document()
            if document is None:
                continue
            self._check(document.get("issuer"))
            return document, fetched.max_age
        raise Unavailable(f"{self.identifier} has no metadata at any well-known place")

    def _check(self, named: Any) -> None:
        """Metadata that names another issuer is not used (RFC 8414, section 3.3). A slash at the end makes no other
        one, as both have the same well-known places, but clients will mind."""
        if not isinstance(named, str) or named.rstrip("/") != self.identifier.rstrip("/"):
            raise Unavailable(f"the metadata of {self.identifier} is that of another issuer: {named!r:.200}")
        if named != self.identifier:
            logger.warning("issuer=%r calls itself %r: give it so, as clients compare the two", self.identifier, named)


def well_known(identifier: str) -> list[str]:
    """Where the metadata may be, in order (basic/authorization, Authorization Server Metadata Discovery)."""
    parts = urlsplit(identifier)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    oauth, openid = f"{origin}/.well-known/oauth-authorization-server", f"{origin}/.well-known/openid-configuration"
    if not path:
        return [oauth, openid]
    return [f"{oauth}{path}", f"{openid}{path}", f"{origin}{path}/.well-known/openid-configuration"]
