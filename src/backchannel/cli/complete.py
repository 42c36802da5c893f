"""`backchannel complete`: suggestions for an argument."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .. import Client
from ..errors import ConfigurationError
from .blocks import as_json
from .options import DEFAULTS, AsJson, Options, Target
from .prompt import pairs
from .terminal import Terminal
from .visit import visit


def complete(
    server: Target,
    /,
    *arguments: str,
    prompt: Annotated[str | None, Parameter(name="--prompt")] = None,
    template: Annotated[str | None, Parameter(name="--template")] = None,
    json: AsJson = False,
    options: Options = DEFAULTS,
) -> int:
    """Print suggestions for an argument of a prompt, or of a resource template, one a line.

    Parameters
    ----------
    arguments
        key=value. The last one is completed, from what is typed of it; those before it are known.
    prompt
        The prompt's name.
    template
        The template, such as note://{id}.
    """
    known = pairs(arguments)
    if not known or (prompt is None) == (template is None):
        raise ConfigurationError("give --prompt NAME or --template URI, and key=value, where the value may be empty")
    argument, value = known.popitem()

    async def work(client: Client, terminal: Terminal) -> int:
        found = await client.complete(
            prompt=prompt, template=template, argument=argument, value=value, context=known or None
        )
        terminal.show(as_json(found) if json else "\n".join(found.values))
        return 0

    return visit(server, options, work)
