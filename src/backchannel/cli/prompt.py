"""`backchannel prompt`: the messages of a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import Client
from ..client.features import decoded
from ..errors import ConfigurationError
from ..protocol.types.prompts import decode_get_prompt_result
from .blocks import as_json, block_text
from .finding import find, known
from .options import DEFAULTS, AsJson, Options, Target
from .terminal import Terminal
from .visit import visit


def prompt(
    server: Target,
    name: str,
    /,
    *arguments: str,
    json: AsJson = False,
    options: Options = DEFAULTS,
) -> int:
    """Get a prompt, and answer what it asks in the terminal.

    Parameters
    ----------
    name
        The prompt's name.
    arguments
        key=value.
    """
    params: dict[str, Any] = {"name": name, "arguments": pairs(arguments)}

    async def work(client: Client, terminal: Terminal) -> int:
        found = await find("prompt", name, client.prompts())
        for key in params["arguments"]:
            known(f"the prompt {name!r}", key, [argument.name for argument in found.arguments or ()])
        raw = await client.request("prompts/get", params, progress=terminal.bar.update)
        messages = decoded(raw, decode_get_prompt_result, name).messages
        text = "\n\n".join(f"{message.role}: {block_text(message.content)}" for message in messages)
        terminal.show(as_json(raw) if json else text)
        return 0

    return visit(server, options, work)


def pairs(given: Iterable[str]) -> dict[str, str]:
    """The arguments of a prompt, which are texts. Raises: ConfigurationError for what is not key=value."""
    return dict(map(_argument, given))


def _argument(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"{given!r} is no argument: give key=value")
    return key, value
