"""How the answer to a login comes back to the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from ..client.auth import browser
from ..client.auth.challenge import challenge_of
from ..client.auth.loopback import Listening, Loopback, Redirect
from ..errors import LoginFailed
from .terminal import Terminal

COMMAND = "backchannel login"


def redirect_for(url: str, terminal: Terminal, opens: bool) -> Redirect:
    """With the browser of the person at the terminal, or where there is none, with an error that says what to do.

    opens: whether the browser is opened; else where to go is printed.
    """
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return Nobody(url)
    return attended(terminal, opens)


def attended(terminal: Terminal, opens: bool) -> Redirect:
    """With a person's browser. One that is not opened from here may be on another machine, which cannot reach this one:
    then the person pastes the URL that it was sent to, at a terminal."""
    if opens:
        return Loopback(show=browser.show)
    shown = anyio.Event()

    async def show(url: str) -> None:
        browser.tell(url)
        shown.set()

    async def paste() -> str:
        await shown.wait()
        try:
            return await terminal.ask("If the browser cannot open the page after that, paste its address here: ")
        except EOFError:  # nothing is pasted, but the browser may come all the same
            await anyio.sleep_forever()
            raise

    return Loopback(show=show, paste=paste if sys.stdin is not None and sys.stdin.isatty() else None)


def scopes_wanted(error: LoginFailed) -> str:
    """What the command of this error, which ends with it, needs so that the login has the scopes that were missing."""
    challenge = challenge_of(error.challenge)
    if challenge.error != "insufficient_scope" or COMMAND not in str(error):
        return ""
    return "".join(f" --scope {shlex.quote(scope)}" for scope in challenge.scope or ())


class Nobody:
    """There is nobody to log in."""

    def __init__(self, url: str):
        self._url = url

    @asynccontextmanager
    async def listen(self, wanted: str | None) -> AsyncIterator[Listening]:
        """Raises: LoginFailed."""
        raise LoginFailed(f"the server wants a login: run {COMMAND} {shlex.quote(self._url)}")
        yield
