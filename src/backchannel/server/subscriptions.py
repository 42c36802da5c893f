"""Telling clients that something has changed: `server.notify`, and who listens (basic/patterns/subscriptions;
2025-11-25 server/resources, Subscriptions).

How it works: everybody who listens is in one set: the `subscriptions/listen` requests of the stateless protocol, and
the legacy sessions. Telling appends to each one's own stream and waits for nobody. Those who would get the same message
share one, which is encoded once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, Protocol

import anyio
import msgspec

from ..errors import INTERNAL_ERROR, INVALID_REQUEST, LocalProtocolError
from ..protocol.jsonrpc import Notification, RequestId, encode
from ..protocol.types.subscriptions import SUBSCRIPTION_ID, AcknowledgedParams, Filter
from .exchange import Exchange
from .session import Session

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
_AREAS = {TOOLS: "tools", PROMPTS: "prompts", RESOURCES: "resources"}
Capabilities = Mapping[str, Mapping[str, Any]]


class Listener(Protocol):
    """Somebody who may want to know."""

    def tell(self, change: Change) -> bool:
        """Send the notification, if it is wanted and there is room for it. Returns whether it was sent."""


class Change:
    """What is told, and the messages that tell it. uri: the resource that has changed; None: a list has."""

    __slots__ = ("_messages", "method", "uri")

    def __init__(self, method: str, uri: str | None):
        self.method = method
        self.uri = uri
        self._messages: dict[RequestId | None, Notification] = {}

    def message(self, subscription: RequestId | None = None) -> Notification:
        """The message for a subscription of this id, or for a session."""
        message = self._messages.get(subscription)
        if message is None:
            params: dict[str, Any] = {} if self.uri is None else {"uri": self.uri}
            if subscription is not None:
                params["_meta"] = {SUBSCRIPTION_ID: subscription}
            raw = msgspec.Raw(encode(params)) if params else None
            message = self._messages[subscription] = Notification(self.method, raw)
        return message


class Notifier:
    """`server.notify`. Call it from anywhere in the event loop; each call returns how many were reached by this replica
    of the server.

    elsewhere: lets other replicas tell theirs.
    """

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}
        self.elsewhere: list[Callable[[str, str | None], Awaitable[None]]] = []

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, listener: Listener) -> None:
        """Somebody listens from now on."""
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        """And no more."""
        self._listeners.pop(listener, None)

    async def tools_changed(self) -> int:
        """The list of tools is another one now."""
        return await self._tell(TOOLS)

    async def prompts_changed(self) -> int:
        """The list of prompts is another one now."""
        return await self._tell(PROMPTS)

    async def resources_changed(self) -> int:
        """The list of resources or templates is another one now."""
        return await self._tell(RESOURCES)

    async def resource_updated(self, uri: str) -> int:
        """The contents of this resource are other ones now: told to those who asked about exactly this URI."""
        return await self._tell(UPDATED, uri)

    async def _tell(self, method: str, uri: str | None = None) -> int:
        reached = self.tell_here(method, uri)
        for tell in self.elsewhere:
            await tell(method, uri)
        return reached

    def tell_here(self, method: str, uri: str | None) -> int:
        """Tell those who listen to this replica of the server."""
        change = Change(method, uri)
        return sum([listener.tell(change) for listener in list(self._listeners)])


class SessionListener:
    """A legacy session: it hears of the lists that it was told would change, and of the resources that it subscribed
    to. declared: the server's capabilities when the session began; what came later it does not know of."""

    __slots__ = ("_methods", "_notifier", "_session")

    def __init__(self, notifier: Notifier, session: Session, declared: Capabilities):
        self._notifier = notifier
        self._session = session
        self._methods = tuple(method for method, area in _AREAS.items() if declared.get(area, {}).get("listChanged"))

    def start(self) -> None:
        """It listens from now on."""
        self._notifier.add(self)

    def stop(self) -> None:
        """And no more."""
        self._notifier.remove(self)

    def tell(self, change: Change) -> bool:
        session = self._session
        wanted = change.uri in session.subscribed if change.uri is not None else change.method in self._methods
        return wanted and session.ready and session.speaks and session.stream.append(change.message())


class Subscription:
    """One `subscriptions/listen` request. Every message of it carries the request's id."""

    __slots__ = ("_exchange", "_id", "_methods", "_uris")

    def __init__(self, exchange: Exchange, wanted: Filter):
        self._exchange = exchange
        self._id = exchange.request.id
        self._uris = frozenset(wanted.resource_subscriptions or ())
        self._methods = tuple(
            method
            for method, on in (
                (TOOLS, wanted.tools_list_changed),
                (PROMPTS, wanted.prompts_list_changed),
                (RESOURCES, wanted.resources_list_changed),
            )
            if on
        )

    def acknowledge(self, honoured: Filter) -> bool:
        """The first message of the stream: what will come. Whether there was room for it."""
        params = AcknowledgedParams(honoured, {SUBSCRIPTION_ID: self._id})
        return self._exchange.notify("notifications/subscriptions/acknowledged", params)

    def tell(self, change: Change) -> bool:
        wanted = change.uri in self._uris if change.uri is not None else change.method in self._methods
        return wanted and self._exchange.stream.append(change.message(self._id))


def honour(wanted: Filter, capabilities: Capabilities, hidden: Set[str] = frozenset()) -> Filter:
    """The part of a filter that a server with these capabilities honours. hidden: resources that the client does not
    get to know of."""

    def can(area: str, what: str) -> bool:
        return bool(capabilities.get(area, {}).get(what))

    uris = wanted.resource_subscriptions if can("resources", "subscribe") else None
    return Filter(
        (wanted.tools_list_changed and can("tools", "listChanged")) or None,
        (wanted.prompts_list_changed and can("prompts", "listChanged")) or None,
        (wanted.resources_list_changed and can("resources", "listChanged")) or None,
        [uri for uri in uris if uri not in hidden] if uris is not None else None,
    )


async def listen(
    exchange: Exchange, notifier: Notifier, honoured: Filter, most: int, closing: anyio.Event
) -> dict[str, object]:
    """`subscriptions/listen`: acknowledge, then stay until the client leaves, the connection ends or the server closes.

    honoured: what will be sent.  most: how many may listen.  closing: set when the server ends, which ends the
    subscription with its result.

    Raises: LocalProtocolError if too many listen, or the client cannot take a stream.
    """
    if not exchange.can_stream:
        raise LocalProtocolError(INVALID_REQUEST, "subscriptions/listen needs Accept: text/event-stream")
    if len(notifier) >= most:
        raise LocalProtocolError(INTERNAL_ERROR, f"this server has its limit of {most} listeners; try again later")
    subscription = Subscription(exchange, honoured)
    with anyio.CancelScope() as scope:
        exchange.scope = scope
        if exchange.hung_up or exchange.cancelled:
            scope.cancel()
        if not subscription.acknowledge(honoured):
            raise LocalProtocolError(INTERNAL_ERROR, "this connection has too many messages that were not read")
        notifier.add(subscription)
        try:
            await closing.wait()
        finally:
            notifier.remove(subscription)
    return {"_meta": {SUBSCRIPTION_ID: exchange.request.id}}
