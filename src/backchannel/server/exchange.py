"""One request, and everything that flows until its response."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
import msgspec

from ..errors import CallFinished
from ..protocol.jsonrpc import Message, Notification, Request
from ..protocol.methods import Method
from ..protocol.types.base import Implementation
from ..protocol.versions import Version

if TYPE_CHECKING:
    from .explicit import InputRequired
    from .handler import Handler
    from .inputs import Inputs
    from .session import Session
    from .state import Flow

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request, as `verify` found out. `issuer` and `subject` together name a person or program."""

    subject: str
    issuer: str = ""
    client: str = ""
    scopes: frozenset[str] = frozenset()
    claims: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """What sessions and states are bound to."""
        return json.dumps([self.issuer, self.subject, self.client])


class ClientInfo(msgspec.Struct, frozen=True):
    """The client as it describes itself: for this request on modern, for the session on legacy. Not verified."""

    info: Implementation | None = None
    capabilities: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The client software's name, or "unknown"."""
        return self.info.name if self.info else "unknown"


class Stream(Protocol):
    """Where an exchange's messages go."""

    def append(self, message: Message) -> bool:
        """Add a message without blocking. False if it could not be taken."""

    async def drain(self) -> None:
        """Wait until the reader has caught up."""

    def dismiss(self, retry: float) -> None:
        """Have the reader stop here, if it would come back for the rest. retry: after how many seconds."""


class _Nowhere:
    """The stream of a request before which nothing flows."""

    def append(self, message: Message) -> bool:
        return False

    async def drain(self) -> None:
        pass

    def dismiss(self, retry: float) -> None:
        pass


NOWHERE = _Nowhere()


class Exchange(msgspec.Struct, eq=False):
    """One request while it is served.

    stream: carries what flows before the response.  session: the legacy session, None on modern or without one.
    can_stream: False where the response can only be one JSON object, so nothing may flow before it.
    progress: the last that was reported.  claimed: with a StateStore, its state counts as used; unused: but not
    after all, for the request was wrong, or the store failed; flow: what the state holds.  handler: if it was looked
    up already; early: what that has returned or raised.
    """

    request: Request
    method: Method
    params: Any
    version: Version
    client: ClientInfo
    stream: Stream
    session: Session | None = None
    principal: Principal | None = None
    can_stream: bool = True
    name: str = ""
    around: anyio.CancelScope | None = None
    scope: anyio.CancelScope | None = None
    inputs: Inputs | None = None
    finished: bool = False
    cancelled: bool = False
    claimed: bool = False
    unused: bool = False
    handler: Handler | None = None
    early: InputRequired | BaseException | None = None
    flow: Flow | None = None
    hung_up: bool = False
    progress: float = -math.inf
    held: int = 0
    remaining: float = math.inf

    def __post_init__(self) -> None:
        self.name = self.request.method

    @property
    def target(self) -> str:
        """What the request is about: the name of a tool or prompt, the URI of a resource; else the method."""
        return str(getattr(self.params, self.method.name)) if self.method.name else self.name

    def cancel(self, reason: str | None = None) -> None:
        """Stop the handler. Its outstanding questions are withdrawn, and no response is sent."""
        self.cancelled = True
        scope = self.around or self.scope
        if scope is not None:
            scope.cancel(reason or "the client cancelled the request")

    async def unless_cancelled(self, work: Awaitable[T]) -> T:
        """What `work` gives. It is cancelled if the client cancels the request. Raises: CallFinished then."""
        with anyio.CancelScope() as scope:
            self.scope = scope
            if self.cancelled:
                scope.cancel()
            return await work
        raise CallFinished("the client cancelled the request")

    def hang_up(self) -> None:
        """End what stands until one side ends it, with its result: the client says nothing any more."""
        self.hung_up = True
        if self.scope is not None:
            self.scope.cancel("the client says nothing any more")

    def hold(self) -> None:
        """Stop the clock of the tool's time limit while a person is asked."""
        self.held += 1
        if self.held == 1 and self.scope is not None and self.scope.deadline < math.inf:
            self.remaining = self.scope.deadline - anyio.current_time()
            self.scope.deadline = math.inf

    def resume(self) -> None:
        """Start it again when the last question is answered."""
        self.held -= 1
        if self.held == 0 and self.scope is not None and self.remaining < math.inf:
            self.scope.deadline = anyio.current_time() + self.remaining
            self.remaining = math.inf

    def detached(self, session: Session) -> Exchange:
        """What is left of this request once it has ended: the session, and its standing channel."""
        other = copy.copy(self)
        other.session, other.stream, other.can_stream = session, session.stream, True
        other.request = Request(self.request.id, self.request.method)  # its params keep the whole message in memory
        other.around = other.scope = other.inputs = None
        other.finished = other.cancelled = other.hung_up = False
        other.held, other.progress = 0, math.inf  # no progress is higher: its token ended with the request
        return other

    def notify(self, method: str, params: Any) -> bool:
        """Send a notification on this exchange's own stream. False if there is no stream, or no room in it."""
        return self.stream.append(Notification(method, params))


serving: ContextVar[Exchange | None] = ContextVar("serving", default=None)
"""The exchange that runs, on a channel: for what is reached without a Context, such as a print."""
