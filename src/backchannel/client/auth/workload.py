"""A program that shows who it is with what its platform has issued to it: a JWT of Kubernetes, SPIFFE, or a cloud
(extensions/auth, Workload Identity Federation; RFC 7523, section 2.1)."""

from __future__ import annotations

from typing import Unpack

from .discovery import Discovered
from .steps import Flow
from .supplied import Supplier, given, text_of
from .unattended import Options, Unattended

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class WorkloadIdentity(Unattended):
    """Tokens for a workload: `Client(url, auth=WorkloadIdentity(Path("/var/run/secrets/token").read_text))`.

    assertion: the JWT, or a function that gives the one that is good now; it is called for each token.  client_id: of
    this client, if the authorization server wants one.  options: `scopes`, `issuer` and more, as in Options.

    A refused assertion is an error at once: no other grant is tried, and it is not sent again.

    Raises: ConfigurationError.
    """

    def __init__(self, assertion: str | Supplier, *, client_id: str | None = None, **options: Unpack[Options]):
        super().__init__(client_id, None, None, **options)
        self._assertion = given("a workload's assertion", assertion)

    def grant(self, found: Discovered, scopes: list[str]) -> Flow[dict[str, str]]:
        """What the token is issued for."""
        return {"grant_type": JWT_BEARER, "assertion": (yield from text_of(self._assertion))}
