"""`backchannel prompt`: the messages of a prompt."""

from __future__ import annotations

import sys
from typing import Annotated

import anyio
import msgspec
from cyclopts import Parameter

from .. import Client
from ..errors import ConfigurationError
from ..protocol.types.prompts import GetPromptResult
from .call import block_text
from .keyboard import Keyboard
from .options import Options
from .targets import target
from .terminal import Terminal, printable

DEFAULTS = Options()


def prompt(
    server: str,
    name: str,
    /,
    *arguments: str,
    json: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULTS,
) -> int:
    """Get a prompt, and answer what it asks in the terminal.

    Parameters
    ----------
    server
        A URL, MODULE:NAME or FILE.py:NAME (run in this process), or a command line in quotes.
    name
        The prompt's name.
    arguments
        key=value.
    json
        Print the whole result as JSON.
    """
    given = dict(map(_argument, arguments))
    client = options.client(target(server), Keyboard(Terminal()))
    result: GetPromptResult = anyio.run(_get, client, name, given)
    if json:
        text = msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
    else:
        text = "\n\n".join(f"{message.role}: {block_text(message.content)}" for message in result.messages)
    print(printable(text) if sys.stdout.isatty() else text)
    return 0


async def _get(client: Client, name: str, arguments: dict[str, str]) -> GetPromptResult:
    async with client:
        return await client.get_prompt(name, arguments)


def _argument(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"{given!r} is no argument: give key=value")
    return key, value
