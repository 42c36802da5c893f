"""`backchannel logout`: end the login at a server."""

from __future__ import annotations

import anyio

from .logins import Logins
from .options import Target
from .targets import url_of
from .terminal import Terminal


def logout(server: Target, /) -> int:
    """End the login at a server, and forget what was said at it."""
    url, terminal, logins = url_of(server), Terminal(), Logins()

    async def end() -> str:
        was_there = await logins.token(url) is not None
        told = await logins.end(url)
        if not was_there:
            return f"Not logged in to {url}."
        return f"Logged out of {url}{'.' if told else ', though its authorization server could not be told.'}"

    terminal.say(anyio.run(end))
    return 0
