"""A visit: connect to the server that a command names, do one thing there, and disconnect."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable

import anyio

from .. import Client
from .options import Options
from .terminal import Terminal


def visit(server: str, options: Options, work: Callable[[Client, Terminal], Awaitable[int]]) -> int:
    """Do `work` with a client of the server, whose questions are asked in the terminal. Returns the exit code.

    server: as on the command line. What it prints in this process goes to stderr, so that stdout has results only.

    Raises: BackchannelError; KeyboardInterrupt for Ctrl-C, after the server was told.
    """
    terminal = Terminal()

    async def connected() -> int:
        try:
            async with client:
                return await work(client, terminal)
        finally:
            terminal.bar.hide()

    with contextlib.redirect_stdout(sys.stderr):
        client = options.client(server, terminal)
        return anyio.run(connected)
