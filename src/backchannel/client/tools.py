"""What the server's lists of tools have said: which arguments are mirrored into headers, which schema the structured
output has, and which tools may run twice (basic/transports/streamable-http, Custom Headers from Tool Parameters;
server/tools, Output Schema and Tool Annotations)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import HEADER_MISMATCH, INTERNAL_ERROR, BackchannelError, RemoteProtocolError
from ..one_line import one_line
from ..protocol.jsonrpc import Notification
from ..protocol.param_headers import ParamHeader, mirror, param_headers
from ..protocol.types.tools import CallToolResult, ListToolsResult, Tool
from .call import Call
from .connection import Connection, Progress
from .listing import Listing

if TYPE_CHECKING:
    from ..schemas import Validator

logger = logging.getLogger("backchannel.client")


class KnownTools:
    """The tools that were listed over one connection.

    mirrored: whether arguments are mirrored into headers, as they are on streamable HTTP of the stateless protocol.
    "Clients using other transports (e.g., stdio) MAY ignore `x-mcp-header` annotations entirely".
    """

    def __init__(self, *, mirrored: bool):
        self._mirrored = mirrored
        self._headers: dict[str, tuple[ParamHeader, ...]] = {}
        self._schemas: dict[str, dict[str, Any] | Validator] = {}
        self._repeatable: set[str] = set()
        self._warned: set[tuple[str, str]] = set()

    def take(self, tools: list[Tool]) -> list[Tool]:
        """Note what is listed. Returns the tools without those that have to be left out: "the client MUST exclude the
        invalid tool from the result of `tools/list`"."""
        return [tool for tool in tools if self._note(tool)]

    def heard(self, notification: Notification) -> None:
        """When the list has changed, all but the headers is not known any more until it is listed again. The headers
        stay: if they are wrong now, the server says so."""
        if notification.method == "notifications/tools/list_changed":
            self._schemas.clear()
            self._repeatable.clear()

    def _note(self, tool: Tool) -> bool:
        if self._mirrored:
            try:
                self._headers[tool.name] = param_headers(tool.input_schema)
            except ValueError as error:
                self._headers.pop(tool.name, None)
                self._warn(tool.name, f"is left out, for its definition is invalid: {error}")
                return False
        if tool.output_schema is None:
            self._schemas.pop(tool.name, None)
        else:
            self._schemas[tool.name] = tool.output_schema
        hints = tool.annotations
        if hints is not None and (hints.read_only_hint or hints.idempotent_hint):
            self._repeatable.add(tool.name)
        else:
            self._repeatable.discard(tool.name)
        return True

    def may_repeat(self, params: dict[str, Any]) -> bool:
        """Whether the list says that this `tools/call` may run twice: its tool is read-only, or idempotent.

        params: members as raw JSON.
        """
        return bool(self._repeatable) and _text(params.get("name")) in self._repeatable

    def _warn(self, name: str, what: str) -> None:
        if (name, what) not in self._warned:
            self._warned.add((name, what))
            logger.warning("the tool %.200r %s", name, one_line(what))

    def sender(
        self, connection: Connection, call: Call, params: dict[str, Any], progress: Progress | None
    ) -> Callable[[], Awaitable[msgspec.Raw]]:
        """What sends a `tools/call`: `send`, where there are headers that may matter."""
        if self._mirrored:
            return partial(self.send, connection, call, params, progress)
        return partial(connection.request, call.method, params, call, progress=progress)

    async def send(
        self, connection: Connection, call: Call, params: dict[str, Any], progress: Progress | None
    ) -> msgspec.Raw:
        """Send a `tools/call`, with the headers that its arguments are mirrored in. If the server wants others, list
        the tools and send it again, once: "the client SHOULD call `tools/list` to check for changes to the tool's
        `inputSchema`, then retry the original request with the appropriate headers" (Client Behavior).

        params: members as raw JSON.

        Raises: as `Connection.request`; LocalProtocolError for an integer that cannot be mirrored.
        """
        headers = self._mirror(params)
        try:
            return await connection.request(call.method, params, call, progress=progress, headers=headers)
        except RemoteProtocolError as error:
            if error.code != HEADER_MISMATCH:
                raise
            again = await self._again(connection, call, params)
            if again in (None, headers):
                raise
        call.restart()
        return await connection.request(call.method, params, call, progress=progress, headers=again)

    async def _again(self, connection: Connection, call: Call, params: dict[str, Any]) -> dict[str, str] | None:
        """The headers by a new list of the tools; None where there is no such list."""

        async def fetch(method: str, page: dict[str, Any]) -> msgspec.Raw:
            call.restart()
            return await connection.request(method, page, call)

        listing: Listing[Tool] = Listing(fetch, "tools/list", ListToolsResult, "tools", self.take)
        try:
            async for _ in listing:
                pass
        except RemoteProtocolError:
            return None
        return self._mirror(params)

    def _mirror(self, params: dict[str, Any]) -> dict[str, str]:
        headers = self._headers.get(_text(params.get("name"))) if self._headers else None
        if not headers:
            return {}
        arguments = msgspec.json.decode(params.get("arguments") or b"{}")
        return mirror(headers, arguments) if isinstance(arguments, dict) else {}

    def check(self, name: str, result: CallToolResult) -> None:
        """Check structured content by the tool's output schema, if it is known; a failed tool has none to check
        ("Clients SHOULD validate structured results against this schema", server/tools, Output Schema).

        Raises: RemoteProtocolError that names the tool and says what is wrong.
        """
        if name not in self._schemas or result.is_error:
            return
        validator = self._validator(name)
        if validator is None:
            return
        if result.structured_content is msgspec.UNSET:
            problems = ["there is none"]
        else:
            problems = validator.errors(result.structured_content)
        if problems:
            text = f"the structured content of the tool {name!r} breaks its output schema: {'; '.join(problems)}"
            raise RemoteProtocolError(INTERNAL_ERROR, text)

    def _validator(self, name: str) -> Validator | None:
        from ..schemas import Validator

        known = self._schemas[name]
        if isinstance(known, dict):
            try:
                known = Validator(known)
            except (ValueError, BackchannelError) as error:
                self._warn(name, f"has an output schema that cannot be used, so its results are not checked: {error}")
                del self._schemas[name]
                return None
            self._schemas[name] = known
        return known


def _text(raw: Any) -> str:
    """A member of frozen params as text; "" for what is none."""
    value = msgspec.json.decode(raw) if raw is not None else None
    return value if isinstance(value, str) else ""
