"""`backchannel listen`: what changes at a server, as it happens."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from .. import Client
from .options import DEFAULTS, Options, Target
from .terminal import Terminal
from .visit import visit


def listen(
    server: Target,
    /,
    *uris: str,
    json: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULTS,
) -> int:
    """Print a line for each change of the lists of tools, prompts and resources, and of the resources named. Ends with
    the server, or with Ctrl-C.

    Parameters
    ----------
    uris
        URIs of resources.
    json
        Print each line as a JSON object.
    """

    async def work(client: Client, terminal: Terminal) -> int:
        async with client.listen(resources=uris, tools=True, prompts=True, resource_list=True) as changes:
            honoured = changes.honoured
            lists = [name for name in ("tools", "prompts", "resource_list") if getattr(honoured, name)]
            told = ", ".join([*lists, *honoured.resources]) or "nothing: the server tells of no changes"
            terminal.say(f"listening to {told}")
            async for change in changes:
                line = f"{change.kind} {change.uri or ''}".rstrip()
                terminal.show(msgspec.json.encode(change).decode() if json else line)
        return 0

    return visit(server, options, work)
