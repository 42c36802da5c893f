"""The Client: calls a server of either era, and answers what it asks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import INVALID_PARAMS, ConfigurationError, ConnectionLost, LocalProtocolError
from ..protocol.types.base import Implementation
from ..protocol.types.bringup import DiscoverResult
from ..protocol.types.requests import LEVELS, LogParams
from ..protocol.versions import Version
from .answers import (
    MAX_PARALLEL,
    AnswerMiddleware,
    Answers,
    ElicitHandler,
    MethodHandler,
    RootsSource,
    SampleHandler,
)
from .asked import as_roots
from .cache import Cache
from .connect import PROBE_TIMEOUT, ServerInfo, connect, versions_for
from .connection import Connection, Progress
from .delivery import deliver
from .features import Features, decoded
from .gauges import Gauges, read
from .listener import LogReader
from .onion import onion
from .pending import Pending
from .renewal import Renewal
from .rising import Rising
from .rounds import MAX_ROUNDS, go_through, raw, send
from .subscriptions import Changes, Subscriptions, Wanted
from .tools import KnownTools
from .transport import Transport

if TYPE_CHECKING:
    from .auth.auth import Auth

logger = logging.getLogger("backchannel.client")
Middleware = Callable[[Pending[Any], Callable[[Pending[Any]], Awaitable[Any]]], Awaitable[Any]]


def maker(target: Any, headers: dict[str, str] | None, auth: Auth | None) -> Callable[[], Transport]:
    """What makes the transport for a target. The composition root puts its own function here, which knows each kind."""
    return lambda: target


class Client(Features):
    """A connection to one MCP server.

    target: a URL, a StdioServer, a Server (in-process), an entry of an mcpServers JSON, or a Transport.
    elicit, elicit_url, sample, roots: answer the server's questions; giving one declares the capability. A function
    that is no coroutine function runs in a worker thread.  sample_tools, sample_context: `sample` uses the tools, and
    the context, it is given.
    max_parallel: how many questions are answered at once.  strict: refuse questions that belong to no call in flight.
    version: "auto", "modern", "legacy", or a version's name.  name, software_version: how this client shows itself.
    timeout: seconds without any sign of life before a call fails; the clock stops while a person is asked, and starts
    again with progress, which a server sends if `progress` is given.  total_timeout: seconds for a call over all its
    rounds.  probe_timeout: seconds that "auto" waits for a server that does not know the stateless protocol.
    max_rounds: rounds of questions in one call.  renew: begin a new session where the server has lost the old one.
    log_level: log messages wanted from the server; log: takes them, and must not block.
    headers: sent with every HTTP request.  auth: obtains tokens for them, such as an OAuth().
    cache: use lists and resources again for as long as the server says that they are good, until it says otherwise.

    Deprecated since 2026-07-28: sample, roots and log_level. New servers call a provider's API, take paths as
    arguments, and log to stderr or OpenTelemetry.

    Open it with `async with`, or `await client.open()` and `await client.close()`, which may happen in different tasks.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        target: Any,
        *,
        elicit: ElicitHandler | None = None,
        elicit_url: ElicitHandler | None = None,
        sample: SampleHandler | None = None,
        sample_tools: bool = False,
        sample_context: bool = False,
        roots: RootsSource | None = None,
        max_parallel: int = MAX_PARALLEL,
        strict: bool = False,
        version: str = "auto",
        name: str = "backchannel",
        software_version: str = "0.1.0",
        timeout: float | None = 60.0,
        total_timeout: float | None = None,
        probe_timeout: float = PROBE_TIMEOUT,
        max_rounds: int = MAX_ROUNDS,
        log_level: str | None = None,
        log: Callable[[LogParams], Any] | None = None,
        headers: dict[str, str] | None = None,
        auth: Auth | None = None,
        cache: bool = True,
        renew: bool = True,
    ):
        if max_rounds < 1:
            raise ConfigurationError("max_rounds is a number of rounds, at least 1")
        versions_for(version)  # raises for what is none
        self.answers = Answers(
            elicit=elicit,
            elicit_url=elicit_url,
            sample=sample,
            sample_tools=sample_tools,
            sample_context=sample_context,
            roots=roots,
            max_parallel=max_parallel,
        )
        self._make_transport = maker(target, headers, auth)
        self._strict = strict
        self._version = version
        self._info = Implementation(name, software_version)
        self._timeout, self._total_timeout, self._probe_timeout = timeout, total_timeout, probe_timeout
        self._max_rounds = max_rounds
        self._log_level, self._log = log_level, log
        self._renews = renew
        self._caches = cache
        self._middlewares: list[Middleware] = []
        self._cache: Cache | None = None
        self._tools = KnownTools(mirrored=False)
        self._connection: Connection | None = None
        self._server: ServerInfo | None = None

    async def open(self) -> Client:
        """Connect, and find out what the server speaks.

        Raises: ConnectionFailed, UnsupportedVersion, AuthRequired, RequestTimeout, ConfigurationError.
        """
        if self._connection is not None and self._connection.lost is None:
            raise ConfigurationError("the client is open already; a second connection takes a second Client")
        transport = self._make_transport()
        connection = Connection(transport, self.answers, self._info, self._log_level, self._strict)
        if self._log is not None:
            connection.heard.append(LogReader(connection.listener(self._log)))
        self._connection, self._server = connection, None
        async with AsyncExitStack() as undo:
            undo.push_async_callback(connection.close)
            await connection.open()
            server = await connect(connection, self._version, timeout=self._timeout, probe_timeout=self._probe_timeout)
            if self._log_level is not None and not server.version.is_modern:
                await self._set_level(connection, server, self._log_level)
            undo.pop_all()
        self._begin(connection, server)
        return self

    def _begin(self, connection: Connection, server: ServerInfo) -> None:
        """What is known of the server and its features is known from one connection."""
        self._cache = Cache() if self._caches else None
        self._tools = KnownTools(mirrored=server.version.is_modern and connection.transport.request_streams)
        connection.heard.insert(0, self._tools.heard)
        if self._cache is not None:
            connection.heard.insert(0, self._cache.heard)
        self._subscriptions = Subscriptions(connection, server.capabilities, self._timeout)
        self._server = server
        if self._renews:
            connection.renewal = Renewal(connection.nursery, self._begin_again)

    async def _begin_again(self) -> None:
        """Begin a new session, as the one was that the server has lost. What could have changed meanwhile has."""
        connection = self._opened()
        connection.withdraw_questions()
        server = await connect(connection, self.version.value, timeout=self._timeout)
        self._server = server
        if self._log_level is not None and not server.version.is_modern:
            await self._set_level(connection, server, self._log_level)
        await self._subscriptions.restore(server.capabilities)

    async def close(self) -> None:
        """Disconnect. Safe to call more than once, and from another task than `open`."""
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Client:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def server(self) -> ServerInfo:
        """What the server said of itself. Raises: ConnectionLost before `open`."""
        if self._server is None:
            raise ConnectionLost("the client is not open: use `async with Client(...)`")
        return self._server

    @property
    def version(self) -> Version:
        """The protocol version that is spoken."""
        return self.server.version

    def middleware(self, function: Middleware) -> Middleware:
        """Register `async def (call, call_next) -> result` around every request of this client, over all its rounds;
        the first one is outermost. Not around what brings a connection up, and what holds a subscription.

        `call` is a Pending, with `method` and `params`; `await call_next(call)` goes on with it, or with another such
        as `call.with_meta(...)`. The result is raw JSON, or for `begin` and `resume` also a Pending. A middleware may
        give a result of its own, which has the form of JSON.
        """
        self._middlewares.append(function)
        return function

    def answer_middleware(self, function: AnswerMiddleware) -> AnswerMiddleware:
        """Register `async def (asked, call_next) -> result` around every answer to the server, by whatever wire its
        question came; the first one is outermost. `asked` has `method` and `params`; `await call_next(asked)` gives
        the result, as a type of `backchannel.types` or a dict."""
        self.answers.middlewares.append(function)
        return function

    def gauges(self) -> Gauges:
        """What goes on in this client now, in numbers."""
        if self._connection is None:
            return Gauges()
        return read(self._connection, self.answers, self._subscriptions if self._server is not None else None)

    def method(self, name: str) -> Callable[[MethodHandler], MethodHandler]:
        """Register `(params) -> result` for requests of the server that the specification does not know, as extensions
        have them: `@client.method("acme/ask")`. Params and result are dicts."""

        def register(handler: MethodHandler) -> MethodHandler:
            self.answers.methods[name] = handler
            return handler

        return register

    async def set_roots(self, roots: RootsSource) -> None:
        """Have other roots from now on. A legacy server is told; a modern one asks when it needs them (client/roots).

        Raises: ConfigurationError, also in a legacy session that began without roots, since capabilities cannot grow:
        give `roots=[]` to the Client; ConnectionLost, RequestTimeout.
        """
        connection = self._connection
        told = connection is not None and connection.lost is None and self._server is not None
        told = told and not self.version.is_modern
        if told and "roots" not in self.answers.declared:
            raise ConfigurationError("this session began without roots; give roots=[] to the Client to have some later")
        self.answers.roots = roots if callable(roots) else as_roots(roots)
        if told and connection is not None:
            with connection.call("notifications/roots/list_changed", total=self._timeout) as call:
                await deliver(connection, call, partial(connection.notify, call.method), may_repeat=True)

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> msgspec.Raw:
        """Send any request and return its raw result; rounds and questions are invisible.

        progress: called, or awaited, with each ProgressParams.  timeout, total_timeout: as for the Client, for this
        call; `math.inf` for none.

        Raises: RemoteProtocolError, LocalProtocolError, RequestTimeout, ConnectionFailed, ConnectionLost,
        OutcomeUnknown if it was lost under a tool that may not run twice, TooManyRounds.
        """
        return await self._request(self._cache, method, params, progress, timeout, total_timeout)

    def _request(
        self,
        cache: Cache | None,
        method: str,
        params: dict[str, Any] | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> Awaitable[msgspec.Raw]:
        core = partial(self._go_through, self._opened(), cache, progress, timeout, total_timeout)
        pending = Pending.start(method, params or {})
        return self._through(core, pending) if self._middlewares else core(pending)

    async def _through(self, core: Callable[[Pending[Any]], Awaitable[Any]], pending: Pending[Any]) -> msgspec.Raw:
        return raw(await onion(self._middlewares, core)(pending))

    def _go_through(
        self,
        connection: Connection,
        cache: Cache | None,
        progress: Progress | None,
        timeout: float | None,
        total_timeout: float | None,
        pending: Pending[Any],
    ) -> Awaitable[msgspec.Raw]:
        idle, total = self._clocks(timeout, total_timeout)
        tools, most = self._tools, self._max_rounds
        return go_through(
            connection, pending, idle, total, cache=cache, tools=tools, progress=progress, max_rounds=most
        )

    async def _round(
        self,
        pending: Pending[Any],
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> msgspec.Raw | Pending[Any]:
        connection = self._opened()
        rising = Rising(progress) if progress is not None else None

        async def core(pending: Pending[Any]) -> msgspec.Raw | Pending[Any]:
            with connection.call(pending.method, *self._clocks(timeout, total_timeout), by_hand=True) as call:
                return await send(connection, call, pending, self._tools, rising)

        result = await onion(self._middlewares, core)(pending)
        return result if isinstance(result, Pending) else raw(result)

    def _clocks(self, idle: float | None, total: float | None) -> tuple[float | None, float | None]:
        return idle if idle is not None else self._timeout, total if total is not None else self._total_timeout

    def _opened(self) -> Connection:
        if self._connection is None or self._server is None:
            raise ConnectionLost("the client is not open: use `async with Client(...)`")
        return self._connection

    def listen(
        self,
        *,
        resources: Sequence[str] = (),
        tools: bool = False,
        prompts: bool = False,
        resource_list: bool = False,
    ) -> Changes:
        """Changes, as they happen: `async with client.listen(tools=True) as changes: async for change in changes`
        (basic/patterns/subscriptions).

        resources: URIs of resources whose contents matter.  tools, prompts, resource_list: whether these lists matter.

        Raises: ConfigurationError if nothing is wanted; when the block is entered, RemoteProtocolError, RequestTimeout,
        ConnectionLost.
        """
        self._opened()
        if isinstance(resources, str):
            raise ConfigurationError(f"resources is a list of URIs; write [{resources!r}]")
        wanted = Wanted(tuple(dict.fromkeys(resources)), tools, prompts, resource_list)
        if wanted == Wanted():
            raise ConfigurationError("say what to listen for: resources=[...], tools, prompts or resource_list")
        return self._subscriptions.listen(wanted)

    async def set_log_level(self, level: str) -> None:
        """Have log messages from this level on; the Client's `log` takes them. Logging is deprecated since 2026-07-28,
        in favour of stderr and OpenTelemetry (server/utilities/logging).

        level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency". A legacy server is
        told; a modern one finds it in each later request.

        Raises: as `request`.
        """
        if level not in LEVELS:
            raise LocalProtocolError(INVALID_PARAMS, f"no log level {level!r}: there are {', '.join(LEVELS)}")
        if not self.version.is_modern:
            await self.request("logging/setLevel", {"level": level})
        self._opened().log_level = self._log_level = level

    async def discover(self) -> DiscoverResult:
        """What the server is and can do (server/discover). In a legacy session, what it said at the beginning.

        Raises: as `request`.
        """
        if not self.version.is_modern:
            return DiscoverResult([self.version.value], self.server.capabilities, self.server.instructions)
        return decoded(await self.request("server/discover"), DiscoverResult, "server/discover")

    async def ping(self) -> None:
        """Ask for a sign of life. On the stateless protocol, which has no ping, `server/discover` serves as one."""
        await self._request(None, "server/discover" if self.version.is_modern else "ping")

    async def _set_level(self, connection: Connection, server: ServerInfo, level: str) -> None:
        if "logging" not in server.capabilities:
            logger.debug("the server declares no logging, so no level was set")
            return
        with connection.call("logging/setLevel", self._timeout) as call:
            await connection.request(call.method, {"level": level}, call)
