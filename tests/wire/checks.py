"""Whether each message is one that its version has: by the models of `mcp-types`, which are always at hand, and by the
specification's own JSON schemas where they are.

How it works: what a request is answered with depends on its method, so the requests of each connection are kept by
their ids. The schemas are read strictly: an object has no members but those that they name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import jsonschema_rs
from mcp_types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    MissingRequiredClientCapabilityErrorData,
    UnsupportedProtocolVersionErrorData,
)
from mcp_types import methods as foreign
from pydantic import BaseModel, TypeAdapter, ValidationError

from backchannel.protocol.versions import Version

from .schemas import available, by_method, definitions, validator
from .transcript import Frame, Transcript

Json = dict[str, Any]
_SPECIAL = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}
_EMPTY = {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
_NAMES = {
    "completion/complete": "CompleteResult",
    "elicitation/create": "ElicitResult",
    "initialize": "InitializeResult",
    "prompts/get": "GetPromptResult",
    "prompts/list": "ListPromptsResult",
    "resources/list": "ListResourcesResult",
    "resources/read": "ReadResourceResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "roots/list": "ListRootsResult",
    "sampling/createMessage": "CreateMessageResult",
    "server/discover": "DiscoverResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tools/call": "CallToolResult",
    "tools/list": "ListToolsResult",
}
"""The definition of a method's result."""


@dataclass(frozen=True)
class Sent:
    """A message with what it takes to judge it. method: of a response, that of its request."""

    frame: Frame
    message: Json
    method: str | None

    @property
    def is_response(self) -> bool:
        return "method" not in self.message


def sent(transcript: Transcript) -> Iterator[Sent]:
    """The messages of a transcript, in order, with the method that each belongs to."""
    asked: dict[tuple[int, str, Any], str] = {}
    for frame in transcript.frames:
        for message in frame.messages:
            method = message.get("method")
            if method is not None and "id" in message:
                asked[frame.connection, frame.sender, message["id"]] = method
            elif method is None and message.get("id") is not None:
                other = "client" if frame.sender == "server" else "server"
                method = asked.get((frame.connection, other, message["id"]))
            yield Sent(frame, message, method)


def faults(transcript: Transcript, version: Version) -> list[str]:
    """What is wrong with the messages of a transcript, one line each."""
    frames = [frame for frame in transcript.frames if frame.data is not None and frame.valid]
    found = [f"no message: {frame.data!r}" for frame in frames if not frame.messages]
    for one in sent(transcript):
        if one.frame.valid:
            for check in (by_models, by_schema):
                try:
                    check(one, version)
                except (ValidationError, jsonschema_rs.ValidationError, KeyError, AssertionError) as error:
                    found.append(f"{check.__name__}: {json.dumps(one.message)}: {type(error).__name__}: {error}")
    return found


def by_models(one: Sent, version: Version) -> None:
    """Check a message with the models of `mcp-types`. Raises: ValidationError, KeyError."""
    message, client = one.message, one.frame.sender == "client"
    if "error" in message:
        JSONRPCError.model_validate({"id": None, **message})
        if version.is_modern:
            _special(message)
    elif one.is_response:
        JSONRPCResponse.model_validate(message)
        assert one.method is not None, "a response to nothing"
        if not client and one.method in foreign.INPUT_REQUIRED_METHODS and version.is_modern:
            return _either(one.method, version, message["result"])
        check = foreign.validate_client_result if client else foreign.validate_server_result
        check(one.method, version, message["result"])
    elif "id" in message:
        JSONRPCRequest.model_validate(message)
        ask = foreign.validate_client_request if client else foreign.parse_server_request
        ask(message["method"], version, message.get("params"))
    else:
        JSONRPCNotification.model_validate(message)
        tell = foreign.validate_client_notification if client else foreign.parse_server_notification
        tell(message["method"], version, message.get("params"))


def _special(error: Json) -> None:
    """The errors that have a type of their own."""
    kinds: dict[int, type[BaseModel]] = {
        -32021: MissingRequiredClientCapabilityErrorData,
        -32022: UnsupportedProtocolVersionErrorData,
    }
    kind = kinds.get(error["error"]["code"])
    if kind is not None:
        kind.model_validate(error["error"]["data"])


def _either(method: str, version: Version, result: Json) -> None:
    """A result is of the one kind that its `resultType` says."""
    kinds = {kind.__name__ == "InputRequiredResult": kind for kind in get_args(foreign.SERVER_RESULTS[method, version])}
    kind = result["resultType"]
    assert kind in ("complete", "input_required"), "no such type of result"
    TypeAdapter(kinds[kind == "input_required"]).validate_python(result, by_name=False)


def by_schema(one: Sent, version: Version) -> None:
    """Check a message with the JSON schema of its version, if it is at hand. Raises: jsonschema_rs.ValidationError."""
    if not available(version):
        return
    message, known = one.message, definitions(version)
    if "error" in message:
        name = _SPECIAL.get(message["error"]["code"]) if version.is_modern else None
        kinds = ("JSONRPCErrorResponse", "JSONRPCError")
        name = name or next(kind for kind in kinds if kind in known)
        # The earlier schemas require an id, and have none for a message whose id cannot be read.
        validator(version, name).validate(message if "id" in message or version.is_modern else {"id": 0, **message})
    elif one.is_response:
        kinds = ("JSONRPCResultResponse", "JSONRPCResponse")
        validator(version, next(kind for kind in kinds if kind in known)).validate(message)
        assert one.method is not None, "a response to nothing"
        name = "EmptyResult" if one.method in _EMPTY else _NAMES[one.method]
        if message["result"].get("resultType") == "input_required":
            name = "InputRequiredResult"
        validator(version, name).validate(message["result"])
        assert name != "EmptyResult" or message["result"].keys() <= {"_meta"}, "more than nothing"
    else:
        name = by_method(version)[message["method"], "id" in message]
        # Until 2025-06-18 the definition of a request is without its envelope.
        envelope = {"jsonrpc", "id"} - set(known[name]["properties"])
        validator(version, name).validate({key: value for key, value in message.items() if key not in envelope})
