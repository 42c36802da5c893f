"""`backchannel login`: log in to a server with the browser."""

from __future__ import annotations

import os
from typing import Annotated

import anyio
from cyclopts import Parameter

from ..client.auth.auth import Demand
from ..client.auth.challenge import NONE
from ..client.auth.discovery import discover
from ..client.auth.driver import drive
from ..errors import ConfigurationError
from . import CONNECTION, OK
from .logins import Known, Logins
from .options import DEFAULTS, Options, Target
from .redirects import attended
from .targets import url_of
from .terminal import Terminal


def login(
    server: Target,
    /,
    *,
    scope: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=False)] = (),
    client_id: str | None = None,
    client_secret_env: str | None = None,
    options: Options = DEFAULTS,
) -> int:
    """Log in to a server. The other commands do so by themselves at a terminal, when a server wants it; this one also
    without, and takes what they cannot know.

    The exit code is 3 where the server asks for no login.

    Parameters
    ----------
    scope
        A scope to ask for, in place of those that the server names.
    client_id
        Of a client that is registered with the server's authorization server, where it registers none by itself.
    client_secret_env
        The environment variable that holds this client's secret.
    """
    url, terminal, logins = url_of(server), Terminal(), Logins()
    given = Known(client_id, _secret(client_id, client_secret_env), tuple(scope))
    known = anyio.run(_prepare, logins, url, given)
    auth = logins.oauth(known, attended(terminal, options.browser), options.trust_network)
    client = options.client(server, terminal, auth)

    async def connect() -> bool:
        async with client:
            if await logins.token(url) is None:  # a server may want a login for some requests only, and then says where
                world = auth.world(url)
                if known.client_id is None and (await drive(discover(url, NONE), world)).assumed:
                    return False
                await drive(auth.obtain(Demand(url)), world)
        await logins.know(url, known)
        return True

    if not anyio.run(connect):
        terminal.say(f"{url} asks for no login: the other commands work without one.")
        return CONNECTION
    terminal.say(f"Logged in to {url}.")
    return OK


async def _prepare(logins: Logins, url: str, given: Known) -> Known:
    """What is said now, and where nothing is, what was said before. A login with less than that is forgotten."""
    token, known = await logins.token(url), given.over(await logins.known(url))
    if token is not None and not set(known.scopes) <= {*(token.scope or "").split()}:
        await logins.forget(url)
    return known


def _secret(client_id: str | None, variable: str | None) -> str | None:
    if variable is None:
        return None
    if client_id is None:
        raise ConfigurationError("--client-secret-env goes with --client-id")
    if not os.environ.get(variable):
        raise ConfigurationError(f"the environment variable {variable} is not set")
    return os.environ[variable]
