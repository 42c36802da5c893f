"""The logins of this person, and what is remembered with them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NoReturn

import anyio
import msgspec

from ..client.auth import stored_token
from ..client.auth.driver import World, drive
from ..client.auth.file_store import FileStore
from ..client.auth.oauth import OAuth
from ..client.auth.revocation import revoke
from ..errors import BackchannelError, ConnectionFailed
from .home import home
from .redirects import Nobody

if TYPE_CHECKING:
    from ..client.auth.loopback import Redirect
    from ..client.auth.steps import Fetch
    from ..client.auth.stored_token import StoredToken

FILE = "logins.json"
_GOODBYE = 10.0  # seconds that an authorization server gets to end a login
_TOKEN, _KNOWN = "token ", "known "
"""What the names begin with, in the store, of tokens and of what was said at a login."""


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person has said at the login to a server, so that it need not be said again. issuer: of the authorization
    server that the client turned out to be for; what it has goes to no other."""

    client_id: str | None = None
    client_secret: str | None = None
    scopes: tuple[str, ...] = ()
    issuer: str | None = None

    def __repr__(self) -> str:
        return f"Known({self.client_id!r})"

    def over(self, earlier: Known) -> Known:
        """With what is not said as it was said before."""
        client = self if self.client_id is not None else earlier
        return Known(client.client_id, client.client_secret, self.scopes or earlier.scopes, client.issuer)


class Logins:
    """They lie in a file that nobody else can read."""

    def __init__(self) -> None:
        self._store = FileStore(home() / FILE)
        self._world = World(_nowhere, self._store)

    async def servers(self) -> list[str]:
        """Where this person is logged in."""
        return sorted(key.removeprefix(_TOKEN) for key in await self._store.keys() if key.startswith(_TOKEN))

    async def token(self, url: str) -> StoredToken | None:
        """The login at a server."""
        return await drive(stored_token.load(url), self._world)

    async def forget(self, url: str) -> None:
        """Have no login at this server any more."""
        await drive(stored_token.forget(url), self._world)

    async def end(self, url: str) -> bool:
        """Log out: have no login there any more, nor what was said at it. Returns whether the authorization server has
        ended it too."""
        known, told = await self.known(url), False
        world = self.oauth(known, Nobody(url)).world(url)
        with anyio.move_on_after(_GOODBYE), contextlib.suppress(BackchannelError):
            told = await drive(revoke(url, known.client_secret), world)
        await self.forget(url)
        await self.know(url, Known())
        return told

    async def known(self, url: str) -> Known:
        """What was said at the last login there."""
        kept = await self._store.load(_known(url))
        try:
            return msgspec.json.decode(kept or b"{}", type=Known)
        except (msgspec.DecodeError, RecursionError):
            return Known()

    async def know(self, url: str, known: Known) -> None:
        """Remember it, in place of what was known."""
        token = await self.token(url)
        if token is not None and known.client_id is not None:
            known = msgspec.structs.replace(known, issuer=token.issuer)
        await self._store.save(_known(url), msgspec.json.encode(known) if known != Known() else None)

    def oauth(self, known: Known, redirect: Redirect, trust_network: bool = False) -> OAuth:
        """Obtains tokens, by a new login if need be."""
        return OAuth(
            client_id=known.client_id,
            client_secret=known.client_secret,
            issuer=known.issuer,
            scopes=known.scopes,
            store=self._store,
            redirect=redirect,
            trust_network=trust_network,
        )


def _known(url: str) -> str:
    return f"{_KNOWN}{url.partition('#')[0].rstrip('/')}"


async def _nowhere(request: Fetch) -> NoReturn:
    raise ConnectionFailed("what is stored is read without the network")
