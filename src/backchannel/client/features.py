"""The features of a server as calls with types, made of `request`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, LocalProtocolError, RemoteProtocolError
from ..protocol.types.completion import CompleteResult, Completion
from ..protocol.types.prompts import GetPromptResult, ListPromptsResult, Prompt, decode_get_prompt_result
from ..protocol.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from ..protocol.types.tools import CallToolResult, ListToolsResult, Tool, decode_call_tool_result
from .cache import Cache
from .connection import Progress
from .listing import Listing
from .tools import KnownTools

T = TypeVar("T")


class Features(ABC):
    """Tools, resources, prompts and completion.

    In the calls that have them, `progress` is called, or awaited, with each ProgressParams; `timeout` and
    `total_timeout` are seconds, as for the Client, for this call.
    """

    _tools: KnownTools
    _cache: Cache | None

    @abstractmethod
    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> msgspec.Raw:
        """Send any request and return its raw result."""

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
        """Call a tool (server/tools). A tool that failed gives a result with `is_error`. Structured content is checked
        by the tool's output schema, if `tools()` has listed it.

        Raises: as `request`.
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = meta
        raw = await self.request("tools/call", params, progress=progress, timeout=timeout, total_timeout=total_timeout)
        result = decoded(raw, decode_call_tool_result, name)
        self._tools.check(name, result)
        return result

    async def read(
        self,
        uri: str,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> ReadResourceResult:
        """Read a resource (server/resources, Reading Resources). Binary contents are in Base64.

        Raises: as `request`; for a resource that does not exist RemoteProtocolError with code -32602, or -32002 from
        servers before 2026-07-28.
        """
        raw = await self.request(
            "resources/read", {"uri": uri}, progress=progress, timeout=timeout, total_timeout=total_timeout
        )
        return decoded(raw, ReadResourceResult, uri)

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = None,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> GetPromptResult:
        """The messages of a prompt (server/prompts, Getting a Prompt). Content of unknown types is kept as it is.

        Raises: as `request`.
        """
        params = {"name": name, "arguments": arguments or {}}
        raw = await self.request("prompts/get", params, progress=progress, timeout=timeout, total_timeout=total_timeout)
        return decoded(raw, decode_get_prompt_result, name)

    async def complete(
        self,
        *,
        prompt: str | None = None,
        template: str | None = None,
        argument: str,
        value: str,
        context: dict[str, str] | None = None,
    ) -> Completion:
        """Suggestions for an argument of a prompt, or of a resource template (server/utilities/completion).

        prompt: its name.  template: its URI template.  argument: its name.  value: what is typed of it so far.
        context: the arguments that are known already.

        Raises: as `request`.
        """
        if (prompt is None) == (template is None):
            raise LocalProtocolError(INVALID_PARAMS, "complete takes either prompt= or template=")
        ref = (
            {"type": "ref/prompt", "name": prompt} if prompt is not None else {"type": "ref/resource", "uri": template}
        )
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": context}
        raw = await self.request("completion/complete", params)
        return decoded(raw, CompleteResult, "completion/complete").completion

    def tools(self) -> AsyncIterator[Tool]:
        """All tools, page by page: `async for tool in client.tools()` (server/tools, Listing Tools). Raises: as
        `request`."""
        return Listing(self._page, "tools/list", ListToolsResult, "tools", self._tools.take)

    def prompts(self) -> AsyncIterator[Prompt]:
        """All prompts, page by page (server/prompts, Listing Prompts). Raises: as `request`."""
        return Listing(self._page, "prompts/list", ListPromptsResult, "prompts")

    def resources(self) -> AsyncIterator[Resource]:
        """All resources, page by page (server/resources, Listing Resources). Raises: as `request`."""
        return Listing(self._page, "resources/list", ListResourcesResult, "resources")

    def resource_templates(self) -> AsyncIterator[ResourceTemplate]:
        """All resource templates, page by page (server/resources, Resource Templates). Raises: as `request`."""
        return Listing(self._page, "resources/templates/list", ListResourceTemplatesResult, "resource_templates")

    async def _page(self, method: str, params: dict[str, Any]) -> msgspec.Raw:
        try:
            return await self.request(method, params)
        except RemoteProtocolError:
            # "If a cursor becomes invalid, the client SHOULD discard all cached pages" (server/utilities/caching)
            if self._cache is not None and params:
                self._cache.forget(method)
            raise


def decoded(raw: msgspec.Raw, kind: Callable[[msgspec.Raw], T] | type[T], what: str) -> T:
    """A raw result as its type. Raises: RemoteProtocolError that names `what`."""
    try:
        return msgspec.json.decode(raw, type=kind) if isinstance(kind, type) else kind(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(INTERNAL_ERROR, f"the result of {what!r} is malformed: {error}") from error
