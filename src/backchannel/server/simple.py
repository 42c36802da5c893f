"""The methods that ask nothing: bring-up, lists, completion, levels and subscriptions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, LocalProtocolError
from ..nursery import Nursery
from ..protocol.jsonrpc import encode
from ..protocol.types.base import Wire
from ..protocol.types.bringup import DiscoverResult, InitializeParams, InitializeResult
from ..protocol.types.completion import Reference
from ..protocol.types.prompts import ListPromptsResult
from ..protocol.types.requests import LEVELS, SetLevelParams
from ..protocol.types.resources import ListResourcesResult, ListResourceTemplatesResult
from ..protocol.types.tools import ListToolsResult
from ..protocol.versions import SUPPORTED, finish
from .context import Context
from .exchange import Exchange, Principal
from .pages import Page, Pages, page
from .session import Session
from .session_roots import SessionRoots
from .subscriptions import SessionListener, honour, listen

if TYPE_CHECKING:
    from .server import Server

T = TypeVar("T")
Method = Callable[[Exchange], Awaitable[Wire | dict[str, Any] | Page]]


def simple_methods(
    server: Server, threads: anyio.CapacityLimiter, closing: anyio.Event, nursery: Nursery, lifespan: Any = None
) -> dict[str, Method]:
    """What serves each of them.

    threads: bounds the worker threads of completers.  closing: set when the server ends.  nursery: runs what a session
    does by itself.  lifespan: the value of the server's.
    """
    simple = _Simple(server, threads, closing, nursery, lifespan)
    return {
        "initialize": simple.initialize,
        "server/discover": simple.discover,
        "tools/list": simple.list_tools,
        "prompts/list": simple.list_prompts,
        "resources/list": simple.list_resources,
        "resources/templates/list": simple.list_templates,
        "resources/subscribe": simple.subscribe,
        "resources/unsubscribe": simple.unsubscribe,
        "completion/complete": simple.complete,
        "logging/setLevel": simple.set_level,
        "subscriptions/listen": simple.listen,
    }


class _Simple:
    def __init__(
        self,
        server: Server,
        threads: anyio.CapacityLimiter,
        closing: anyio.Event,
        nursery: Nursery,
        lifespan: Any,
    ):
        self._server = server
        self._lifespan = lifespan
        self._nursery = nursery
        self._threads = threads
        self._closing = closing

    async def initialize(self, exchange: Exchange) -> InitializeResult:
        """2025-11-25 basic/lifecycle, Initialization."""
        params: InitializeParams = exchange.params
        session, server = _session(exchange), self._server
        exchange.version = session.initialize(params)
        declared = server.capabilities()
        listener = SessionListener(server.notify, session, declared)
        session.on_close = listener.stop
        session.when_ready(listener.start)  # one that never is would stay for ever
        if "roots" in session.client.capabilities:
            session.roots = SessionRoots(exchange, session, self._nursery)
            session.when_ready(session.refresh_roots)
        return InitializeResult(exchange.version, declared, server.info, server.instructions)

    async def discover(self, exchange: Exchange) -> DiscoverResult:
        """server/discover."""
        server = self._server
        versions = [version.value for version in SUPPORTED]
        return DiscoverResult(versions, server.capabilities(), server.instructions, *self._hints(False))

    async def list_tools(self, exchange: Exchange) -> Wire | Page:
        """server/tools, Listing Tools."""
        tools = self._server.tools
        return self._list(exchange, tools.pages, tools.personal, tools.shown, ListToolsResult)

    async def list_prompts(self, exchange: Exchange) -> Wire | Page:
        """server/prompts, Listing Prompts."""
        prompts = self._server.prompts
        self._need("prompts", exchange)
        return self._list(exchange, prompts.pages, prompts.personal, prompts.shown, ListPromptsResult)

    async def list_resources(self, exchange: Exchange) -> Wire | Page:
        """server/resources, Listing Resources."""
        resources = self._server.resources
        self._need("resources", exchange)
        return self._list(exchange, resources.pages, resources.personal, resources.shown, ListResourcesResult)

    async def list_templates(self, exchange: Exchange) -> Wire | Page:
        """server/resources, Resource Templates."""
        resources = self._server.resources
        self._need("resources", exchange)
        shown = resources.templates_shown
        return self._list(exchange, resources.pages, resources.personal, shown, ListResourceTemplatesResult)

    async def subscribe(self, exchange: Exchange) -> dict[str, Any]:
        """2025-11-25 server/resources, Subscriptions."""
        session, uri = _session(exchange), exchange.params.uri
        self._server.resources.find(exchange)
        if len(session.subscribed) >= self._server.limits.listeners:
            raise LocalProtocolError(INTERNAL_ERROR, "this session has subscribed to as many resources as it may")
        session.subscribe(uri)
        return {}

    async def unsubscribe(self, exchange: Exchange) -> dict[str, Any]:
        """2025-11-25 server/resources, Subscriptions."""
        _session(exchange).subscribe(exchange.params.uri, False)
        return {}

    async def complete(self, exchange: Exchange) -> Wire:
        """server/utilities/completion."""
        server, principal = self._server, exchange.principal
        self._need("completions", exchange)

        def known(ref: Reference) -> bool:
            if ref.type == "ref/prompt":
                return ref.name in server.prompts.shown(principal)
            resources = server.resources
            return ref.uri in resources.templates_shown(principal) or ref.uri in resources.shown(principal)

        found = server.completions.complete(Context(exchange, self._lifespan), known, self._threads)
        return await exchange.unless_cancelled(found)

    async def set_level(self, exchange: Exchange) -> dict[str, Any]:
        """2025-11-25 server/utilities/logging, Setting Log Level."""
        params: SetLevelParams = exchange.params
        if params.level not in LEVELS:
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: unknown log level {params.level[:50]!r}")
        _session(exchange).set_level(params.level)
        return {}

    def listen(self, exchange: Exchange) -> Awaitable[dict[str, Any]]:
        """basic/patterns/subscriptions. As long as it lasts, nothing of this method is kept."""
        server, params = self._server, exchange.params
        uris = params.notifications.resource_subscriptions or ()
        if len(uris) > server.limits.listeners:
            raise LocalProtocolError(
                INVALID_PARAMS, f"Invalid params: at most {server.limits.listeners} resources in one subscription"
            )
        hidden = {uri for uri in uris if not server.resources.allows(uri, exchange.principal)}
        honoured = honour(params.notifications, server.capabilities(), hidden)
        return listen(exchange, server.notify, honoured, server.limits.listeners, self._closing)

    def _need(self, area: str, exchange: Exchange) -> None:
        """What is not declared does not exist. Raises: LocalProtocolError (-32601)."""
        if area not in self._server.capabilities():
            raise LocalProtocolError(METHOD_NOT_FOUND, f"Method not found: {exchange.name}: this server has no {area}")

    def _list(
        self,
        exchange: Exchange,
        pages: Pages,
        personal: bool,
        shown: Callable[[Principal | None], Mapping[str, T]],
        result: Callable[[list[T], str | None, int, str], Wire],
    ) -> Wire | Page:
        """One page of a list. It goes out as it did the last time, where it depends on no client, and no middleware
        looks at it.

        shown: the entries that there are for somebody.  result: of the request, from a page and the hints.
        """
        server, cursor, hints = self._server, exchange.params.cursor, self._hints(personal)
        plain = not personal and not server.middlewares
        form = (exchange.name, exchange.version, server.limits.page, hints)
        kept = pages.find(form, cursor) if plain else None
        if kept is not None:
            return kept
        items, following = page(shown(exchange.principal), cursor, server.limits.page)
        made = result(items, following, *hints)
        if not plain:
            return made
        encoded = encode(finish(exchange.version, exchange.name, made, server.info))
        return pages.keep(form, cursor, following, Page(encoded))

    def _hints(self, personal: bool) -> tuple[int, str]:
        """How long, and by whom, a result may be kept (server/utilities/caching)."""
        return round(self._server.ttl * 1000), "public" if self._server.public and not personal else "private"


def _session(exchange: Exchange) -> Session:
    if exchange.session is None:
        raise LocalProtocolError(INTERNAL_ERROR, f"{exchange.name} needs a session, and this server keeps none")
    return exchange.session
