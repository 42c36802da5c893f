"""`backchannel call`: call a tool, and answer what it asks in the terminal."""

from __future__ import annotations

import difflib
import sys
from typing import Annotated, Any

import anyio
import msgspec
from cyclopts import Parameter

from .. import Client
from ..errors import ConfigurationError
from ..protocol.types.content import EmbeddedResource, ResourceLink, UnknownContent
from ..protocol.types.requests import ProgressParams
from ..protocol.types.tools import CallToolResult, Tool, decode_call_tool_result
from .arguments import parse
from .keyboard import Keyboard
from .options import Options
from .targets import target
from .terminal import Terminal, printable

DEFAULTS = Options()


def call(
    server: str,
    tool: str,
    /,
    *arguments: str,
    json: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULTS,
) -> int:
    """Call a tool. Its questions are asked in the terminal, its progress goes to stderr, its result to stdout.

    Exits with 0, 1 if the tool failed, 2 for wrong usage, 3 without a connection, 4 for a protocol error, 130 for
    Ctrl-C, which cancels the call.

    Parameters
    ----------
    server
        A URL, MODULE:NAME or FILE.py:NAME (run in this process), or a command line in quotes; the command may instead
        come last, after `--`.
    tool
        The tool's name.
    arguments
        key=value, read as the tool's input schema has it; key:=json for raw JSON.
    json
        Print the whole result as JSON.
    """
    terminal = Terminal()
    client = options.client(target(server), Keyboard(terminal))
    raw: msgspec.Raw = anyio.run(_call, client, tool, arguments, terminal)
    result = decode_call_tool_result(raw)
    text = msgspec.json.format(bytes(raw), indent=2).decode() if json else _text(result)
    print(printable(text) if sys.stdout.isatty() else text)
    return 1 if result.is_error else 0


async def _call(client: Client, name: str, given: tuple[str, ...], terminal: Terminal) -> msgspec.Raw:
    def progress(params: ProgressParams) -> None:
        total = f"/{params.total:g}" if params.total is not None else ""
        terminal.say(f"[{params.progress:g}{total}] {params.message or ''}".rstrip())

    async with client:
        tool = await _find(client, name)
        arguments = parse(given, tool.input_schema)
        return await client.request("tools/call", {"name": name, "arguments": arguments}, progress=progress)


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


def block_text(block: Any) -> str:
    """A content block for people."""
    if isinstance(block, UnknownContent):
        return block.raw.decode()
    if isinstance(block, ResourceLink):
        return f"[{block.name}: {block.uri}]"
    if isinstance(block, EmbeddedResource):
        contents = block.resource
        return contents.text if contents.text is not None else f"[{contents.uri}: {contents.mime_type or 'binary'}]"
    text: str | None = getattr(block, "text", None)
    return text if text is not None else f"[{block.mime_type}, {len(block.data) * 3 // 4} bytes]"
