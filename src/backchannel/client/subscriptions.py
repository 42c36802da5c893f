"""Changes that the server tells of: `client.listen` (basic/patterns/subscriptions; 2025-11-25 server/resources,
Subscriptions).

How it works: changes that nobody has read yet lie in an ordered map, where equal ones are one. On the stateless
protocol a subscription is a request, which a task of the connection holds open; its id tells its notifications from
those of others. In a legacy session all notifications are everybody's: each reader takes what it wanted, and the
session subscribes to a resource when the first wants it, and unsubscribes when the last has left.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol

import anyio
import msgspec

from ..errors import BackchannelError, ConfigurationError, ConnectionLost, RemoteProtocolError
from ..one_line import one_line
from ..protocol.jsonrpc import Notification, RequestId, encode
from ..protocol.types.subscriptions import SUBSCRIPTION_ID, Filter
from ..waiter import Waiter
from .connection import Connection
from .subscribed import Subscribed

logger = logging.getLogger("backchannel.client")

Kind = Literal["tools", "prompts", "resource_list", "resource"]
_LISTEN = "subscriptions/listen"
_UPDATED = "notifications/resources/updated"
_KINDS: dict[str, Kind] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resource_list",
    _UPDATED: "resource",
}
_MOST = 1000  # changes that nobody has read
_GRACE = 1.0  # seconds that leaving may take


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that has changed: the list of tools, of prompts or of resources, or one resource.

    uri: of the resource, which may be a part of the one that was listened to.
    """

    kind: Kind
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which changes are wanted, or will come. resources: their URIs."""

    resources: tuple[str, ...] = ()
    tools: bool = False
    prompts: bool = False
    resource_list: bool = False

    def __contains__(self, change: Change) -> bool:
        """Whether this is one of them. "This might be a sub-resource of the one that the client actually subscribed
        to" (2025-11-25 schema, ResourceUpdatedNotification)."""
        if change.kind == "resource":
            return any(_is_part(change.uri or "", uri) for uri in self.resources)
        return bool(getattr(self, change.kind))


def _is_part(uri: str, whole: str) -> bool:
    rest = uri.removeprefix(whole)
    return uri == whole or (rest != uri and (whole.endswith("/") or rest[0] in "/?#"))


class _Source(Protocol):
    """Where changes come from."""

    async def open(self, changes: Changes) -> Wanted:
        """Begin. Returns what will come."""

    async def close(self) -> None:
        """Come to an end, in little time. It does not raise."""


class Changes:
    """What has changed since: `async with client.listen(...) as changes: async for change in changes: ...`.

    `honoured` is what the server has agreed to tell. Changes that are equal come once until they are read; of more
    than 1000 others that wait, the oldest are dropped, with a warning.

    Raises, from the iterator: ConnectionLost when the stream or the connection is gone, RemoteProtocolError; it ends
    where the server ends the subscription, or the block is left.
    """

    def __init__(self, source: _Source, open: set[Changes]):
        self.honoured = Wanted()
        self._source = source
        self._others = open
        self._waiting: dict[Change, None] = {}
        self._news = anyio.Event()
        self._is_open = self._is_over = self._is_full = False
        self._error: BackchannelError | None = None

    async def __aenter__(self) -> Changes:
        if self._is_open:
            raise ConfigurationError("this subscription was used before; call client.listen again")
        self._is_open = True
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._source.close)
            self.honoured = await self._source.open(self)
            undo.pop_all()
        self._others.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._others.discard(self)
        self._waiting.clear()
        self.end(None)
        await self._source.close()

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._is_over or not self._is_open:
                raise StopAsyncIteration
            if self._news.is_set():
                self._news = anyio.Event()
            await self._news.wait()
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change

    def tell(self, change: Change) -> None:
        """Something has changed."""
        if self._is_over:
            return
        self._waiting[change] = None
        if len(self._waiting) > _MOST:
            del self._waiting[next(iter(self._waiting))]
            if not self._is_full:
                self._is_full = True
                logger.warning("more than %s changes have not been read; the oldest are dropped", _MOST)
        self._news.set()

    def end(self, error: Exception | None) -> None:
        """No more will come. The first reason stays."""
        if self._is_over:
            return
        self._is_over = True
        if error is not None:
            self._error = error if isinstance(error, BackchannelError) else ConnectionLost(str(error))
        self._news.set()


class Subscriptions:
    """Those of one connection; `open` has them.

    capabilities: what the server declared.  timeout: seconds for it to answer.
    """

    def __init__(self, connection: Connection, capabilities: dict[str, Any], timeout: float | None):
        self._connection = connection
        self._capabilities = capabilities
        self._timeout = timeout
        self._subscribed = Subscribed(connection, timeout)
        self.open: set[Changes] = set()

    def listen(self, wanted: Wanted) -> Changes:
        """A subscription that has not begun."""
        if self._connection.version is not None and self._connection.version.is_modern:
            return Changes(_Stream(self._connection, wanted, self._timeout), self.open)
        return Changes(_Session(self._connection, wanted, self._capabilities, self._subscribed), self.open)

    async def restore(self, capabilities: dict[str, Any]) -> None:
        """In a new session: subscribe to the same resources. What has changed meanwhile nobody has told, so everything
        that is kept or listened for counts as changed.

        Raises: ConnectionLost, RequestTimeout.
        """
        self._capabilities = capabilities
        await self._subscribed.restore()
        for method in _KINDS:
            self._connection.hear(Notification(method))
        for uri in self._subscribed.uris:
            self._connection.hear(Notification(_UPDATED, msgspec.Raw(encode({"uri": uri}))))


class _Told(msgspec.Struct):
    uri: str | None = None
    notifications: Filter | None = None
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)
    request_id: RequestId | None = msgspec.field(name="requestId", default=None)


def _read(notification: Notification) -> _Told | None:
    try:
        return msgspec.json.decode(notification.params or b"{}", type=_Told)
    except (msgspec.DecodeError, RecursionError):
        logger.debug("%s with malformed params", one_line(notification.method))
        return None


def _change(notification: Notification, told: _Told) -> Change | None:
    kind = _KINDS.get(notification.method)
    if kind is None or (kind == "resource" and told.uri is None):
        return None
    return Change(kind, told.uri if kind == "resource" else None)


class _Stream:
    """A `subscriptions/listen` request."""

    def __init__(self, connection: Connection, wanted: Wanted, timeout: float | None):
        self._connection = connection
        self._wanted = wanted
        self._timeout = timeout
        self._id: RequestId | None = None
        self._scope = anyio.CancelScope()
        self._acknowledged, self._ended = Waiter(), Waiter()

    async def open(self, changes: Changes) -> Wanted:
        """Raises: RemoteProtocolError, ConnectionLost, RequestTimeout."""
        with self._connection.call(_LISTEN, total=self._timeout):
            self._connection.nursery.start(self._run, changes)
            honoured: Wanted = await self._acknowledged.wait()
        return honoured

    async def close(self) -> None:
        self._scope.cancel()
        if self._id is not None:
            with anyio.move_on_after(_GRACE, shield=True):
                await self._ended.wait()

    async def _run(self, changes: Changes) -> None:
        def hear(notification: Notification) -> None:
            self._hear(notification, changes)

        wanted = self._wanted
        filter = Filter(
            wanted.tools or None, wanted.prompts or None, wanted.resource_list or None, list(wanted.resources) or None
        )
        failure: BackchannelError | None = None
        self._connection.heard.append(hear)
        self._connection.ended.append(changes.end)
        try:
            with self._scope, self._connection.call(_LISTEN) as call:
                await self._connection.request(call.method, {"notifications": filter}, call, started=self._started)
        except BackchannelError as error:
            failure = error
            self._acknowledged.fail(error)
        finally:
            self._connection.heard.remove(hear)
            self._connection.ended.remove(changes.end)
            changes.end(failure)
            self._acknowledged.resolve(Wanted())
            self._ended.resolve(None)

    def _started(self, id: RequestId) -> None:
        self._id = id

    def _hear(self, notification: Notification, changes: Changes) -> None:
        told = _read(notification)
        if told is None:
            return
        if notification.method == "notifications/cancelled":
            # A server "MUST" end one by this on stdio (basic/patterns/cancellation), where another page has the result.
            if told.request_id == self._id and self._id is not None:
                changes.end(None)
                self._connection.forget(self._id)
                self._scope.cancel()
        elif told.meta.get(SUBSCRIPTION_ID) != self._id:
            return
        elif notification.method == "notifications/subscriptions/acknowledged":
            self._acknowledged.resolve(_honoured(told.notifications or Filter()))
        elif change := _change(notification, told):
            changes.tell(change)


def _honoured(given: Filter) -> Wanted:
    return Wanted(
        tuple(given.resource_subscriptions or ()),
        bool(given.tools_list_changed),
        bool(given.prompts_list_changed),
        bool(given.resources_list_changed),
    )


class _Session:
    """One reader of a legacy session's notifications."""

    def __init__(self, connection: Connection, wanted: Wanted, capabilities: dict[str, Any], subscribed: Subscribed):
        self._connection = connection
        self._wanted = wanted
        self._capabilities = capabilities
        self._subscribed = subscribed
        self._held: list[str] = []
        self._undo: list[Any] = []

    async def open(self, changes: Changes) -> Wanted:
        """Raises: ConnectionLost, RequestTimeout."""
        if self._connection.lost is not None:
            raise ConnectionLost(str(self._connection.lost)) from self._connection.lost

        def hear(notification: Notification) -> None:
            told = _read(notification) if notification.method in _KINDS else None
            change = _change(notification, told) if told is not None else None
            if change is not None and change in self._wanted:
                changes.tell(change)

        for calls, function in ((self._connection.heard, hear), (self._connection.ended, changes.end)):
            calls.append(function)  # type: ignore[arg-type]
            self._undo.append((calls, function))
        if self._can("resources", "subscribe"):
            for uri in self._wanted.resources:
                await self._subscribe(uri)
        wanted = self._wanted
        return Wanted(
            tuple(self._held),
            wanted.tools and self._can("tools", "listChanged"),
            wanted.prompts and self._can("prompts", "listChanged"),
            wanted.resource_list and self._can("resources", "listChanged"),
        )

    async def close(self) -> None:
        for calls, function in self._undo:
            calls.remove(function)
        self._undo.clear()
        with anyio.move_on_after(_GRACE, shield=True):
            while self._held and self._connection.lost is None:
                uri = self._held.pop()
                try:
                    await self._subscribed.remove(uri)
                except BackchannelError as error:
                    logger.debug("the server did not unsubscribe: %s", type(error).__name__)

    async def _subscribe(self, uri: str) -> None:
        try:
            await self._subscribed.add(uri)
        except RemoteProtocolError as error:
            logger.warning("the server tells nothing of %s: %s", one_line(uri), one_line(error))
        else:
            self._held.append(uri)

    def _can(self, area: str, what: str) -> bool:
        declared = self._capabilities.get(area)
        return isinstance(declared, dict) and bool(declared.get(what))
