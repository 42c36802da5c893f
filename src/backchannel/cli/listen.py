"""`backchannel listen`: what changes at a server, as it happens."""

from __future__ import annotations

import sys

import anyio

from .. import Client
from .keyboard import Keyboard
from .options import Options
from .targets import target
from .terminal import Terminal, printable

DEFAULTS = Options()


def listen(server: str, /, *uris: str, options: Options = DEFAULTS) -> int:
    """Print a line for each change of the lists of tools, prompts and resources, and of the resources named. Ends with
    the server, or with Ctrl-C.

    Parameters
    ----------
    server
        A URL, MODULE:NAME or FILE.py:NAME (run in this process), or a command line in quotes.
    uris
        URIs of resources.
    """
    terminal = Terminal()
    anyio.run(_listen, options.client(target(server), Keyboard(terminal)), uris, terminal)
    return 0


async def _listen(client: Client, uris: tuple[str, ...], terminal: Terminal) -> None:
    async with client, client.listen(resources=uris, tools=True, prompts=True, resource_list=True) as changes:
        honoured = changes.honoured
        lists = [name for name in ("tools", "prompts", "resource_list") if getattr(honoured, name)]
        terminal.say(
            f"listening to {', '.join([*lists, *honoured.resources]) or 'nothing: the server tells of no changes'}"
        )
        async for change in changes:
            line = f"{change.kind} {change.uri or ''}".rstrip()
            print(printable(line) if sys.stdout.isatty() else line, flush=True)
