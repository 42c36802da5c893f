"""The Client: calls a server of either era, and answers what it asks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import msgspec

from ..errors import INTERNAL_ERROR, ConfigurationError, ConnectionLost, RemoteProtocolError
from ..protocol.jsonrpc import Notification
from ..protocol.types.base import Implementation
from ..protocol.types.requests import LogParams
from ..protocol.types.tools import CallToolResult, ListToolsResult, Tool, decode_call_tool_result
from ..protocol.versions import Version
from .answers import (
    MAX_PARALLEL,
    Answers,
    ElicitHandler,
    MethodHandler,
    Middleware,
    RootsSource,
    SampleHandler,
    as_roots,
)
from .connect import PROBE_TIMEOUT, ServerInfo, connect
from .connection import Connection, Progress
from .listener import Listener
from .listing import Listing
from .rounds import MAX_ROUNDS, go_through
from .transport import Transport

logger = logging.getLogger("backchannel.client")


def resolve(target: Any, headers: dict[str, str] | None) -> Transport:
    """The transport for a target. The composition root puts its own function here, which knows every kind."""
    return target  # type: ignore[no-any-return]


class Client:
    """A connection to one MCP server.

    target: a URL, a StdioServer, a Server (in-process), an entry of an mcpServers JSON, or a Transport.
    elicit, elicit_url, sample, roots: answer the server's questions; giving one declares the capability. A plain
    function must not block.  sample_tools, sample_context: `sample` uses the tools, and the context, it is given.
    max_parallel: how many questions are answered at once.  strict: refuse questions while no call is in flight.
    version: "auto", "modern", "legacy", or a version's name.  name, software_version: how this client shows itself.
    timeout: seconds without any sign of life before a call fails; the clock stops while a person is asked, and starts
    again with progress, which a server sends if `progress` is given.  total_timeout: seconds for a call over all its
    rounds.  probe_timeout: seconds that "auto" waits for a server that does not know the stateless protocol.
    max_rounds: rounds of questions in one call.
    log_level: log messages wanted from the server; log: takes them.  headers: sent with every HTTP request.

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
    ):
        if max_rounds < 1:
            raise ConfigurationError("max_rounds is a number of rounds, at least 1")
        self.answers = Answers(
            elicit=elicit,
            elicit_url=elicit_url,
            sample=sample,
            sample_tools=sample_tools,
            sample_context=sample_context,
            roots=roots,
            max_parallel=max_parallel,
        )
        self._target = target
        self._headers = headers
        self._strict = strict
        self._version = version
        self._info = Implementation(name, software_version)
        self._timeout, self._total_timeout, self._probe_timeout = timeout, total_timeout, probe_timeout
        self._max_rounds = max_rounds
        self._log_level, self._log = log_level, log
        self._connection: Connection | None = None
        self._server: ServerInfo | None = None

    async def open(self) -> Client:
        """Connect, and find out what the server speaks.

        Raises: ConnectionFailed, UnsupportedVersion, AuthRequired, RequestTimeout, ConfigurationError.
        """
        if self._connection is not None and self._connection.lost is None:
            raise ConfigurationError("the client is open already; a second connection takes a second Client")
        transport = resolve(self._target, self._headers)
        connection = Connection(transport, self.answers, self._info, self._log_level, self._strict)
        if self._log is not None:
            connection.heard.append(_LogReader(Listener(self._log, connection.nursery)))
        self._connection, self._server = connection, None
        async with AsyncExitStack() as undo:
            undo.push_async_callback(connection.close)
            await connection.open()
            server = await connect(connection, self._version, timeout=self._timeout, probe_timeout=self._probe_timeout)
            if self._log_level is not None and not server.version.is_modern:
                await self._set_level(connection, server, self._log_level)
            undo.pop_all()
        self._server = server
        return self

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

    def answer_middleware(self, function: Middleware) -> Middleware:
        """Register `async def (method, question, call_next) -> result` around every answer to the server."""
        self.answers.middlewares.append(function)
        return function

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
            await connection.notify("notifications/roots/list_changed", timeout=self._timeout)

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

        Raises: RemoteProtocolError, LocalProtocolError, RequestTimeout, ConnectionLost, TooManyRounds.
        """
        if self._connection is None or self._server is None:
            raise ConnectionLost("the client is not open: use `async with Client(...)`")
        idle = timeout if timeout is not None else self._timeout
        total = total_timeout if total_timeout is not None else self._total_timeout
        with self._connection.call(method, idle, total) as call:
            return await go_through(
                self._connection, call, params or {}, progress=progress, max_rounds=self._max_rounds
            )

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
        meta: dict[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool (server/tools). A tool that failed gives a result with `is_error`.

        Raises: as `request`.
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = meta
        raw = await self.request("tools/call", params, progress=progress, timeout=timeout, total_timeout=total_timeout)
        try:
            return decode_call_tool_result(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RemoteProtocolError(INTERNAL_ERROR, f"the result of {name!r} is malformed: {error}") from error

    def tools(self) -> AsyncIterator[Tool]:
        """All tools, page by page: `async for tool in client.tools()` (server/tools, Listing Tools). Raises: as
        `request`."""
        return Listing(self.request, "tools/list", ListToolsResult, "tools")

    async def ping(self) -> None:
        """Ask for a sign of life. On the stateless protocol, which has no ping, `server/discover` serves as one."""
        await self.request("server/discover" if self.version.is_modern else "ping")

    async def _set_level(self, connection: Connection, server: ServerInfo, level: str) -> None:
        if "logging" not in server.capabilities:
            logger.debug("the server declares no logging, so no level was set")
            return
        with connection.call("logging/setLevel", self._timeout) as call:
            await connection.request(call.method, {"level": level}, call)


class _LogReader:
    """Gives log messages to the host."""

    def __init__(self, listener: Listener):
        self._listener = listener

    def __call__(self, notification: Notification) -> None:
        if notification.method != "notifications/message":
            return
        try:
            message = msgspec.json.decode(notification.params or b"{}", type=LogParams)
        except (msgspec.DecodeError, RecursionError):
            logger.debug("a malformed log message was dropped")
        else:
            self._listener(message)
