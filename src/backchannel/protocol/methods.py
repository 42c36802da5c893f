"""The methods of the protocol: who sends which at which version. Absence from `METHODS` is the version gate: nothing
else checks."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from .jsonrpc import ErrorObject
from .types.bringup import InitializeParams
from .types.completion import CompleteParams
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
from .types.resources import SubscribeParams
from .types.roots import ListRootsResult
from .types.sampling import CreateMessageParams, CreateMessageResult
from .types.subscriptions import ListenParams
from .versions import FEATURES, LEGACY, MODERN, SUPPORTED, Version


class Direction(enum.Flag):
    """Who sends a message, or INPUT: the server, as a question inside a result (basic/patterns/mrtr, InputRequests)."""

    CLIENT = enum.auto()
    SERVER = enum.auto()
    INPUT = enum.auto()


@dataclass(frozen=True)
class Method:
    """One request or notification.

    senders: who sends it, by the versions that have it.
    params: the type of its params.  result: the type of its result, where this side reads it by type.
    name: the member of params that the `Mcp-Name` header mirrors.
    may_ask: it may answer with an InputRequiredResult (basic/patterns/mrtr, Supported Requests).
    cancellable: False for `initialize` (2025-11-25 basic/utilities/cancellation).
    standing: it is served until one side ends it (basic/patterns/subscriptions).
    """

    senders: Mapping[Version, Direction]
    params: Any = RequestParams
    result: Any = None
    name: str | None = None
    may_ask: bool = False
    cancellable: bool = True
    standing: bool = False

    @cached_property
    def read(self) -> Callable[[bytes | msgspec.Raw], Any]:
        """Reads params of its type. Raises: msgspec.DecodeError, RecursionError."""
        return msgspec.json.Decoder(self.params).decode

    @cached_property
    def whole(self) -> Callable[[bytes], Any]:
        """Reads a whole request with such params in one go: `id`, `method`, `params`. Raises: as `read`."""
        fields = [("jsonrpc", Literal["2.0"]), ("id", int | str), ("method", str), ("params", self.params)]
        error = ("error", ErrorObject | msgspec.UnsetType, msgspec.UNSET)  # which has to be one, as in any message
        return msgspec.json.Decoder(msgspec.defstruct("Whole", [*fields, error])).decode


def _from(sender: Direction, versions: Iterable[Version] = SUPPORTED) -> dict[Version, Direction]:
    return dict.fromkeys(versions, sender)


_NOBODY, _BOTH = Direction(0), Direction.CLIENT | Direction.SERVER
_CLIENT, _CLIENT_LEGACY, _CLIENT_MODERN = (_from(Direction.CLIENT, which) for which in (SUPPORTED, LEGACY, MODERN))
_SERVER = _from(Direction.SERVER)
_ASK = _from(Direction.SERVER, LEGACY) | _from(Direction.INPUT, MODERN)
_ELICIT = {version: sender for version, sender in _ASK.items() if FEATURES[version].elicitation}
_URL_IDS = [version for version in SUPPORTED if FEATURES[version].url_elicitation_id]

METHODS: dict[str, Method] = {
    "initialize": Method(_CLIENT_LEGACY, InitializeParams, cancellable=False),
    "ping": Method(_from(_BOTH, LEGACY)),
    "server/discover": Method(_CLIENT_MODERN),
    "tools/list": Method(_CLIENT, PageParams),
    "tools/call": Method(_CLIENT, CallToolParams, name="name", may_ask=True),
    "prompts/list": Method(_CLIENT, PageParams),
    "prompts/get": Method(_CLIENT, GetPromptParams, name="name", may_ask=True),
    "resources/list": Method(_CLIENT, PageParams),
    "resources/templates/list": Method(_CLIENT, PageParams),
    "resources/read": Method(_CLIENT, ReadResourceParams, name="uri", may_ask=True),
    "resources/subscribe": Method(_CLIENT_LEGACY, SubscribeParams),
    "resources/unsubscribe": Method(_CLIENT_LEGACY, SubscribeParams),
    "completion/complete": Method(_CLIENT, CompleteParams),
    "logging/setLevel": Method(_CLIENT_LEGACY, SetLevelParams),
    "subscriptions/listen": Method(_CLIENT_MODERN, ListenParams, standing=True),
    "elicitation/create": Method(_ELICIT, ElicitParams, ElicitResult),
    "sampling/createMessage": Method(_ASK, CreateMessageParams, CreateMessageResult),
    "roots/list": Method(_ASK, RequestParams, ListRootsResult),
    "notifications/initialized": Method(_CLIENT_LEGACY),
    "notifications/cancelled": Method(_from(_BOTH), CancelledParams),
    "notifications/progress": Method(_from(_BOTH, LEGACY) | _from(Direction.SERVER, MODERN), ProgressParams),
    "notifications/message": Method(_SERVER, LogParams),
    "notifications/roots/list_changed": Method(_CLIENT_LEGACY),
    "notifications/tools/list_changed": Method(_SERVER),
    "notifications/prompts/list_changed": Method(_SERVER),
    "notifications/resources/list_changed": Method(_SERVER),
    "notifications/resources/updated": Method(_SERVER),
    "notifications/elicitation/complete": Method(_from(Direction.SERVER, _URL_IDS)),
    "notifications/subscriptions/acknowledged": Method(_from(Direction.SERVER, MODERN)),
}


OPEN = Method(_CLIENT)
"""A request that an extension adds: a client may send it at every version."""


def lookup(method: str, version: Version, sender: Direction, table: Mapping[str, Method] = METHODS) -> Method | None:
    """The request of this name, if it exists at this version and this side may send it; else None, which means -32601.
    A notification that comes with an id is no request that anybody knows.

    table: METHODS, or what a server with extensions has.
    """
    found = table.get(method)
    if found is None or method.startswith("notifications/"):
        return None
    if not found.senders.get(version, _NOBODY)._value_ & sender._value_:  # what `in` says, in a fifth of the time
        return None
    return found
