"""The Client: calls a server of either era, and answers what it asks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

import msgspec

from ..errors import INTERNAL_ERROR, ConnectionLost, RemoteProtocolError
from ..protocol.jsonrpc import Notification
from ..protocol.types.base import Implementation
from ..protocol.types.requests import LogParams
from ..protocol.types.tools import CallToolResult, ListToolsResult, Tool, decode_call_tool_result
from ..protocol.versions import Version
from .answers import Answers, ElicitHandler, Middleware, RootsSource, SampleHandler
from .connect import PROBE_TIMEOUT, ServerInfo, connect
from .connection import Clock, Connection, Progress
from .rounds import MAX_ROUNDS, call
from .transport import Transport

logger = logging.getLogger("backchannel.client")


def resolve(target: Any, headers: dict[str, str] | None) -> Transport:
    """The transport for a target. The composition root puts its own function here, which knows every kind."""
    return target  # type: ignore[no-any-return]


class Client:
    """A connection to one MCP server.

    target: a URL, a StdioServer, a Server (in-process), an entry of an mcpServers JSON, or a Transport.
    elicit, elicit_url, sample, roots: answer the server's questions; giving one declares the capability.
    version: "auto", "modern", "legacy", or a version's name.  name, software_version: how this client shows itself.
    timeout: seconds without any sign of life before a call fails; the clock stops while a person is asked.
    total_timeout: seconds for a call over all its rounds.  probe_timeout: seconds that "auto" waits for a server that
    does not know the stateless protocol.  max_rounds: rounds of questions in one call.
    log_level: log messages wanted from the server; log: takes them.  headers: sent with every HTTP request.

    Open it with `async with`, or `await client.open()` and `await client.close()`, which may happen in different tasks.
    """

    def __init__(
        self,
        target: Any,
        *,
        elicit: ElicitHandler | None = None,
        elicit_url: ElicitHandler | None = None,
        sample: SampleHandler | None = None,
        roots: RootsSource | None = None,
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
        self.answers = Answers(elicit=elicit, elicit_url=elicit_url, sample=sample, roots=roots)
        self._target = target
        self._headers = headers
        self._version = version
        self._info = Implementation(name, software_version)
        self._timeout, self._total_timeout, self._probe_timeout = timeout, total_timeout, probe_timeout
        self._max_rounds = max_rounds
        self._log_level, self._log = log_level, log
        self._connection: Connection | None = None
        self._server: ServerInfo | None = None

    async def open(self) -> Client:
        """Connect, and find out what the server speaks.

        Raises: ConnectionFailed, UnsupportedVersion, AuthRequired, RequestTimeout.
        """
        transport = resolve(self._target, self._headers)
        connection = Connection(transport, self.answers, self._info, self._log_level)
        connection.heard.append(self._hear)
        try:
            await connection.open()
            self._server = await connect(
                connection, self._version, timeout=self._timeout, probe_timeout=self._probe_timeout
            )
            if self._log_level is not None and not self._server.version.is_modern:
                await connection.request("logging/setLevel", {"level": self._log_level}, Clock(self._timeout, None))
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        return self

    async def close(self) -> None:
        """Disconnect. Safe to call more than once, and from another task than `open`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

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

        progress: called with each ProgressParams.  timeout, total_timeout: as for the Client, for this call.

        Raises: RemoteProtocolError, RequestTimeout, ConnectionLost, TooManyRounds.
        """
        if self._connection is None:
            raise ConnectionLost("the client is not open: use `async with Client(...)`")
        clock = Clock(
            timeout if timeout is not None else self._timeout,
            total_timeout if total_timeout is not None else self._total_timeout,
        )
        return await call(self._connection, method, params or {}, clock, progress=progress, max_rounds=self._max_rounds)

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

        Raises: RemoteProtocolError, RequestTimeout, ConnectionLost, TooManyRounds.
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = meta
        raw = await self.request("tools/call", params, progress=progress, timeout=timeout, total_timeout=total_timeout)
        try:
            return decode_call_tool_result(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RemoteProtocolError(INTERNAL_ERROR, f"the result of {name!r} is malformed: {error}") from error

    async def tools(self) -> AsyncIterator[Tool]:
        """All tools, page by page (server/tools, Listing Tools)."""
        cursor: str | None = None
        while True:
            raw = await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            try:
                page = msgspec.json.decode(raw, type=ListToolsResult)
            except (msgspec.DecodeError, RecursionError) as error:
                raise RemoteProtocolError(INTERNAL_ERROR, f"the list of tools is malformed: {error}") from error
            for tool in page.tools:
                yield tool
            cursor = page.next_cursor
            if cursor is None:
                return

    async def ping(self) -> None:
        """Ask for a sign of life. On the stateless protocol, which has no ping, `server/discover` serves as one."""
        await self.request("server/discover" if self.version.is_modern else "ping")

    def _hear(self, notification: Notification) -> None:
        if notification.method == "notifications/message" and self._log is not None:
            try:
                self._log(msgspec.json.decode(notification.params or b"{}", type=LogParams))
            except msgspec.DecodeError:
                logger.debug("a malformed log message was dropped")
