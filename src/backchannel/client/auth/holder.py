"""Holds the token that a transport shows, and has it renewed when it will not do any more.

How it works: whoever finds out that a token will not do waits for a new one. It is obtained by one task at a time,
which belongs to the holder, and not to who waits: so twenty calls with an expired token make one refresh, and none of
them can take it along when it is cancelled. Between holders, and processes, the store's lock does the same.
"""

from __future__ import annotations

import contextlib
import logging
from contextvars import Context
from dataclasses import dataclass

from ...errors import AuthRequired, BackchannelError, ConnectionFailed, ConnectionLost, LoginFailed
from ...nursery import Nursery
from ...one_line import one_line
from ...waiter import Waiter
from ..call import current
from .auth import Auth, Demand, Reply, Why
from .challenge import reason
from .driver import World, drive
from .scopes import missing
from .steps import Token

logger = logging.getLogger("backchannel.client")

_STEP_UPS = 3
"""How often one request may lead to more scopes: "Retry the original request [...] no more than a few times"
(basic/authorization, Step-Up Authorization Flow)."""
_MOST_ASKED = 100  # sets of scopes that are remembered
_BARREN = 2
"""New tokens, one after the other, with which the server refuses what it refused before."""
_PATIENCE = 600.0  # seconds until it is tried again after that
_GRACE = 1.0  # seconds for a refresh that is under way at the end: what it brings has to be stored
_TRIES = 10
"""How often a request is sent in all: each time others had renewed the token, or a nonce was wanted."""


@dataclass
class Attempt:
    """What one request has led to so far. `shown`: the token that it was sent with last."""

    shown: Token | None = None
    tries: int = 0
    renewals: int = 0
    step_ups: int = 0


class TokenHolder:
    """Holds the token for the MCP server at this URL."""

    def __init__(self, auth: Auth, server: str):
        self._auth = auth
        self._server = server
        self._world: World | None = None
        self._nursery = Nursery()
        self._token: Token | None = None
        self._recalled = False
        self._under_way: Waiter | None = None
        self._tired: Token | None = None
        self._barren, self._tried = 0, 0.0
        self._refreshing = False
        self._asked: set[frozenset[str]] = set()

    @property
    def busy(self) -> bool:
        """Whether a token is being obtained."""
        return self._under_way is not None

    async def headers(self, method: str, url: str, attempt: Attempt) -> dict[str, str]:
        """The headers that show the token with one request; none where there is no token yet.

        Raises: ConnectionLost after `close`.
        """
        if not self._recalled:
            await self._in_the_background(None)
        token = self._token
        if token is not None and self._is_stale(token):
            try:
                await self._in_the_background(Demand(self._server, Why.EXPIRES, token=token))
            except (AuthRequired, ConnectionFailed) as error:
                logger.info("the token is about to expire, and was not renewed: %s", one_line(error))
                self._tired = token  # once is enough: the server says when it is over
        token = attempt.shown = self._token
        return await drive(self._auth.sign(method, url, token), self._reached()) if token is not None else {}

    async def answer(self, reply: Reply, attempt: Attempt) -> None:
        """Do what this reply wants done, so that the request can be sent again.

        Raises: AuthRequired where there is nothing more to do, LoginFailed, ConnectionFailed, ConnectionLost.
        """
        attempt.tries += 1
        if attempt.tries >= _TRIES:
            raise AuthRequired(f"the server refuses every token{_because(reply, attempt)}")
        if self._auth.noted(reply) or self._token is not attempt.shown:
            return
        if reply.status == 403:
            await self._step_up(reply, attempt)
        else:
            await self._replace(reply, attempt)

    def noted(self, reply: Reply) -> None:
        """A response that is good brings what the next request needs, such as a nonce."""
        self._auth.noted(reply)

    def accepted(self, attempt: Attempt) -> None:
        """A request has got through."""
        if attempt.renewals:
            self._barren = 0

    async def close(self) -> None:
        """Break off what is under way: who waits for it gets ConnectionLost."""
        try:
            if self._refreshing:
                await self._nursery.settle(_GRACE)
        finally:
            await self._nursery.close()

    async def _replace(self, reply: Reply, attempt: Attempt) -> None:
        """The server takes no token, or not this one: "Invalid or expired tokens MUST receive a HTTP 401 response"."""
        now = self._reached().now()
        if self._barren >= _BARREN and not 0 <= now - self._tried < _PATIENCE:
            self._barren = 0
        if attempt.renewals >= _BARREN or (self._barren >= _BARREN and self._under_way is None):
            text = "the server refuses the tokens that its authorization server has just issued"
            raise AuthRequired(f"{text}{_because(reply, attempt)}")
        demand = Demand(self._server, Why.REFUSED, reply.challenge, self._token, again=attempt.renewals > 0)
        attempt.renewals += 1
        why = _because(reply, attempt)
        await self._in_the_background(demand, f"the token was refused{why}; " if why else "")

    async def _step_up(self, reply: Reply, attempt: Attempt) -> None:
        """The token has too few scopes for this request (basic/authorization, Step-Up Authorization Flow)."""
        scopes = frozenset(reply.challenge.scope or ())
        has = self._token.scope if self._token is not None else None
        attempt.step_ups += 1
        if self._under_way is None:
            if attempt.step_ups > _STEP_UPS or scopes in self._asked or (scopes and not missing(reply.challenge, has)):
                wanted = one_line(" ".join(sorted(scopes)) or "more scopes")
                raise AuthRequired(f"the token has not the scopes for this request: {wanted}")
        demand = Demand(self._server, Why.SCOPE, reply.challenge, self._token)
        await self._in_the_background(demand, f"this request needs more scopes{_because(reply, attempt)}; ")
        if len(self._asked) >= _MOST_ASKED:  # a server may want others each time
            self._asked.clear()
        self._asked.add(scopes)

    async def _in_the_background(self, demand: Demand | None, why: str = "") -> None:
        """Have a token obtained, or wait until one is. demand: None for the one that is stored.  why: what it is for,
        in case that none can be had."""
        if self._under_way is None:
            if self._nursery.closed:
                raise ConnectionLost("the connection was closed")
            self._under_way = Waiter()
            # None of the caller's context: what a login does belongs to no call.
            Context().run(self._nursery.start, self._obtain, demand, self._under_way)
        call = current()
        try:
            # For a person to log in takes time, in which the server is not waited for.
            with call.held() if call is not None else contextlib.nullcontext():
                await self._under_way.wait()
        except LoginFailed as error:  # each who waits gets an exception of its own
            raise LoginFailed(f"{why}{error}", error.challenge, error=error.error) from error
        except ConnectionFailed as error:
            raise ConnectionFailed(f"no token could be had: {error}") from error

    async def _obtain(self, demand: Demand | None, waiter: Waiter) -> None:
        world = self._reached()
        try:
            if demand is None:
                token = await drive(self._auth.recall(self._server), world)
                self._recalled = True
            else:
                token = await self._renewed(demand, world)
            self._token = token
            waiter.resolve(None)
        except BackchannelError as error:
            waiter.fail(error)
        finally:
            self._under_way = None
            waiter.fail(ConnectionLost("the login was broken off"))

    async def _renewed(self, demand: Demand, world: World) -> Token:
        had = demand.token.refresh_token if demand.token is not None else None
        self._refreshing = had is not None and demand.why is not Why.SCOPE and not demand.again
        try:
            async with world.store.lock(f"token {self._server}"):
                token = await drive(self._auth.obtain(demand), world)
        finally:
            self._refreshing = False
        if demand.why is Why.REFUSED:
            self._barren, self._tried = self._barren + 1, world.now()
        return token

    def _is_stale(self, token: Token) -> bool:
        fresh = token.is_fresh(self._reached().now())
        return not fresh and token is not self._tired and self._auth.renews(token)

    def _reached(self) -> World:
        if self._world is None:
            self._world = self._auth.world(self._server)
        return self._world


def _because(reply: Reply, attempt: Attempt) -> str:
    """What the server has said of the token that it was shown."""
    why = reason(reply.challenge, attempt.shown.access_token if attempt.shown is not None else "")
    return f": {why}" if why else ""
