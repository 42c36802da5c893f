"""`backchannel read`: the contents of a resource."""

from __future__ import annotations

import base64
import sys
from typing import Annotated

import anyio
import msgspec
from cyclopts import Parameter

from .. import Client
from ..protocol.types.content import ResourceContents
from ..protocol.types.resources import ReadResourceResult
from .keyboard import Keyboard
from .options import Options
from .targets import target
from .terminal import Terminal, printable

DEFAULTS = Options()


def read(
    server: str,
    uri: str,
    /,
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULTS,
) -> int:
    """Read a resource. Text is printed; binary contents go to stdout as they are, unless that is a terminal.

    Parameters
    ----------
    server
        A URL, MODULE:NAME or FILE.py:NAME (run in this process), or a command line in quotes.
    uri
        The resource's URI.
    json
        Print the whole result as JSON.
    """
    client = options.client(target(server), Keyboard(Terminal()))
    result: ReadResourceResult = anyio.run(_read, client, uri)
    if json:
        print(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
        return 0
    for contents in result.contents:
        _show(contents)
    return 0


async def _read(client: Client, uri: str) -> ReadResourceResult:
    async with client:
        return await client.read(uri)


def _show(contents: ResourceContents) -> None:
    terminal = sys.stdout.isatty()
    if contents.blob is None:
        text = contents.text or ""
        print(printable(text) if terminal else text)
        return
    data = base64.b64decode(contents.blob)
    if terminal:
        print(printable(f"[{contents.uri}: {contents.mime_type or 'binary'}, {len(data)} bytes]"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
