"""What the HTTP headers of a modern message repeat of its body (basic/transports/streamable-http, Request Metadata)."""

from __future__ import annotations

import msgspec

from ..protocol.http import encode_value
from ..protocol.jsonrpc import Message
from ..protocol.methods import METHODS
from ..protocol.versions import META_VERSION, Version, is_modern


class _Sent(msgspec.Struct):
    params: dict[str, msgspec.Raw] = {}


_sent = msgspec.json.Decoder(_Sent)


def repeated(message: Message, body: bytes, version: Version | None) -> dict[str, str]:
    """The headers for a message; none on a session.

    body: the message as it is sent.  version: the one that was negotiated; until then `_meta` of the message alone
    says it.
    """
    method: str | None = getattr(message, "method", None)
    if method is None or (version is not None and not version.is_modern):
        return {}
    params = _sent.decode(body).params
    meta = msgspec.json.decode(params["_meta"]) if "_meta" in params else None
    stated = meta.get(META_VERSION) if isinstance(meta, dict) else None
    version_sent = stated if isinstance(stated, str) else version
    if version_sent is None or not is_modern(version_sent):
        return {}
    headers = {"mcp-protocol-version": str(version_sent), "mcp-method": encode_value(method)}
    name = METHODS[method].name if method in METHODS else None
    value = msgspec.json.decode(params[name]) if name is not None and name in params else None
    if isinstance(value, str):
        headers["mcp-name"] = encode_value(value)
    return headers
