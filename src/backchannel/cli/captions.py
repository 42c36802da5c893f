"""What a message says, in a line and a few details: method, id, round, and the gist of its payload."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..protocol.jsonrpc import ErrorResponse, Malformed, Notification, Request, Response
from ..protocol.versions import META_VERSION
from ..testing.transcript import Recorded

_IN_ROUNDS = frozenset(("tools/call", "prompts/get", "resources/read"))
"""The requests that may ask (basic/patterns/mrtr, Supported Requests)."""


@dataclass(frozen=True, slots=True)
class Caption:
    """The line on a message's arrow, and the lines below it."""

    text: str
    details: tuple[str, ...] = ()


class Captions:
    """Captions for the messages of one connection, in order: a response says what its request asked for."""

    def __init__(self) -> None:
        self._methods: dict[tuple[str, Any], str] = {}
        self._round_of_call: dict[Any, int] = {}
        self._round_of_state: dict[str, int] = {}

    def caption(self, recorded: Recorded) -> Caption:
        """The caption of the next message."""
        message = recorded.message
        if isinstance(message, Malformed):
            return Caption(f"malformed: {message.message}")
        if isinstance(message, Notification):
            gist = _of_params(message.method, _members(message.params))
            return Caption(f"{message.method.removeprefix('notifications/')} {gist}".rstrip())
        if isinstance(message, Request):
            return self._request(recorded.sender, message)
        other = "server" if recorded.sender == "client" else "client"
        method = self._methods.pop((other, message.id), "?")
        if isinstance(message, ErrorResponse):
            return Caption(f"error of #{message.id}: {message.error.code} {message.error.message}")
        return self._response(recorded.sender, method, message)

    def _request(self, sender: str, message: Request) -> Caption:
        self._methods[sender, message.id] = message.method
        params = _members(message.params)
        text = f"#{message.id} {message.method} {_of_params(message.method, params)}".rstrip()
        if message.method not in _IN_ROUNDS or META_VERSION not in (params.get("_meta") or {}):
            return Caption(text)
        state = params.get("requestState")
        number = self._round_of_call[message.id] = self._round_of_state.get(state or "", 0) + 1
        details = [f"{key} = {_of_answer(answer)}" for key, answer in (params.get("inputResponses") or {}).items()]
        return Caption(f"{text} (round {number})", (*details, *_of_state(state)))

    def _response(self, sender: str, method: str, message: Response) -> Caption:
        result = _members(message.result)
        if result.get("resultType") != "input_required":
            what = "result of" if sender == "server" else "answer to"
            return Caption(f"{what} #{message.id}: {_of_result(method, result)}")
        state = result.get("requestState") or ""
        self._round_of_state[state] = self._round_of_call.get(message.id, 1)
        asked = result.get("inputRequests") or {}
        details = [f"{key} = {_of_question(question)}" for key, question in asked.items()]
        return Caption(f"result of #{message.id}: input_required", (*details, *_of_state(state)))


def _members(raw: Any) -> dict[str, Any]:
    value = msgspec.json.decode(raw) if raw is not None else {}
    return value if isinstance(value, dict) else {"value": value}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _completion(params: dict[str, Any]) -> str:
    messages = params.get("messages") or [{}]
    return _json(_text(messages[-1].get("content")))


def _text(content: Any) -> Any:
    return content.get("text", content.get("type")) if isinstance(content, dict) else content


def _progress(params: dict[str, Any]) -> str:
    total = f"/{params['total']:g}" if "total" in params else ""
    return f"{params.get('progress', 0):g}{total} {_json(params.get('message', ''))}"


_PARAMS: dict[str, Callable[[dict[str, Any]], str]] = {
    "initialize": lambda params: str(params.get("protocolVersion")),
    "server/discover": lambda params: str((params.get("_meta") or {}).get(META_VERSION)),
    "tools/call": lambda params: f"{params.get('name')} {_json(params.get('arguments'))}",
    "elicitation/create": lambda params: _json(params.get("message")),
    "sampling/createMessage": _completion,
    "notifications/progress": _progress,
    "notifications/cancelled": lambda params: f"#{params.get('requestId')}",
}


def _of_params(method: str | None, params: dict[str, Any]) -> str:
    return _PARAMS[method](params) if method in _PARAMS else ""


def _of_question(question: dict[str, Any]) -> str:
    """The gist of a question inside of a result."""
    method = str(question.get("method"))
    return f"{method} {_of_params(method, question.get('params') or {})}".rstrip()


def _of_state(state: str | None) -> tuple[str, ...]:
    return () if not state else (f"requestState ({len(state)} bytes)",)


def _of_answer(answer: dict[str, Any]) -> str:
    """The gist of a client's answer to a question."""
    if "action" in answer:
        return f"{answer['action']} {_json(answer['content']) if 'content' in answer else ''}".rstrip()
    if "roots" in answer:
        return "roots " + ", ".join(str(root.get("uri")) for root in answer["roots"])
    return _json(_text(answer.get("content")))


def _of_result(method: str, result: dict[str, Any]) -> str:
    """The gist of the result of `method`."""
    if method == "initialize":
        return str(result.get("protocolVersion"))
    if method == "server/discover":
        return ", ".join(result.get("supportedVersions") or [])
    if method == "tools/call":
        failed = "isError " if result.get("isError") else ""
        return failed + _json(result.get("structuredContent", _text((result.get("content") or [None])[0])))
    return _of_answer(result)
