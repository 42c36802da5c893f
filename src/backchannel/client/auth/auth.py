"""What every way of obtaining tokens has in common: OAuth, client credentials, and the other grants."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .challenge import NONE, Challenge
from .dpop import ENTROPY, SCHEME, Prover, stored_prover
from .steps import Fetch, Fetched, Flow, Now, Random, Token
from .stores import MemoryStore, Store

if TYPE_CHECKING:
    import aiohttp

    from ..endpoint import Endpoint
    from .driver import World
    from .loopback import Redirect


class Why(enum.Enum):
    """Why a token is wanted."""

    EXPIRES = "the one in use is about to expire; nobody is to be asked"
    REFUSED = "the server answered 401"
    SCOPE = "the server answered 403: the token in use has too few scopes"


@dataclass(frozen=True)
class Demand:
    """A token is wanted. server: URL of the MCP endpoint.  token: the one in use, which will not do any more.  again:
    it was renewed for this very request, so renewing it once more will not do either."""

    server: str
    why: Why = Why.REFUSED
    challenge: Challenge = NONE
    token: Token | None = None
    again: bool = False


@dataclass(frozen=True)
class Reply:
    """A response of the server that speaks of credentials. headers: names in lower case."""

    url: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    challenge: Challenge = NONE


class Auth(ABC):
    """A way to obtain tokens, given as `Client(url, auth=...)`. It may be given to several clients, one event loop at a
    time; each server has tokens of its own.

    store: where tokens are kept; default in memory.  dpop: have tokens bound to a key of this client (RFC 9449; needs
    `backchannel[auth]`).  trust_network: whether a server may name hosts that are nearer than itself, such as an
    authorization server in the company's network.  fetch: sends the requests of the flows in place of HTTP.
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        dpop: bool = False,
        trust_network: bool = False,
        fetch: Callable[[Fetch], Awaitable[Fetched]] | None = None,
    ):
        self.store: Store = store if store is not None else MemoryStore()
        self.redirect: Redirect | None = None
        self.dpop = dpop
        self._trust_network = trust_network
        self._fetch = fetch
        self._prover: Prover | None = None

    @abstractmethod
    def obtain(self, demand: Demand) -> Flow[Token]:
        """A token in place of the one that will not do. Raises: LoginFailed."""

    def recall(self, server: str) -> Flow[Token | None]:
        """The token that is stored for this server, if there is one."""
        return None
        yield

    def renews(self, token: Token) -> bool:
        """Whether a new one can be had in place of this one without asking anybody."""
        return True

    def send(self, request: Fetch) -> Flow[Fetched]:
        """Send a token request, with a proof of possession where tokens are bound."""
        if self.dpop:
            prover = yield from self._proves()
            return (yield from prover.send(request))
        response: Fetched = yield request
        return response

    def sign(self, method: str, url: str, token: Token) -> Flow[dict[str, str]]:
        """The headers that show the token with one request: "MUST use the Authorization request header field"
        (basic/authorization, Token Requirements)."""
        if token.token_type != SCHEME:
            return {"authorization": f"{token.token_type} {token.access_token}"}
        prover = yield from self._proves()
        now, random = (yield Now()), (yield Random(ENTROPY))
        return prover.headers(method, url, now, random, token.access_token)

    def noted(self, reply: Reply) -> bool:
        """Whether the same token will do if the request is signed again, as with a nonce that this reply brings."""
        if self._prover is None:
            return False
        return self._prover.learn(reply.url, reply.headers, resource=True) and reply.challenge.error == "use_dpop_nonce"

    def world(self, server: str) -> World:
        """What the flows for this server reach."""
        from .driver import World
        from .fetcher import Fetcher

        fetch = self._fetch or Fetcher(server, trust_network=self._trust_network)
        return World(fetch, self.store, self.redirect)

    def endpoint(
        self, url: str, timeout: float, session: aiohttp.ClientSession | None, server: str | None = None
    ) -> Endpoint:
        """An endpoint whose requests show a token. server: URL of the MCP endpoint, if `url` is not it.

        Raises: ConfigurationError.
        """
        from .endpoint import AuthorizedEndpoint
        from .holder import TokenHolder

        return AuthorizedEndpoint(url, timeout, session, TokenHolder(self, server or url))

    def _proves(self) -> Flow[Prover]:
        if self._prover is None:
            made = yield from stored_prover()
            self._prover = self._prover or made  # another flow may have been faster
        return self._prover
