"""The Server: what it serves, and how that is registered. It knows no transport and no event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, overload

from ..protocol.types.base import Icon, Implementation
from ..protocol.types.tools import ToolAnnotations
from .context import Context
from .limits import Limits
from .state import RequestState
from .tools import ToolHandler, Tools

F = TypeVar("F", bound=Callable[..., Any])
CallNext = Callable[[Context], Awaitable[Any]]
Middleware = Callable[[Context, CallNext], Awaitable[Any]]


class Server:
    """An MCP server.

    name, version: shown to clients.  title, description, website_url, icons: for display.  instructions: for the
    client's model.  lifespan: called with the server, an async context manager around its life, whose value is
    `ctx.lifespan`.  state: how the state of multi round-trip calls is sealed; servers behind a balancer share its keys.
    limits: bounds.  debug: show the text of unexpected exceptions to clients.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: list[Icon] | None = None,
        instructions: str | None = None,
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] | None = None,
        state: RequestState | None = None,
        limits: Limits | None = None,
        debug: bool = False,
    ):
        self.info = Implementation(name, version, title, description, website_url, icons)
        self.instructions = instructions
        self.lifespan = lifespan
        self.state = state if state is not None else RequestState()
        self.limits = limits if limits is not None else Limits()
        self.debug = debug
        self.always_replay = False
        self.tools = Tools()
        self.middlewares: list[Middleware] = []

    @property
    def name(self) -> str:
        """The server's name."""
        return self.info.name

    def capabilities(self) -> dict[str, Any]:
        """What this server declares (server/discover)."""
        return {"tools": {}, "logging": {}}

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = ...,
        title: str | None = ...,
        description: str | None = ...,
        annotations: ToolAnnotations | None = ...,
        timeout: float | None = ...,
        inline_refs: bool = ...,
        meta: dict[str, Any] | None = ...,
    ) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool (server/tools). The function itself comes back unchanged.

        name: default the function's.  title, description, annotations, meta: for clients; the description defaults to
        the docstring.  timeout: seconds for one run, whose clock stops while a person is asked.  inline_refs: write
        schemas without `$ref`.

        Raises: ConfigurationError that names the parameter which the wire cannot carry.
        """
        if function is not None:
            self.add_tool(function)
            return function

        def register(function: F) -> F:
            self.add_tool(function, **options)
            return function

        return register

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """Register a function as a tool; `options` as in `tool`."""
        self.tools.add(ToolHandler(function, **options))

    def remove_tool(self, name: str) -> None:
        """Forget a tool. Raises: KeyError."""
        self.tools.remove(name)

    def middleware(self, function: Middleware) -> Middleware:
        """Register `async def (ctx, call_next) -> result` around every request; the first one is outermost.

        It sees results. A call that asks gives an InputRequiredResult, which it must pass on.
        """
        self.middlewares.append(function)
        return function
