"""`backchannel call`: call a tool, and answer what it asks in the terminal."""

from __future__ import annotations

import msgspec

from .. import Client
from ..client.features import decoded
from ..protocol.types.tools import CallToolResult, decode_call_tool_result
from .arguments import parse
from .blocks import as_json, block_text
from .finding import find
from .options import DEFAULTS, AsJson, Options, Target
from .terminal import Terminal
from .visit import visit


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
        key=value, read as the tool's input schema has it; key:=json for JSON that is sent as it is.
    """

    async def work(client: Client, terminal: Terminal) -> int:
        found = await find("tool", tool, client.tools())
        params = {"name": tool, "arguments": parse(arguments, found.input_schema, f"the tool {tool!r}")}
        raw = await client.request("tools/call", params, progress=terminal.bar.update)
        result = decoded(raw, decode_call_tool_result, tool)
        terminal.show(as_json(raw) if json else _text(result))
        return 1 if result.is_error else 0

    return visit(server, options, work)


def _text(result: CallToolResult) -> str:
    """The result for people: text as it is, and what else there is by its kind."""
    if not result.content and result.structured_content is not msgspec.UNSET:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(map(block_text, result.content))
