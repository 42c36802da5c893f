"""What every request carries in `_meta`, and the params of requests and notifications that have few of their own
(basic/index, _meta)."""

from __future__ import annotations

from typing import Any

import msgspec

from .base import Implementation, Meta, Wire, meta

ProgressToken = int | str
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels, rising (server/utilities/logging)."""


class RequestMeta(msgspec.Struct, omit_defaults=True, rename="camel", frozen=True):
    """The reserved keys of a request's `_meta`. The envelope of the modern protocol is here."""

    progress_token: ProgressToken | None = None
    version: str | None = msgspec.field(default=None, name="io.modelcontextprotocol/protocolVersion")
    client_info: Implementation | None = msgspec.field(default=None, name="io.modelcontextprotocol/clientInfo")
    client_capabilities: dict[str, Any] | None = msgspec.field(
        default=None, name="io.modelcontextprotocol/clientCapabilities"
    )
    log_level: str | None = msgspec.field(default=None, name="io.modelcontextprotocol/logLevel")


NO_META = RequestMeta()


class _MetaOnly(msgspec.Struct):
    meta: RequestMeta = msgspec.field(default=NO_META, name="_meta")


_meta_decoder = msgspec.json.Decoder(_MetaOnly)


def read_meta(params: msgspec.Raw | None) -> RequestMeta:
    """The `_meta` of a request's raw params, whatever else is in them.

    Raises: msgspec.DecodeError or RecursionError if a reserved key has a value of the wrong type.
    """
    return _meta_decoder.decode(params).meta if params is not None else NO_META


class RequestParams(Wire, kw_only=True):
    """The base of all request params."""

    meta: RequestMeta = msgspec.field(default=NO_META, name="_meta")


class PageParams(RequestParams, kw_only=True):
    """Params of the list requests (server/utilities/pagination)."""

    cursor: str | None = None


class InputParams(RequestParams, kw_only=True):
    """Params of the requests that may be retried with answers (basic/patterns/mrtr)."""

    input_responses: dict[str, msgspec.Raw] | None = None
    request_state: str | None = None


class CallToolParams(InputParams, kw_only=True):
    """Params of `tools/call`. `arguments` stays raw until the tool's own schema reads it."""

    name: str
    arguments: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class GetPromptParams(InputParams, kw_only=True):
    """Params of `prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None


class ReadResourceParams(InputParams, kw_only=True):
    """Params of `resources/read`."""

    uri: str


class SetLevelParams(RequestParams, kw_only=True):
    """Params of `logging/setLevel` (2025-11-25 server/utilities/logging)."""

    level: str


class CancelledParams(Wire):
    """Params of `notifications/cancelled` (basic/patterns/cancellation)."""

    request_id: int | str
    reason: str | None = None
    meta: Meta | None = meta()


class ProgressParams(Wire):
    """Params of `notifications/progress` (basic/patterns/progress)."""

    progress_token: ProgressToken
    progress: float
    total: float | None = None
    message: str | None = None
    meta: Meta | None = meta()


class LogParams(Wire):
    """Params of `notifications/message` (server/utilities/logging)."""

    level: str
    data: Any
    logger: str | None = None
    meta: Meta | None = meta()
