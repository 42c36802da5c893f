"""`backchannel call`: call a tool, and answer what it asks in the terminal."""

from __future__ import annotations

import difflib

import msgspec

from .. import Client
from ..client.features import decoded
from ..errors import ConfigurationError
from ..protocol.types.tools import CallToolResult, Tool, decode_call_tool_result
from .arguments import parse
from .blocks import as_json, block_text
from .options import AsJson, Options, Target
from .terminal import Terminal
from .visit import visit

DEFAULTS = Options()


def call(
    server: Target,
    tool: str,
    /,
    *arguments: str,
    json: AsJson = False,
    options: Options = DEFAULTS,
) -> int:
    """Call a tool. What it asks is asked in the terminal, its result goes to stdout, all else to stderr.

    Parameters
    ----------
    tool
        The tool's name.
    arguments
        key=value, read as the tool's input schema has it; key:=json for raw JSON.
    """

    async def work(client: Client, terminal: Terminal) -> int:
        found = await _find(client, tool)
        params = {"name": tool, "arguments": parse(arguments, found.input_schema)}
        raw = await client.request("tools/call", params, progress=terminal.bar.update)
        result = decoded(raw, decode_call_tool_result, tool)
        terminal.show(as_json(raw) if json else _text(result))
        return 1 if result.is_error else 0

    return visit(server, options, work)


async def _find(client: Client, name: str) -> Tool:
    names = []
    async for tool in client.tools():
        if tool.name == name:
            return tool
        names.append(tool.name)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names) or 'none'}"
    raise ConfigurationError(f"the server has no tool {name!r}; {hint}")


def _text(result: CallToolResult) -> str:
    """The result for people: text as it is, and what else there is by its kind."""
    if not result.content and result.structured_content is not msgspec.UNSET:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(map(block_text, result.content))
