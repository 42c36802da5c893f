"""Which scopes a message needs."""

from __future__ import annotations

import msgspec

from ...protocol.http import Call, Legacy
from ...protocol.jsonrpc import Batch, Malformed, Message, Request, decode
from ..exchange import Principal
from ..tools import Tools
from .scopes import NONE


class _Named(msgspec.Struct):
    name: str


def needed(verdict: Call | Legacy, tools: Tools, principal: Principal | None) -> frozenset[str]:
    """The scopes of all tools that a message calls, as far as this principal can see them."""
    if isinstance(verdict, Call):
        return _of_tool(verdict.params.name, tools, principal) if verdict.request.method == "tools/call" else NONE
    message = verdict.message
    items: list[Message | Malformed] = [message]
    if isinstance(message, Batch):
        items = [decode(bytes(item)) for item in message.items]
    return frozenset().union(*(_of_message(item, tools, principal) for item in items))


def _of_message(message: Message | Malformed, tools: Tools, principal: Principal | None) -> frozenset[str]:
    if not isinstance(message, Request) or message.method != "tools/call":
        return NONE
    try:
        name = msgspec.json.decode(message.params or b"{}", type=_Named).name
    except (msgspec.DecodeError, RecursionError):
        return NONE  # it is refused for what is wrong with it
    return _of_tool(name, tools, principal)


def _of_tool(name: str, tools: Tools, principal: Principal | None) -> frozenset[str]:
    tool = tools.handlers.get(name)
    return tool.scopes if tool is not None and tool.scopes and tool.shown(principal) else NONE
