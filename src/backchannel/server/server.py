"""The Server: what it serves, and how that is registered. It knows no transport and no event loop."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar, overload

from ..errors import ConfigurationError
from ..protocol.methods import METHODS, OPEN, Method
from ..protocol.types.base import Icon, Implementation
from ..protocol.types.tools import ToolAnnotations
from .completion import Completer, Completions
from .gauges import Gauges, Tally, read
from .handler import Visible
from .limits import Limits
from .middleware import AskMiddleware, Middleware, check_ask_middleware, check_middleware
from .options import instance, known, listed, number, takes
from .prompts import PromptHandler, Prompts
from .resources import ResourceHandler, Resources
from .roots import RootList
from .sampler import Sampler
from .state import RequestState
from .subscriptions import Notifier
from .tools import ToolHandler, Tools

F = TypeVar("F", bound=Callable[..., Any])


class Server:
    """An MCP server.

    name, version: shown to clients.  title, description, website_url, icons: for display.  instructions: for the
    client's model.  lifespan: called with the server, an async context manager around its life, whose value is
    `ctx.lifespan`.  state: how the state of multi round-trip calls is sealed; servers behind a balancer share its keys.
    limits: bounds.  sampler: an async function from CreateMessageParams to a text or a CreateMessageResult; it answers
    `ctx.sample` where the client's model cannot be asked, once in a call, as a step does.  extensions: the settings of
    the extensions that it has, by their identifiers.  roots: directories beyond which no roots of a client
    reach.  ttl: seconds for which clients may keep its lists; public:
    whether they may share them between users.  debug: show the text of unexpected exceptions to clients.

    Raises: ConfigurationError that names the option which cannot work.
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
        sampler: Sampler | None = None,
        roots: Sequence[str | os.PathLike[str]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        ttl: float = 0.0,
        public: bool = False,
        debug: bool = False,
    ):
        if not isinstance(name, str):
            raise ConfigurationError(f"a server's name is a str, not {name!r}")
        _check_options(state=state, limits=limits, lifespan=lifespan, sampler=sampler, icons=icons, ttl=ttl)
        if extensions is not None:
            instance("extensions", extensions, dict)
        self.info = Implementation(name, version, title, description, website_url, icons)
        self.instructions = instructions
        self.lifespan = lifespan
        self.state = state if state is not None else RequestState()
        self.limits = limits if limits is not None else Limits()
        self.extensions = {id: dict(settings or {}) for id, settings in (extensions or {}).items()}
        self.ttl, self.public = ttl, public
        self.debug = debug
        self.sampler = sampler
        self.roots = RootList.of(roots) if roots is not None else None
        self.always_replay = False
        self.tools = Tools()
        self.prompts = Prompts()
        self.resources = Resources()
        self.completions = Completions()
        self.notify = Notifier()
        self.methods: dict[str, Method] = dict(METHODS)
        self.raw: dict[str, Callable[..., Any]] = {}
        self.middlewares: list[Middleware] = []
        self.ask_middlewares: list[AskMiddleware] = []
        self._tallies: list[Tally] = []
        self._dropped = 0

    @property
    def name(self) -> str:
        """The server's name."""
        return self.info.name

    def gauges(self) -> Gauges:
        """What goes on in this server now, in numbers, over all that serve it in this process. Each is zero where
        nothing goes on, but for `dropped`."""
        return read(self._tallies, len(self.notify), self._dropped)

    @contextmanager
    def counted(self, tally: Tally) -> Iterator[None]:
        """For the time of the block, count what this tally counts."""
        self._tallies.append(tally)
        try:
            yield
        finally:
            self._tallies.remove(tally)
            self._dropped += tally.dropped

    def capabilities(self) -> dict[str, Any]:
        """What this server declares (server/discover)."""
        declared: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
        if self.prompts.handlers:
            declared["prompts"] = {"listChanged": True}
        if self.resources.fixed or self.resources.templates:
            declared["resources"] = {"subscribe": True, "listChanged": True}
        if self.completions.completers:
            declared["completions"] = {}
        if self.extensions:
            declared["extensions"] = self.extensions
        return declared

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
        icons: list[Icon] | None = ...,
        timeout: float | None = ...,
        inline: bool = ...,
        inline_refs: bool = ...,
        visible: Visible | None = ...,
        scopes: Sequence[str] = ...,
        meta: dict[str, Any] | None = ...,
        input_schema: dict[str, Any] | None = ...,
        output_schema: dict[str, Any] | None = ...,
    ) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool (server/tools). The function itself comes back unchanged.

        name: default the function's.  title, description, annotations, icons, meta: for clients; the description
        defaults to the docstring.  timeout: seconds for one run, whose clock stops while a person is asked.
        inline: run a function that is not async in the event loop, not in a worker thread: for what is done at once.
        inline_refs: write schemas without `$ref`.  visible: takes the Principal or None, and says whether the tool
        exists for them.  scopes: that a token needs for it, where clients come with tokens.  input_schema: JSON
        Schema (2020-12, or what its `$schema` names) to use in place of the annotations; the function takes the
        arguments by their names, or in its only parameter as one dict.  output_schema: the same for the result.

        Raises: ConfigurationError that names the parameter which the wire cannot carry.
        """
        if function is not None:
            self.add_tool(_decorated(function, "tool"), **options)
            return function
        known("a tool", options, ToolHandler)

        def register(function: F) -> F:
            self.add_tool(function, **options)
            return function

        return register

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """Register a function as a tool; `options` as in `tool`."""
        known("a tool", options, ToolHandler)
        self.tools.add(ToolHandler(function, **options))

    def remove_tool(self, name: str) -> None:
        """Forget a tool. Raises: KeyError."""
        self.tools.remove(name)

    def resource(self, uri: str, /, **options: Any) -> Callable[[F], F]:
        """Register a function as a resource, or with a URI template of RFC 6570 as a family of them (server/resources).

        The parameters of the function are the variables of the template. It returns text, bytes, an Image, Audio or
        File, ResourceContents or a list of these, or anything with a JSON form; or it raises ResourceNotFound.

        options: name, title, description, mime_type, size (bytes), icons, annotations, meta: for clients.
        ttl: seconds for which clients may keep the contents.  public: whether they may share them between users.
        timeout: seconds for one run.  visible: takes the Principal or None, and says whether it exists for them.

        Raises: ConfigurationError if the template is wrong, or does not fit the function.
        """
        if not isinstance(uri, str):
            raise ConfigurationError('a resource has a URI: write @server.resource("note://{id}")')
        known("a resource", options, ResourceHandler)

        def register(function: F) -> F:
            self.add_resource(function, uri, **options)
            return function

        return register

    def add_resource(self, function: Callable[..., Any], uri: str, **options: Any) -> None:
        """Register a function as a resource; `options` as in `resource`."""
        known("a resource", options, ResourceHandler)
        self.resources.add(ResourceHandler(function, uri, **options))

    def remove_resource(self, uri: str) -> None:
        """Forget the resource of this URI, or the template. Raises: KeyError."""
        self.resources.remove(uri)

    @overload
    def prompt(self, function: F, /) -> F: ...

    @overload
    def prompt(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...

    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a prompt (server/prompts). It returns a text, content, PromptMessages or a list of
        these.

        options: name, title, description, icons, meta: for clients.  timeout: seconds for one run.  visible: takes the
        Principal or None, and says whether it exists for them.
        """
        if function is not None:
            self.add_prompt(_decorated(function, "prompt"), **options)
            return function
        known("a prompt", options, PromptHandler)

        def register(function: F) -> F:
            self.add_prompt(function, **options)
            return function

        return register

    def add_prompt(self, function: Callable[..., Any], **options: Any) -> None:
        """Register a function as a prompt; `options` as in `prompt`."""
        known("a prompt", options, PromptHandler)
        self.prompts.add(PromptHandler(function, **options))

    def remove_prompt(self, name: str) -> None:
        """Forget a prompt. Raises: KeyError."""
        self.prompts.remove(name)

    def completion(self, target: str, argument: str) -> Callable[[Completer], Completer]:
        """Register a function that suggests values for an argument (server/utilities/completion).

        target: the name of a prompt, or the URI template of a resource.  argument: its argument.  The function takes
        the value so far, and if it has a second parameter the other arguments as a dict; it returns a list of str. A
        parameter that is annotated so gets the Context, which cannot ask here.

        Raises: ConfigurationError for a function that takes something else, and an argument that the prompt or resource
        does not have; for what is not registered yet, when the server starts.
        """

        def register(function: Completer) -> Completer:
            self.completions.add(target, argument, function, self.completable())
            return function

        return register

    def completable(self) -> dict[str, list[str]]:
        """The prompts and URI templates, with the arguments of each."""
        prompts = {name: [one.name for one in it.prompt.arguments or ()] for name, it in self.prompts.handlers.items()}
        return prompts | {uri: list(it.template.names) for uri, it in self.resources.templates.items()}

    def method(self, name: str, *, extension: str | None = None) -> Callable[[F], F]:
        """Register `async def (ctx, params: dict) -> dict` for a request that the protocol does not have, such as
        "acme/thing" of an extension.

        extension: the identifier of the extension that it belongs to, which is declared from then on.

        Raises: ConfigurationError if the protocol has a method of this name.
        """
        if name in self.methods:
            raise ConfigurationError(f"there is a method {name!r} already")

        def register(function: F) -> F:
            takes(f"the method {name!r}", function, "ctx", "params")
            if extension is not None:
                self.extensions.setdefault(extension, {})
            self.methods[name] = OPEN
            self.raw[name] = function
            return function

        return register

    def include(self, other: Server, prefix: str = "") -> None:
        """Add the tools, prompts, resources, completions and methods that another server has now to this one.

        prefix: put before the names of its tools and prompts.

        Raises: ConfigurationError if a name or URI is taken.
        """
        for tool in other.tools.handlers.values():
            self.tools.add(tool.renamed(prefix))
        for prompt in other.prompts.handlers.values():
            self.prompts.add(prompt.renamed(prefix))
        for resource in (*other.resources.fixed.values(), *other.resources.templates.values()):
            self.resources.add(resource)
        for (target, argument), completer in other.completions.completers.items():
            target = prefix + target if target in other.prompts.handlers else target
            self.completions.add(target, argument, completer.function, self.completable())
        for name, function in other.raw.items():
            self.method(name)(function)
        self.extensions |= other.extensions

    def middleware(self, function: Middleware) -> Middleware:
        """Register `async def (ctx, call_next) -> result` around every request; the first one is outermost.

        It sees results. A call that asks gives an InputRequiredResult, which it must pass on.

        Raises: ConfigurationError for what is no such function.
        """
        check_middleware(function)
        self.middlewares.append(function)
        return function

    def ask_middleware(self, function: AskMiddleware) -> AskMiddleware:
        """Register a context manager `def (ctx, ask)` around every question, whatever carries it; the first one is
        outermost.

        It is entered before the question leaves, where it may raise, and left with the answer, or with what is raised
        in its place; on the stateless protocol, when the round ends. It is not async, for a question leaves when it is
        made.

        Raises: ConfigurationError for what is no such function.
        """
        check_ask_middleware(function)
        self.ask_middlewares.append(function)
        return function


def _check_options(
    *, state: object, limits: object, lifespan: object, sampler: object, icons: object, ttl: object
) -> None:
    """Raises: ConfigurationError that names the option of a Server which is not what it has to be."""
    if state is not None:
        instance("state", state, RequestState)
    if limits is not None:
        instance("limits", limits, Limits)
    if lifespan is not None:
        takes("lifespan", lifespan, "server")
        if inspect.isasyncgenfunction(lifespan) or inspect.iscoroutinefunction(lifespan):
            raise ConfigurationError("lifespan is no context manager yet: write @asynccontextmanager above it")
    if sampler is not None:
        takes("sampler", sampler, "params")
    if icons is not None:
        listed("icons", icons, Icon)
    number("ttl", ttl)


def _decorated(function: Any, kind: str) -> Any:
    """What a decorator was put on. Raises: ConfigurationError where it got a name in place of a function."""
    if isinstance(function, str):
        raise ConfigurationError(f"a {kind} gets its name by keyword: write @server.{kind}(name={function!r})")
    return function
