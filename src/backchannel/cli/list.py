"""`backchannel list`: what a server offers."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
import msgspec
from cyclopts import Parameter

from .. import Client
from .keyboard import Keyboard
from .options import Options
from .targets import target
from .terminal import Terminal, printable

DEFAULTS = Options()
AREAS = {"tools": "tools", "resources": "resources", "templates": "resources", "prompts": "prompts"}
"""What is listed, and the capability that the server declares for it."""


def list(
    server: str,
    /,
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULTS,
) -> int:
    """List a server's tools, resources and prompts.

    Parameters
    ----------
    server
        A URL, MODULE:NAME or FILE.py:NAME (run in this process), or a command line in quotes.
    json
        Print the entries as JSON.
    """
    client = options.client(target(server), Keyboard(Terminal()))
    found: dict[str, Any] = anyio.run(_list, client)
    text = msgspec.json.format(msgspec.json.encode(found), indent=2).decode() if json else _text(found)
    print(printable(text) if sys.stdout.isatty() else text)
    return 0


async def _list(client: Client) -> dict[str, Any]:
    async with client:
        offered: dict[str, AsyncIterator[Any]] = {
            "tools": client.tools(),
            "resources": client.resources(),
            "templates": client.resource_templates(),
            "prompts": client.prompts(),
        }
        declared = client.server.capabilities
        return {area: [entry async for entry in offered[area]] for area, name in AREAS.items() if name in declared}


def _text(found: dict[str, Any]) -> str:
    sections = (f"{area}\n" + "\n".join(map(_line, entries)) for area, entries in found.items() if entries)
    return "\n\n".join(sections) or "This server offers nothing."


def _line(entry: Any) -> str:
    what = getattr(entry, "uri", None) or getattr(entry, "uri_template", None) or entry.name
    about = (entry.description or entry.title or "").partition("\n")[0]
    return f"  {what}  {about}".rstrip()
