"""BearerAuth: by what a server takes tokens (basic/authorization, Access Token Usage).

How it works: `admit` says who sends an HTTP request, before its body is read, and `permits` whether they may call the
tools that it names, before any of them runs. What is refused is answered with a challenge, from which a client learns
where to get a better token, and with which scopes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, ConfigurationError
from ...protocol.http import Call, Headers, Legacy
from ...protocol.jsonrpc import ErrorObject, ErrorResponse, Request, RequestId
from ..exchange import Principal
from ..options import instance, listed, number
from ..state_store import StateStore
from ..tools import Tools
from .credentials import read_credentials
from .dpop import DPoP
from .fetch import Fetch, fetch
from .introspection import Introspection
from .issuer import Issuer
from .jose import ALGORITHMS
from .needs import needed
from .refusal import Denied, TokenRefused, Unavailable, challenge
from .resource import Resource
from .scopes import Hierarchy, scopes_of, written
from .verifier import Verify, verifier

logger = logging.getLogger("backchannel.auth")
Scope = Mapping[str, Any]


class BearerAuth:
    """Takes access tokens, and says who sends them. Give it as `http_app(server, auth=BearerAuth(...))`.

    issuer: the identifier of the authorization server, or of several.  audience: what its tokens call this server;
    default `resource`.  resource: the URL of the server as clients know it; default what requests say, which is right
    where no proxy changes it.  scopes: that every request needs; tools may need more.  implies: which scopes a broader
    one implies, such as {"admin": ["read", "write"]}.

    By default tokens are JWTs, whose keys the issuer's metadata, or `jwks_uri`, says; algorithms: of their signatures.
    introspection: ask the issuer about each token instead.  verify: or find out yourself who sends a token; None
    refuses it, and whether it is for this server is yours to check.

    leeway: seconds that clocks may differ.  dpop: take tokens that are bound to a key.  metadata: more members of the
    resource's metadata, such as resource_name.  insecure: the issuer may be on HTTP, and not on loopback only.
    fetch: how to reach it.  clock: seconds since the epoch.

    Raises: ConfigurationError that names the option which cannot work.
    """

    def __init__(
        self,
        *,
        issuer: str | Sequence[str] | None = None,
        audience: str | Sequence[str] | None = None,
        resource: str | None = None,
        scopes: Iterable[str] = (),
        implies: Mapping[str, Iterable[str]] | None = None,
        jwks_uri: str | None = None,
        algorithms: Sequence[str] = ALGORITHMS,
        introspection: Introspection | None = None,
        verify: Verify | None = None,
        leeway: float = 30.0,
        dpop: DPoP | None = None,
        metadata: Mapping[str, Any] | None = None,
        insecure: bool = False,
        fetch: Fetch = fetch,
        clock: Callable[[], float] = time.time,
    ):
        number("leeway", leeway)
        if dpop is not None:
            instance("dpop", dpop, DPoP)
        self.scopes = scopes_of("scopes", scopes)
        self._resource = Resource(resource)
        self._hierarchy = Hierarchy(implies or {})
        self._leeway, self._clock, self._dpop = leeway, clock, dpop
        self._schemes = _schemes(dpop)
        names = [issuer] if isinstance(issuer, str) else listed("issuer", issuer or ())
        self._find = verifier(
            issuers=[Issuer(name, fetch, clock, insecure) for name in names],
            audience=audience,
            resource=resource,
            jwks_uri=jwks_uri,
            algorithms=algorithms,
            introspection=introspection,
            verify=verify,
            leeway=leeway,
            insecure=insecure,
            fetch=fetch,
            clock=clock,
        )
        self._document = _document(names, self.scopes, dpop, metadata or {}) if names else None

    @property
    def store(self) -> StateStore | None:
        """Where proofs are remembered; None where there are none."""
        return self._dpop.store if self._dpop is not None else None

    # Who it is, and what they may do.

    async def admit(self, scope: Scope, headers: Headers) -> Principal | Denied:
        """Who sends a request. scope: of ASGI.  Raises: what a `verify` of the author's raises."""
        scheme: str | None = None
        try:
            credentials = read_credentials(headers.get("authorization"), self._schemes)
            if credentials is None:
                return Denied(401, self._challenges(scope, headers, self.scopes))
            scheme, token = credentials
            principal = await self._find(token)
            await self._check_binding(principal, scheme, token, scope, headers)
        except TokenRefused as refused:
            logger.info("a token was refused: %s %s", refused, refused.detail)
            return self._refuse(refused, scheme, scope, headers)
        except Unavailable as error:
            logger.error("a token could not be checked: %s", error)
            text = "the authorization server cannot be reached now; try again"
            return Denied(503, [(b"retry-after", b"5")], _error(INTERNAL_ERROR, text))
        granted = self._hierarchy.all_of(principal.scopes)
        if granted != principal.scopes:
            principal = replace(principal, scopes=granted)
        return principal if self.scopes <= granted else self._too_little(scope, headers, self.scopes)

    def permits(
        self, verdict: Call | Legacy, tools: Tools, principal: Principal, scope: Scope, headers: Headers
    ) -> Denied | None:
        """What a message that calls tools is answered with, if their scopes were not granted. The challenge names all
        that it needs: "Servers SHOULD include all scopes required for the current operation in a single challenge"
        (basic/authorization, Runtime Insufficient Scope Errors)."""
        wanted = needed(verdict, tools, principal)
        if wanted <= principal.scopes:
            return None
        message = verdict.request if isinstance(verdict, Call) else verdict.message
        id = message.id if isinstance(message, Request) else None
        return self._too_little(scope, headers, wanted | self.scopes, id)

    async def _check_binding(
        self, principal: Principal, scheme: str, token: str, scope: Scope, headers: Headers
    ) -> None:
        """A bound token needs its proof, and is never taken without (RFC 9449, section 7.2).

        Raises: TokenRefused, Unavailable.
        """
        bound = principal.claims.get("cnf")
        if bound is None and scheme == "Bearer":
            return
        thumbprint = bound.get("jkt") if isinstance(bound, dict) else None
        if self._dpop is None or scheme == "Bearer" or not isinstance(thumbprint, str):
            raise TokenRefused(
                "The token is bound to a key in a way that is not accepted here",
                detail=f"cnf is {bound!r:.100}, and the scheme {scheme}",
            )
        url = self._resource.url(scope, headers)
        proof, now = headers.get("dpop"), self._clock()
        await self._dpop.check(proof, scope["method"], url, token, thumbprint, now, self._leeway)

    # Challenges.

    def _refuse(self, refused: TokenRefused, scheme: str | None, scope: Scope, headers: Headers) -> Denied:
        status = 400 if refused.error == "invalid_request" else 401
        reason = {"error": refused.error, "error_description": str(refused)}
        challenges = self._challenges(scope, headers, self.scopes, reason, scheme)
        if refused.nonce is not None:
            challenges.append((b"dpop-nonce", refused.nonce.encode()))
        return Denied(status, challenges)

    def _too_little(
        self, scope: Scope, headers: Headers, scopes: frozenset[str], id: RequestId | None = None
    ) -> Denied:
        text = f"This needs the scopes: {written(scopes)}"
        reason = {"error": "insufficient_scope", "error_description": text}
        return Denied(403, self._challenges(scope, headers, scopes, reason), _error(INVALID_REQUEST, text, id))

    def _challenges(
        self,
        scope: Scope,
        headers: Headers,
        scopes: frozenset[str],
        reason: Mapping[str, str] | None = None,
        scheme: str | None = None,
    ) -> list[tuple[bytes, bytes]]:
        """A challenge for each scheme. The one that was used comes first, as some clients read one only, and has the
        reason; where none was used, all have it."""
        url = self._resource.metadata_url(scope, headers) if self._document is not None else None
        found = []
        for one in sorted(self._schemes, key=lambda one: one != scheme):
            algorithms = " ".join(self._dpop.algorithms) if self._dpop is not None and one == "DPoP" else None
            why = reason if reason is not None and scheme in (None, one) else {}
            found.append(
                challenge(one, {**why, "scope": written(scopes), "resource_metadata": url, "algs": algorithms})
            )
        return found

    # The metadata of the resource.

    def metadata(self, scope: Scope, headers: Headers, endpoint: str) -> bytes | None:
        """The metadata that a request asks for, as JSON; None if it asks for something else. endpoint: the path of the
        server in its app."""
        if self._document is None:
            return None
        resource = self._resource.found(scope, headers, endpoint)
        return msgspec.json.encode({"resource": resource, **self._document}) if resource is not None else None


def _schemes(dpop: DPoP | None) -> tuple[str, ...]:
    if dpop is None:
        return ("Bearer",)
    return ("DPoP",) if dpop.required else ("Bearer", "DPoP")


def _document(issuers: list[str], scopes: frozenset[str], dpop: DPoP | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata (RFC 9728, section 2), without the resource itself. Raises: ConfigurationError."""
    if "resource" in more:
        raise ConfigurationError("metadata has no resource: there is resource= for that")
    document: dict[str, Any] = {"authorization_servers": issuers}
    if scopes:
        document["scopes_supported"] = sorted(scopes)
    document["bearer_methods_supported"] = ["header"]
    if dpop is not None:
        document["dpop_signing_alg_values_supported"] = list(dpop.algorithms)
        document["dpop_bound_access_tokens_required"] = dpop.required
    try:
        msgspec.json.encode(document := {**document, **more})
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"metadata has to be JSON: {error}") from error
    return document


def _error(code: int, text: str, id: RequestId | None = None) -> ErrorResponse:
    return ErrorResponse(id, ErrorObject(code, text))
