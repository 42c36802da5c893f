"""The features of a server as calls with types, made of `request`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import msgspec

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, ConfigurationError, LocalProtocolError, RemoteProtocolError
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
from .pending import Pending
from .tools import KnownTools

T = TypeVar("T")
_RESULTS: dict[str, Any] = {
    "tools/call": decode_call_tool_result,
    "prompts/get": decode_get_prompt_result,
    "resources/read": ReadResourceResult,
}


class Options(TypedDict, total=False):
    """What `begin` and `resume` take besides."""

    progress: Progress | None
    timeout: float | None
    total_timeout: float | None


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

    @abstractmethod
    def _request(
        self,
        cache: Cache | None,
        method: str,
        params: dict[str, Any] | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> Awaitable[msgspec.Raw]:
        """The same. cache: where the result may be found, and is kept."""

    @abstractmethod
    async def _round(
        self,
        pending: Pending[Any],
        progress: Progress | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
    ) -> msgspec.Raw | Pending[Any]:
        """Send a call as it stands, once."""

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
        raw = await self._request(None, "tools/call", params, progress, timeout, total_timeout)
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

    @overload
    async def begin(
        self, method: Literal["tools/call"], params: Mapping[str, Any], **options: Unpack[Options]
    ) -> CallToolResult | Pending[CallToolResult]: ...
    @overload
    async def begin(
        self, method: Literal["prompts/get"], params: Mapping[str, Any], **options: Unpack[Options]
    ) -> GetPromptResult | Pending[GetPromptResult]: ...
    @overload
    async def begin(
        self, method: Literal["resources/read"], params: Mapping[str, Any], **options: Unpack[Options]
    ) -> ReadResourceResult | Pending[ReadResourceResult]: ...
    async def begin(self, method: str, params: Mapping[str, Any], **options: Unpack[Options]) -> Any:
        """Send a call, and answer what it asks by hand, now or later, here or in another process:

            pending = await client.begin("tools/call", {"name": "book", "arguments": {"city": "Oslo"}})
            while isinstance(pending, Pending):
                pending = await client.resume(pending, {key: ... for key in pending.questions})

        The server may ask for elicitations, which can always be answered, be it by a no, and besides for what the
        Client has handlers for, which are not called. In a legacy session a call cannot wait: there the handlers answer
        what it asks, and it completes.

        method: "tools/call", "prompts/get" or "resources/read"; no other call may ask (basic/patterns/mrtr, Supported
        Requests).  options: `progress`, `timeout` and `total_timeout`, for this round.

        Returns the result, or the Pending. Raises: as `request`.
        """
        if method not in _RESULTS:
            raise LocalProtocolError(INVALID_PARAMS, f"{method} cannot ask, so it is not begun: use `request`")
        return await self._by_hand(Pending.start(method, params), options)

    async def resume(
        self, pending: Pending[T], answers: Mapping[str, Any] | None = None, **options: Unpack[Options]
    ) -> T | Pending[T]:
        """Go on with a call: one that `begin` has begun, or the `pending` of an exception, with the answers in it.

        answers: by the keys of `pending.questions`, each as a handler of that kind returns it: for an elicitation the
        content as a dict, True for a yes, False or "decline", None or "cancel"; a text or CreateMessageResult for
        sampling; paths for roots. What is left out the server asks again.  options: as for `begin`.

        Raises: as `request`; before anything is sent, LocalProtocolError for an answer to no question, or that breaks
        its schema, and ConfigurationError for what is no Pending.
        """
        if not isinstance(pending, Pending):
            text = "resume goes on with a Pending, of `begin` or of an exception (`error.pending`)"
            raise ConfigurationError(f"{text}, not with {type(pending).__name__}")
        result: T | Pending[T] = await self._by_hand(pending.answered(answers or {}), options)
        return result

    async def _by_hand(self, pending: Pending[Any], options: Options) -> Any:
        came = await self._round(pending, **options)
        if isinstance(came, Pending) or pending.method not in _RESULTS:
            return came
        result = decoded(came, _RESULTS[pending.method], pending.method)
        if isinstance(result, CallToolResult):
            self._tools.check(pending.params.get("name", ""), result)
        return result

    def tools(self) -> Listing[Tool]:
        """All tools, page by page: `async for tool in client.tools()`, or as a list: `await client.tools()`
        (server/tools, Listing Tools). Raises: as `request`."""
        return Listing(self._page, "tools/list", ListToolsResult, "tools", self._tools.take)

    def prompts(self) -> Listing[Prompt]:
        """All prompts, page by page (server/prompts, Listing Prompts). Raises: as `request`."""
        return Listing(self._page, "prompts/list", ListPromptsResult, "prompts")

    def resources(self) -> Listing[Resource]:
        """All resources, page by page (server/resources, Listing Resources). Raises: as `request`."""
        return Listing(self._page, "resources/list", ListResourcesResult, "resources")

    def resource_templates(self) -> Listing[ResourceTemplate]:
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
