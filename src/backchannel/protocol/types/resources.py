"""Resources (server/resources)."""

from __future__ import annotations

from .base import Annotations, Icon, Meta, Wire, meta
from .content import ResourceContents
from .requests import RequestParams


class Resource(Wire):
    """A resource as `resources/list` shows it. `size` in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta | None = meta()


class ResourceTemplate(Wire):
    """A family of resources: `uri_template` is an RFC 6570 template."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta | None = meta()


class ListResourcesResult(Wire):
    """One page of resources. `ttl_ms` in milliseconds."""

    resources: list[Resource]
    next_cursor: str | None = None
    ttl_ms: int | None = None
    cache_scope: str | None = None
    meta: Meta | None = meta()


class ListResourceTemplatesResult(Wire):
    """One page of templates. `ttl_ms` in milliseconds."""

    resource_templates: list[ResourceTemplate]
    next_cursor: str | None = None
    ttl_ms: int | None = None
    cache_scope: str | None = None
    meta: Meta | None = meta()


class ReadResourceResult(Wire):
    """The contents of a resource; several where it is a collection. `ttl_ms` in milliseconds."""

    contents: list[ResourceContents]
    ttl_ms: int | None = None
    cache_scope: str | None = None
    meta: Meta | None = meta()


class SubscribeParams(RequestParams, kw_only=True):
    """Params of `resources/subscribe` and `resources/unsubscribe` (2025-11-25 server/resources)."""

    uri: str


class ResourceUpdatedParams(Wire):
    """Params of `notifications/resources/updated`."""

    uri: str
    meta: Meta | None = meta()
