"""One end of a connection as the server sees it, and the legacy session on it (2025-11-25 basic/lifecycle).

On stdio and in-process the connection is the session. On HTTP each session id has one. A modern request on the same
connection uses its id table, so that it can be cancelled, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import SessionClosed
from ..protocol import lifecycle
from ..protocol.jsonrpc import ErrorResponse, Malformed, Message, Notification, Request, Response
from ..protocol.lifecycle import State, Step
from ..protocol.peer import Cancelled, Dropped, Event, Heard, Incoming, Peer, Reply, Resolved
from ..protocol.types.bringup import InitializeParams
from ..protocol.versions import Version, negotiate
from .exchange import ClientInfo, Principal
from .streams import EventStream

if TYPE_CHECKING:
    from .lookout import Watch
    from .session_roots import SessionRoots

ROOTS_CHANGED = "notifications/roots/list_changed"
_OUTCOMES, _FOR_OTHERS = (Response, ErrorResponse), (Incoming, Reply)
logger = logging.getLogger("backchannel.server")


class Session:
    """A connection, and the state that `initialize` gives it.

    id: the Mcp-Session-Id on HTTP, else "".  stream: the standing channel: what belongs to no call goes there.
    roots: what is known of the client's roots, if it has some.  watched: the pages that are looked out for, by URL.
    unanswered: how many questions in a row had no answer in time.  speaks: whether what the server has to tell its
    clients goes out here; where a session has several places, one of them does.
    """

    def __init__(self, stream: EventStream, id: str = "", principal: Principal | None = None, prefix: str = ""):
        self.id = id
        self.stream = stream
        self.principal = principal
        self.peer = Peer(prefix)
        self.state = State.NEW
        self.version: Version | None = None
        self.client = ClientInfo()
        self.log_level: str | None = None
        self.subscribed: set[str] = set()
        self.unanswered = 0
        self.speaks = True
        self.on_close: Callable[[], None] = _nothing
        self.roots: SessionRoots | None = None
        self.watched: dict[str, Watch] = {}
        self._deferred: list[Callable[[], object]] = []

    def initialize(self, params: InitializeParams) -> Version:
        """Take the client's `initialize`. Returns the version that is spoken from now on.

        Raises: LocalProtocolError if the session was initialized before.
        """
        self.state = lifecycle.advance("server", self.state, Step.INITIALIZE)
        self.version = negotiate(params.protocol_version)
        self.client = ClientInfo(params.client_info, params.capabilities)
        return self.version

    @property
    def standing(self) -> bool:
        """Whether somebody reads the standing channel."""
        return True

    @property
    def ready(self) -> bool:
        """Whether the client has sent `initialized`."""
        return self.state is State.READY

    def assume(self, version: Version) -> None:
        """Serve without `initialize`, as a server without sessions does."""
        self.state, self.version = State.READY, version

    def receive(self, message: Message | Malformed) -> Incoming | Reply | None:
        """Take one message. Returns a request to serve, or a reply to send; what needs neither is done here."""
        event = self.peer.receive(message)
        if isinstance(event, _FOR_OTHERS):
            return event
        if isinstance(message, _OUTCOMES):
            self.unanswered = 0  # also where it comes too late: the client does answer
        self._take(event)
        if isinstance(event, Dropped) or (isinstance(event, Heard) and event.notification.method == ROOTS_CHANGED):
            self._hand_on(message)
        return None

    def _take(self, event: Event) -> None:
        if isinstance(event, Resolved):
            event.waiter.resolve(event.outcome)
        elif isinstance(event, Cancelled):
            if event.handle is not None:
                event.handle.cancel(event.reason)
        elif isinstance(event, Heard):
            self._hear(event.notification)

    def _hand_on(self, message: Message | Malformed) -> None:
        """What is not for this place may be for another place of the session."""

    def _changed(self, name: str, value: str | None) -> None:
        """What all places of the session have to know."""

    def set_level(self, level: str) -> None:
        """Log to the client from this level on."""
        self.log_level = level
        self._changed("level", level)

    def subscribe(self, uri: str, on: bool = True) -> None:
        """Tell the client of changes of this resource, or no more."""
        (self.subscribed.add if on else self.subscribed.discard)(uri)
        self._changed(f"uri {uri}", "" if on else None)

    def check(self, request: Request) -> None:
        """Raises: LocalProtocolError if a legacy request is not possible in this state."""
        if self.state is not State.READY:
            self.state = lifecycle.advance("server", self.state, Step.REQUEST)

    def when_ready(self, action: Callable[[], object]) -> None:
        """Run `action` once the client has sent `initialized`: now, or then."""
        if self.state is State.READY:
            action()
        else:
            self._deferred.append(action)

    def hang_up(self) -> None:
        """The client says nothing any more: every open question fails, and what stands until it ends does end."""
        for waiter in self.peer.end_pending():
            waiter.fail(SessionClosed("the session ended before the client answered"))
        for exchange in self.peer.handles:
            if exchange.method.standing:
                exchange.hang_up()

    def close(self) -> None:
        """End the session: every handler in it is cancelled, and every open question fails."""
        self.leave()
        self.stream.close()

    def leave(self) -> None:
        """End what belongs to the session in this place."""
        self.state = lifecycle.advance("server", self.state, Step.CLOSE)
        self.hang_up()
        _, exchanges = self.peer.end()
        for exchange in exchanges:
            exchange.cancel("the session ended")
        self._deferred.clear()
        for watch in list(self.watched.values()):
            watch.end()
        self.on_close()

    def refresh_roots(self) -> None:
        """Fetch the client's roots, if it has some."""
        if self.roots is not None:
            self.roots.refresh()

    def _hear(self, notification: Notification) -> None:
        if notification.method == ROOTS_CHANGED and self.state is State.READY:
            self.refresh_roots()
        if notification.method == Step.INITIALIZED.value and self.state is not State.NEW:
            self._get_ready()
            self._changed("ready", "")

    def _get_ready(self) -> None:
        self.state = lifecycle.advance("server", self.state, Step.INITIALIZED)
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            action()


def _nothing() -> None:
    pass
