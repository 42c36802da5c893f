"""Resources: what a client can read by URI, fixed or by template (server/resources)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import ConfigurationError, ResourceNotFound
from ..protocol.types.base import Annotations, Icon, Wire
from ..protocol.types.content import EmbeddedResource, ResourceContents
from ..protocol.types.requests import ReadResourceParams
from ..protocol.types.resources import ReadResourceResult, Resource, ResourceTemplate
from ..protocol.uri_template import UriTemplate
from .context import Context
from .exchange import Exchange, Principal
from .handler import Handler, Visible, name_of, summary_of
from .pages import Pages
from .parameters import ParameterQuestions
from .results import Media, json_of, text_content
from .signature import BadArguments, Signature

LONGEST_URI = 8192
"""Characters. A longer URI is not matched with templates."""


class ResourceHandler(Handler):
    """A registered resource, or a family of them: then the function's parameters are the template's variables."""

    def __init__(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        icons: list[Icon] | None = None,
        annotations: Annotations | None = None,
        ttl: float = 0.0,
        public: bool = False,
        timeout: float | None = None,
        visible: Visible | None = None,
        meta: dict[str, Any] | None = None,
    ):
        questions = ParameterQuestions.of(function)
        signature = Signature.of(
            function, context_type=Context, exclude=questions.names, describe_result=False, lenient=True
        )
        super().__init__(function, signature, questions, timeout, visible)
        try:
            self.template = UriTemplate(uri)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        _check_parameters(self.template, signature, function)
        self.mime_type = mime_type
        self.ttl, self.public = ttl, public
        named = name_of(function, name, "resource")
        text = description or summary_of(function)
        self.resource = Resource(uri, named, title, text, mime_type, size, icons, annotations, meta)
        self.resource_template = ResourceTemplate(uri, named, title, text, mime_type, icons, annotations, meta)

    def bind(self, params: ReadResourceParams) -> dict[str, Any]:
        values = self.template.match(params.uri) if self.template.is_template else {}
        if values is None:
            raise ResourceNotFound(params.uri)
        try:
            return self.signature.bind(msgspec.json.encode(values))
        except BadArguments as error:
            raise ResourceNotFound(params.uri, str(error)) from error

    def result(self, params: ReadResourceParams, value: Any) -> ReadResourceResult:
        if isinstance(value, ReadResourceResult):
            return value
        items = value if isinstance(value, list | tuple) and _all_contents(value) else [value]
        contents = [self._contents(params.uri, item) for item in items]
        if params.request_state is not None or params.input_responses is not None:
            # "Results produced by retrying a request ... MUST NOT be cached" (server/utilities/caching, Cache Key)
            return ReadResourceResult(contents, 0, "private")
        public = self.public and self.visible is None
        return ReadResourceResult(contents, round(self.ttl * 1000), "public" if public else "private")

    def _contents(self, uri: str, value: Any) -> ResourceContents:
        """Text, bytes, a file, or anything with a JSON form."""
        if isinstance(value, ResourceContents):
            return value
        if isinstance(value, EmbeddedResource):
            return value.resource
        if isinstance(value, Media):
            contents = value.contents(getattr(value, "uri", uri))
            contents.mime_type = self.mime_type or contents.mime_type
            return contents
        if isinstance(value, str):
            return ResourceContents(uri, text=text_content(value).text, mime_type=self.mime_type or "text/plain")
        if isinstance(value, bytes | bytearray | memoryview):
            blob = base64.b64encode(value).decode()
            return ResourceContents(uri, blob=blob, mime_type=self.mime_type or "application/octet-stream")
        if value is None or isinstance(value, Wire):
            raise TypeError(
                f"a resource returns text, bytes, Image, File, ResourceContents or JSON, not {type(value).__name__}; "
                "where there is nothing, raise ResourceNotFound"
            )
        return ResourceContents(uri, text=json_of(value), mime_type=self.mime_type or "application/json")


def _all_contents(items: Any) -> bool:
    return bool(items) and all(isinstance(item, ResourceContents | EmbeddedResource | Media) for item in items)


def _check_parameters(template: UriTemplate, signature: Signature, function: Callable[..., Any]) -> None:
    parameters = set(signature.input_schema.get("properties", {}))
    required = set(signature.input_schema.get("required", ()))
    unknown, missing = sorted(parameters - set(template.names)), sorted(set(template.names) - parameters)
    if missing or required & set(unknown):
        name = getattr(function, "__name__", repr(function))
        raise ConfigurationError(
            f"the parameters of {name} and the variables of {template.template!r} differ: "
            + "; ".join(
                text
                for names, text in (
                    (missing, f"no parameter for {', '.join(missing)}"),
                    (unknown, f"no variable for {', '.join(unknown)}"),
                )
                if names
            )
        )


class Resources:
    """The resources of a server, by URI, in the order in which they were added. Fixed ones come before templates."""

    def __init__(self) -> None:
        self.fixed: dict[str, ResourceHandler] = {}
        self.templates: dict[str, ResourceHandler] = {}
        self.personal = False  # whether the lists depend on who asks
        self.pages = Pages()

    def add(self, handler: ResourceHandler) -> None:
        """Register a resource. Raises: ConfigurationError if the URI is taken."""
        table = self.templates if handler.template.is_template else self.fixed
        uri = handler.template.template
        if uri in table:
            raise ConfigurationError(f"there is a resource {uri!r} already")
        self.personal |= handler.visible is not None  # first: another thread may list
        table[uri] = handler
        self.pages = Pages()

    def remove(self, uri: str) -> None:
        """Forget a resource, or a family of them by its template. Raises: KeyError."""
        table = self.fixed if uri in self.fixed else self.templates
        del table[uri]
        self.personal = any(handler.visible is not None for handler in (*self.fixed.values(), *self.templates.values()))
        self.pages = Pages()

    def shown(self, principal: Principal | None) -> dict[str, Resource]:
        """The entries of fixed resources that this principal sees."""
        return {uri: handler.resource for uri, handler in self.fixed.items() if handler.shown(principal)}

    def templates_shown(self, principal: Principal | None) -> dict[str, ResourceTemplate]:
        """The entries of templates that this principal sees."""
        return {uri: handler.resource_template for uri, handler in self.templates.items() if handler.shown(principal)}

    def serving(self, uri: str, principal: Principal | None) -> ResourceHandler | None:
        """What serves a URI for this principal; None if nothing does."""
        fixed = self.fixed.get(uri)
        if fixed is not None and fixed.shown(principal):
            return fixed
        if len(uri) > LONGEST_URI:
            return None
        matching = (one for one in self.templates.values() if one.shown(principal))
        return next((one for one in matching if one.template.match(uri) is not None), None)

    def allows(self, uri: str, principal: Principal | None) -> bool:
        """Whether this principal may hear of changes of a URI: of one that only others can read, it may not."""
        if not self.personal or self.serving(uri, principal) is not None:
            return True
        everything = (*self.fixed.values(), *self.templates.values())
        return len(uri) <= LONGEST_URI and not any(
            one.resource.uri == uri or (one.template.is_template and one.template.match(uri) is not None)
            for one in everything
        )

    def find(self, exchange: Exchange) -> ResourceHandler:
        """What serves the URI that a request names. Raises: ResourceNotFound."""
        uri: str = exchange.params.uri
        handler = self.serving(uri, exchange.principal)
        if handler is None:
            raise ResourceNotFound(uri)
        return handler
