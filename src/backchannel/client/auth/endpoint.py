"""An HTTP endpoint whose requests show a token, and are sent again when that was not good enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import AuthRequired
from ..endpoint import Endpoint, Exchange
from .auth import Reply
from .challenge import NONE, Challenge, challenge_of
from .holder import Attempt, TokenHolder

if TYPE_CHECKING:
    import aiohttp


class AuthorizedEndpoint(Endpoint):
    """Makes requests to `url` with the tokens of `holder`: "authorization MUST be included in every HTTP request from
    client to server" (basic/authorization, Token Requirements)."""

    def __init__(self, url: str, timeout: float, session: aiohttp.ClientSession | None, holder: TokenHolder):
        super().__init__(url, timeout, session)
        self.holder = holder

    def exchange(self, method: str, headers: dict[str, str], body: bytes | None = None) -> Exchange:
        """As for an Endpoint. The block raises AuthRequired too, where no token was good enough."""
        return _AuthorizedExchange(self, method, headers, body)

    @property
    def held(self) -> bool:
        """Whether a token is being obtained."""
        return self.holder.busy

    async def close(self) -> None:
        """Close all connections, and break off a login."""
        await self.holder.close()
        await super().close()


class _AuthorizedExchange(Exchange):
    """One request, which is sent again after a response that wants another token: a server that sends such has done
    nothing else."""

    __slots__ = ("_given", "_holder")

    def __init__(self, endpoint: AuthorizedEndpoint, method: str, headers: dict[str, str], body: bytes | None):
        super().__init__(endpoint, method, headers, body)
        self._holder, self._given = endpoint.holder, headers

    async def __aenter__(self) -> aiohttp.ClientResponse:
        attempt = Attempt()
        while True:
            shown = await self._holder.headers(self._method, str(self._endpoint._url), attempt)
            self._headers = {**self._given, **shown}
            response = await super().__aenter__()
            reply = _wants(response)
            if reply is None:
                self._holder.accepted(attempt)
                if "dpop-nonce" in response.headers:
                    self._holder.noted(_reply(response))
                return response
            if self._method == "DELETE":  # nobody logs in to say goodbye
                return response
            self._end(None)
            self._response = None
            try:
                await self._holder.answer(reply, attempt)
            except AuthRequired as error:
                error.challenge = error.challenge or reply.headers["www-authenticate"]
                raise


def _wants(response: aiohttp.ClientResponse) -> Reply | None:
    """The response, if it speaks of credentials."""
    if response.status not in (401, 403):
        return None
    header = ", ".join(response.headers.getall("www-authenticate", []))
    challenge = challenge_of(header)
    if response.status == 403 and challenge.error != "insufficient_scope":
        return None
    return _reply(response, header, challenge)


def _reply(response: aiohttp.ClientResponse, header: str = "", challenge: Challenge = NONE) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()} | {"www-authenticate": header}
    return Reply(str(response.url), response.status, headers, challenge)
