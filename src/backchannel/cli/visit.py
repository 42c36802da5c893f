"""A visit: connect to the server that a command names, do one thing there, and disconnect."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable

import anyio

from .. import Client
from ..errors import RemoteProtocolError
from .options import USUAL, Options
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
                if options.log_level is None:
                    await _usual_level(client)
                return await work(client, terminal)
        finally:
            terminal.bar.hide()

    with contextlib.redirect_stdout(sys.stderr):
        client = options.client(server, terminal)
        return anyio.run(connected)


async def _usual_level(client: Client) -> None:
    """Have log messages, which nobody has asked for, where the server has them. One without sessions refuses that."""
    if client.version.is_modern or "logging" in client.server.capabilities:
        with contextlib.suppress(RemoteProtocolError):
            await client.set_log_level(USUAL)
