"""`backchannel list`: what a server offers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from .. import Client
from ..protocol.types.prompts import Prompt
from ..protocol.types.tools import Tool
from .blocks import as_json
from .options import DEFAULTS, AsJson, Options, Target
from .terminal import Terminal
from .visit import visit

AREAS = {"tools": "tools", "resources": "resources", "templates": "resources", "prompts": "prompts"}
"""What is listed, and the capability that the server declares for it."""


def list(server: Target, /, *, json: AsJson = False, options: Options = DEFAULTS) -> int:
    """List a server's tools, resources and prompts, with the arguments they take."""

    async def work(client: Client, terminal: Terminal) -> int:
        found = await _found(client)
        terminal.show(as_json(found) if json else _text(found))
        return 0

    return visit(server, options, work)


async def _found(client: Client) -> dict[str, Any]:
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
    usage = " ".join([what, *(f"{name}=…" if needed else f"[{name}=…]" for name, needed in _arguments(entry))])
    about = (entry.description or entry.title or "").partition("\n")[0]
    return f"  {usage}  {about}".rstrip()


def _arguments(entry: Any) -> Iterable[tuple[str, bool]]:
    """The arguments of a tool or prompt, and whether each is required."""
    if isinstance(entry, Prompt):
        return [(argument.name, bool(argument.required)) for argument in entry.arguments or ()]
    if isinstance(entry, Tool):
        required = entry.input_schema.get("required") or ()
        return [(name, name in required) for name in entry.input_schema.get("properties") or ()]
    return ()
