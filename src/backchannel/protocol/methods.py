"""The methods of the protocol. Absence from `METHODS` at a version is the version gate: nothing else checks."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from .types.bringup import InitializeParams
from .types.elicitation import ElicitParams, ElicitResult
from .types.requests import (
    CallToolParams,
    CancelledParams,
    GetPromptParams,
    LogParams,
    PageParams,
    ProgressParams,
    ReadResourceParams,
    RequestParams,
    SetLevelParams,
)
from .types.roots import ListRootsResult
from .types.sampling import CreateMessageParams, CreateMessageResult
from .versions import LEGACY, MODERN, SUPPORTED, Version


class Direction(enum.Flag):
    """Who sends a message."""

    CLIENT = enum.auto()
    SERVER = enum.auto()


@dataclass(frozen=True, slots=True)
class Method:
    """One request or notification.

    params: the type of its params.  result: the type of its result, where this side reads it by type.
    name: the member of params that the `Mcp-Name` header mirrors.
    may_ask: it may answer with an InputRequiredResult (basic/patterns/mrtr, Supported Requests).
    cancellable: False for `initialize` (2025-11-25 basic/utilities/cancellation).
    """

    sender: Direction
    versions: tuple[Version, ...]
    params: Any = RequestParams
    result: Any = None
    name: str | None = None
    may_ask: bool = False
    cancellable: bool = True


_CLIENT, _SERVER, _BOTH = Direction.CLIENT, Direction.SERVER, Direction.CLIENT | Direction.SERVER
_ELICIT = (Version.V2025_06_18, Version.V2025_11_25, Version.V2026_07_28)
_URL_ONLY = (Version.V2025_11_25,)

METHODS: dict[str, Method] = {
    "initialize": Method(_CLIENT, LEGACY, InitializeParams, cancellable=False),
    "ping": Method(_BOTH, LEGACY),
    "server/discover": Method(_CLIENT, MODERN),
    "tools/list": Method(_CLIENT, SUPPORTED, PageParams),
    "tools/call": Method(_CLIENT, SUPPORTED, CallToolParams, name="name", may_ask=True),
    "prompts/list": Method(_CLIENT, SUPPORTED, PageParams),
    "prompts/get": Method(_CLIENT, SUPPORTED, GetPromptParams, name="name", may_ask=True),
    "resources/list": Method(_CLIENT, SUPPORTED, PageParams),
    "resources/templates/list": Method(_CLIENT, SUPPORTED, PageParams),
    "resources/read": Method(_CLIENT, SUPPORTED, ReadResourceParams, name="uri", may_ask=True),
    "resources/subscribe": Method(_CLIENT, LEGACY),
    "resources/unsubscribe": Method(_CLIENT, LEGACY),
    "completion/complete": Method(_CLIENT, SUPPORTED),
    "logging/setLevel": Method(_CLIENT, LEGACY, SetLevelParams),
    "subscriptions/listen": Method(_CLIENT, MODERN),
    "elicitation/create": Method(_SERVER, _ELICIT, ElicitParams, ElicitResult),
    "sampling/createMessage": Method(_SERVER, SUPPORTED, CreateMessageParams, CreateMessageResult),
    "roots/list": Method(_SERVER, SUPPORTED, RequestParams, ListRootsResult),
    "notifications/initialized": Method(_CLIENT, LEGACY),
    "notifications/cancelled": Method(_BOTH, SUPPORTED, CancelledParams),
    "notifications/progress": Method(_BOTH, SUPPORTED, ProgressParams),
    "notifications/message": Method(_SERVER, SUPPORTED, LogParams),
    "notifications/roots/list_changed": Method(_CLIENT, LEGACY),
    "notifications/tools/list_changed": Method(_SERVER, SUPPORTED),
    "notifications/prompts/list_changed": Method(_SERVER, SUPPORTED),
    "notifications/resources/list_changed": Method(_SERVER, SUPPORTED),
    "notifications/resources/updated": Method(_SERVER, SUPPORTED),
    "notifications/elicitation/complete": Method(_SERVER, _URL_ONLY),
    "notifications/subscriptions/acknowledged": Method(_SERVER, MODERN),
}


def lookup(method: str, version: Version, sender: Direction) -> Method | None:
    """The method, if it exists at this version and this side may send it; else None, which means -32601."""
    found = METHODS.get(method)
    if found is None or version not in found.versions or sender not in found.sender:
        return None
    return found
