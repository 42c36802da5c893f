"""POSTs of the streamable HTTP transport, in order and with all that can be wrong with them."""

import json
from typing import Any

from backchannel.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
)
from backchannel.protocol.http import Call, Headers, Legacy, Refusal, read_request

PREFIX = "io.modelcontextprotocol/"
META = {
    PREFIX + "protocolVersion": "2026-07-28",
    PREFIX + "clientInfo": {"name": "client", "version": "1"},
    PREFIX + "clientCapabilities": {"elicitation": {}},
}
GONE = object()


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with changes; GONE takes a member away."""
    return {name: value for name, value in {**base, **changes}.items() if value is not GONE}


def meta(**changes: Any) -> dict[str, Any]:
    return changed(META, {PREFIX + name: value for name, value in changes.items()})


def body(method: str = "tools/call", **params: Any) -> dict[str, Any]:
    """A modern request in order."""
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": changed({"name": "echo", "_meta": META}, params)}


def headers(**changes: Any) -> Headers:
    """The headers of a modern request in order, with changes: `_` for `-`."""
    usual = {
        "content_type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp_protocol_version": "2026-07-28",
        "mcp_method": "tools/call",
        "mcp_name": "echo",
    }
    wanted = changed(usual, changes)
    return Headers([(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in wanted.items()])


def post(message: Any = None, **changes: Any) -> Call | Legacy | Refusal:
    data = message if isinstance(message, bytes) else json.dumps(body() if message is None else message).encode()
    return read_request(headers(**changes), data)


# The ladder of a modern request. Every rung names its status, its code and a word of its text.

LADDER: list[tuple[str, Any, dict[str, Any], int, int, str]] = [
    ("no version", body(_meta=meta(protocolVersion=GONE)), {}, 400, INVALID_PARAMS, "protocolVersion"),
    ("no capabilities", body(_meta=meta(clientCapabilities=GONE)), {}, 400, INVALID_PARAMS, "clientCapabilities"),
    ("null capabilities", body(_meta=meta(clientCapabilities=None)), {}, 400, INVALID_PARAMS, "clientCapabilities"),
    ("no meta", body(_meta=GONE), {}, 400, INVALID_PARAMS, "protocolVersion"),
    ("no params", {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}, {}, 400, INVALID_PARAMS, "protocolVersion"),
    ("meta is no object", body(_meta=5), {}, 400, INVALID_PARAMS, "_meta"),
    ("version is a number", body(_meta=meta(protocolVersion=5)), {}, 400, INVALID_PARAMS, "protocolVersion"),
    ("capabilities are a list", body(_meta=meta(clientCapabilities=[])), {}, 400, INVALID_PARAMS, "Capabilities"),
    ("client without a name", body(_meta=meta(clientInfo={})), {}, 400, INVALID_PARAMS, "clientInfo"),
    ("token is a float", body(_meta={**META, "progressToken": 1.5}), {}, 400, INVALID_PARAMS, "progressToken"),
    ("no version header", None, {"mcp_protocol_version": GONE}, 400, HEADER_MISMATCH, "missing"),
    ("another modern header", None, {"mcp_protocol_version": "2026-07-29"}, 400, HEADER_MISMATCH, "'2026-07-29'"),
    ("a legacy header", None, {"mcp_protocol_version": "2025-11-25"}, 400, HEADER_MISMATCH, "'2025-11-25'"),
    (
        "another version in the body",
        body(_meta=meta(protocolVersion="v999.0.0")),
        {},
        400,
        HEADER_MISMATCH,
        "'v999.0.0'",
    ),
    ("two version headers", None, {"mcp_protocol_version": "2026-07-28, 2026-07-28"}, 400, HEADER_MISMATCH, "is '2026"),
    (
        "a version that is not served",
        body(_meta=meta(protocolVersion="v999.0.0")),
        {"mcp_protocol_version": "v999.0.0"},
        400,
        UNSUPPORTED_VERSION,
        "Unsupported",
    ),
    (
        "a legacy version by envelope",
        body(_meta=meta(protocolVersion="2025-11-25")),
        {"mcp_protocol_version": "2025-11-25"},
        400,
        UNSUPPORTED_VERSION,
        "Unsupported",
    ),
    ("no method header", None, {"mcp_method": GONE}, 400, HEADER_MISMATCH, "Mcp-Method is missing"),
    ("another method", None, {"mcp_method": "tools/list"}, 400, HEADER_MISMATCH, "'tools/list'"),
    ("the method in capitals", None, {"mcp_method": "TOOLS/CALL"}, 400, HEADER_MISMATCH, "'TOOLS/CALL'"),
    ("two method headers", None, {"mcp_method": "tools/call, tools/call"}, 400, HEADER_MISMATCH, "Mcp-Method"),
    ("an unknown method", body("acme/thing"), {"mcp_method": "acme/thing"}, 404, METHOD_NOT_FOUND, "acme/thing"),
    ("a removed method", body("ping"), {"mcp_method": "ping"}, 404, METHOD_NOT_FOUND, "ping"),
    ("initialize with an envelope", body("initialize"), {"mcp_method": "initialize"}, 404, METHOD_NOT_FOUND, "init"),
    ("a method of servers", body("roots/list"), {"mcp_method": "roots/list"}, 404, METHOD_NOT_FOUND, "roots"),
    (
        "a notification with an id",
        body("notifications/cancelled", requestId=1),
        {"mcp_method": "notifications/cancelled"},
        404,
        METHOD_NOT_FOUND,
        "notifications/cancelled",
    ),
    ("no tool name", body(name=GONE), {}, 400, INVALID_PARAMS, "name"),
    ("the name is a number", body(name=5), {}, 400, INVALID_PARAMS, "$.name"),
    ("answers are a list", body(inputResponses=[]), {}, 400, INVALID_PARAMS, "inputResponses"),
    ("the state is an object", body(requestState={}), {}, 400, INVALID_PARAMS, "requestState"),
    ("no name header", None, {"mcp_name": GONE}, 400, HEADER_MISMATCH, "Mcp-Name is missing"),
    ("another name", None, {"mcp_name": "other"}, 400, HEADER_MISMATCH, "'other'"),
    ("the name in capitals", None, {"mcp_name": "Echo"}, 400, HEADER_MISMATCH, "'Echo'"),
    ("two name headers", None, {"mcp_name": "echo, echo"}, 400, HEADER_MISMATCH, "'echo, echo'"),
    ("another name in Base64", None, {"mcp_name": "=?base64?b3RoZXI=?="}, 400, HEADER_MISMATCH, "'other'"),
    ("the name as Base64 without marks", None, {"mcp_name": "ZWNobw=="}, 400, HEADER_MISMATCH, "'ZWNobw=='"),
    ("Base64 without its padding", None, {"mcp_name": "=?base64?ZWNobw?="}, 400, HEADER_MISMATCH, "malformed"),
    ("Base64 with junk", None, {"mcp_name": "=?base64?ZWN!!!obw==?="}, 400, HEADER_MISMATCH, "malformed"),
    ("Base64 of no UTF-8", None, {"mcp_name": "=?base64?/w==?="}, 400, HEADER_MISMATCH, "malformed"),
    ("Base64 in capitals", None, {"mcp_name": "=?BASE64?ZWNobw==?="}, 400, HEADER_MISMATCH, "'=?BASE64?"),
    ("Base64 beyond ASCII", None, {"mcp_name": "=?base64?é?="}, 400, HEADER_MISMATCH, "malformed"),
    ("Latin-1 in the name", body(name="é"), {"mcp_name": "é"}, 400, HEADER_MISMATCH, "malformed"),
    ("control in the name", body(name="a\x01"), {"mcp_name": "a\x01"}, 400, HEADER_MISMATCH, "malformed"),
    ("text as content", None, {"content_type": "text/plain"}, 415, INVALID_REQUEST, "application/json"),
    ("no content type", None, {"content_type": GONE}, 415, INVALID_REQUEST, "application/json"),
    ("two content types", None, {"content_type": "application/json, text/x"}, 415, INVALID_REQUEST, "Content-Type"),
    ("nothing acceptable", None, {"accept": "text/html"}, 406, INVALID_REQUEST, "text/event-stream"),
]
