"""How the answer to a login comes back to the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from ..client.auth import browser
from ..client.auth.loopback import Listening, Loopback, Redirect
from ..errors import LoginFailed
from .terminal import Terminal


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


class Nobody:
    """There is nobody to log in."""

    def __init__(self, url: str):
        self._url = url

    @asynccontextmanager
    async def listen(self, wanted: str | None) -> AsyncIterator[Listening]:
        """Raises: LoginFailed."""
        command = f"backchannel login {shlex.quote(self._url)}"
        raise LoginFailed(f"the server wants a login: run {command} (with --scope, if that did not suffice)")
        yield
