"""What the HTTP headers of a modern message repeat of its body (basic/transports/streamable-http, Request Metadata)."""

from __future__ import annotations

from typing import Any

import msgspec

from ..protocol.http import encode_value
from ..protocol.jsonrpc import Message
from ..protocol.methods import METHODS
from ..protocol.versions import META_VERSION, Version, is_modern


class _Meta(msgspec.Struct):
    version: Any = msgspec.field(default=None, name=META_VERSION)


_meta = msgspec.json.Decoder(_Meta)


def repeated(message: Message, version: Version | None) -> dict[str, str]:
    """The headers for a message; none on a session.

    version: the one that was negotiated; until then `_meta` of the message alone says it.
    """
    method: str | None = getattr(message, "method", None)
    if method is None or (version is not None and not version.is_modern):
        return {}
    params = _members(getattr(message, "params", None))
    sent = version.value if version is not None else _version(params.get("_meta"))
    if version is None and not (isinstance(sent, str) and is_modern(sent)):
        return {}
    known = METHODS.get(method)
    headers = {"mcp-protocol-version": sent, "mcp-method": method if known is not None else encode_value(method)}
    value = params.get(known.name) if known is not None and known.name is not None else None
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, str):
        headers["mcp-name"] = encode_value(value)
    return headers


def _members(params: Any) -> dict[str, Any]:
    """The members of params, which may be raw, or of a type of the wire."""
    if isinstance(params, dict):
        return params
    raw = params if isinstance(params, msgspec.Raw) else msgspec.json.encode(params)
    members: Any = msgspec.json.decode(raw)
    return members if isinstance(members, dict) else {}


def _version(meta: Any) -> Any:
    """The version that `_meta` names."""
    if isinstance(meta, msgspec.Raw):
        return _meta.decode(meta).version
    return meta.get(META_VERSION) if isinstance(meta, dict) else None
