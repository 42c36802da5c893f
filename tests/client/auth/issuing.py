"""A way to obtain tokens that a test directs: each is a number, and asks for a page first."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from backchannel.client.auth.auth import Auth, Demand, Reply
from backchannel.client.auth.challenge import NONE, Challenge
from backchannel.client.auth.steps import Fetch, Fetched, Flow, Load, Token
from backchannel.errors import LoginFailed


class Issuing(Auth):
    """`demands`: what was demanded.  `gate`: is awaited before each token.  `life`: seconds of a token, or None.
    `failure`: raised in place of a token."""

    def __init__(self, life: float | None = None, **given: Any):
        super().__init__(fetch=self._page, **given)
        self.demands: list[Demand] = []
        self.gate: Callable[[], Awaitable[Any]] | None = None
        self.life = life
        self.now = 1000.0
        self.failure: Exception | None = None
        self.renewable = True
        self.nonces = 0
        self.refresh_token: str | None = None

    async def _page(self, request: Fetch) -> Fetched:
        if self.gate is not None:
            await self.gate()
        return Fetched(200, {}, b"", request.url)

    def recall(self, server: str) -> Flow[Token | None]:
        stored: bytes | None = yield Load(server)
        return Token(stored.decode()) if stored is not None else None

    def obtain(self, demand: Demand) -> Flow[Token]:
        self.demands.append(demand)
        yield Fetch("GET", "https://as.test")
        if self.failure is not None:
            raise self.failure
        ends = self.now + self.life if self.life is not None else None
        scope = " ".join(demand.challenge.scope or ())
        number = len(self.demands)
        return Token(f"t{number}", scope=scope, expires_at=ends, issued_at=self.now, refresh_token=self.refresh_token)

    def renews(self, token: Token) -> bool:
        return self.renewable

    def noted(self, reply: Reply) -> bool:
        self.nonces += reply.challenge.error == "use_dpop_nonce"
        return reply.challenge.error == "use_dpop_nonce"

    def world(self, server: str) -> Any:
        from dataclasses import replace

        return replace(super().world(server), now=lambda: self.now)


REFUSED = Reply("https://s.test/mcp", 401, {"www-authenticate": "Bearer"}, NONE)


def narrow(*scopes: str) -> Reply:
    """403 for a token that has not these scopes."""
    headers: Mapping[str, str] = {"www-authenticate": "Bearer"}
    challenge = Challenge("bearer", scope=scopes or None, error="insufficient_scope")
    return Reply("https://s.test/mcp", 403, headers, challenge)


DENIED = LoginFailed("denied", error="access_denied")
