"""A transcript: every message of a connection in order, as text and as a sequence diagram.

How it works: a transport around the real one keeps what passes. Text replaces what differs from run to run by names
that stay the same for the same value: a state that comes back is the `<state 1>` that was given out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..client.transport import Lost, Receive, Transport
from ..protocol.jsonrpc import ErrorResponse, Malformed, Message, Notification, Request, Response, decode, encode
from .mermaid import Arrow, diagram

Side = Literal["client", "server"]
_ARROWS: dict[Side, str] = {"client": "→", "server": "←"}
_RANDOM = {"requestState": "state", "elicitationId": "elicitation"}
_ENVELOPE = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One message as it went over the wire. instance: which server sent or got it, where there are several."""

    sender: Side
    message: Message | Malformed
    instance: str = ""

    @property
    def members(self) -> dict[str, Any]:
        """The message as JSON."""
        if isinstance(self.message, Malformed):
            return {"malformed": self.message.message}
        value: dict[str, Any] = json.loads(encode(self.message))
        return value


@dataclass
class Transcript:
    """What went over the wire. Give it to `connect`, or `wrap` the transport of any Client."""

    messages: list[Recorded] = field(default_factory=list)

    def wrap(self, transport: Transport, instance: str = "") -> Transport:
        """A transport that keeps here what passes through it. instance: names the server where there are several."""
        return _Tap(transport, self.messages, instance)

    def clear(self) -> None:
        """Forget what was recorded, such as the beginning of the connection."""
        self.messages.clear()

    @property
    def methods(self) -> list[str]:
        """The methods of all requests and notifications, with the arrow of whoever sent them: `["→ tools/call"]`."""
        known = [(one.sender, one.message) for one in self.messages]
        return [f"{_ARROWS[side]} {sent.method}" for side, sent in known if isinstance(sent, Request | Notification)]

    def text(self, *, full: bool = False) -> str:
        """A line for each message: who sent it, method and id, and its JSON. full: with what every stateless request
        and its result carry in `_meta`."""
        return "".join(f"{line}\n" for line in self._lines(full))

    def mermaid(self) -> str:
        """A sequence diagram for mermaid, which pages of GitHub and GitLab draw."""
        return diagram(_arrows(self.messages))

    def __str__(self) -> str:
        return self.text()

    def _lines(self, full: bool) -> Iterator[str]:
        names = _Names()
        for one in self.messages:
            members = one.members
            what = [_ARROWS[one.sender], one.instance, members.get("method") or _kind(one.message)]
            what += [f"#{members['id']}"] if "id" in members else []
            body = next((members[name] for name in ("params", "result", "error", "malformed") if name in members), None)
            shown = names.replace(body if full else _without_envelope(body))
            what += [json.dumps(shown, ensure_ascii=False)] if shown else []
            yield " ".join(part for part in what if part)


class _Tap:
    """Passes everything through, and keeps every message."""

    def __init__(self, inner: Transport, log: list[Recorded], instance: str):
        self._inner = inner
        self._log = log
        self._instance = instance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open(self, receive: Receive, lost: Lost) -> None:
        def record(message: Message | Malformed) -> None:
            self._log.append(Recorded("server", message, self._instance))
            receive(message)

        await self._inner.open(record, lost)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        self._log.append(Recorded("client", decode(encode(message)), self._instance))
        await self._inner.send(message, headers)


class _Names:
    """Names for what differs from run to run, counted in the order in which it is met."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def replace(self, value: Any) -> Any:
        """The same JSON, with names in the places of what is random."""
        if isinstance(value, list):
            return [self.replace(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            name: self._name(_RANDOM[name], item) if name in _RANDOM and isinstance(item, str) else self.replace(item)
            for name, item in value.items()
        }

    def _name(self, kind: str, value: str) -> str:
        count = sum(known == kind for known, _ in self._known) + 1
        return self._known.setdefault((kind, value), f"<{kind} {count}>")


def _kind(message: Message | Malformed) -> str:
    return "error" if isinstance(message, ErrorResponse | Malformed) else "result"


def _without_envelope(body: Any) -> Any:
    """Params or result without the members of `_meta` that the protocol puts into each one."""
    if not isinstance(body, dict) or not isinstance(body.get("_meta"), dict):
        return body
    rest = {name: value for name, value in body["_meta"].items() if not name.startswith(_ENVELOPE)}
    others = {name: value for name, value in body.items() if name != "_meta"}
    return {**others, "_meta": rest} if rest else others


def _arrows(messages: list[Recorded]) -> Iterator[Arrow]:
    for one in messages:
        server = f"server {one.instance}".rstrip()
        ends = ("client", server) if one.sender == "client" else (server, "client")
        reply = isinstance(one.message, Response | ErrorResponse)
        yield Arrow(*ends, one.members, reply=reply, notification=isinstance(one.message, Notification))
