"""A sequence diagram in the language of mermaid: who sent what to whom, with the gist of each message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_SHORT = 60  # characters of a label


@dataclass(frozen=True, slots=True)
class Arrow:
    """One message, as its JSON, and between whom it went."""

    sender: str
    receiver: str
    members: dict[str, Any]
    reply: bool = False
    notification: bool = False


def diagram(arrows: Iterable[Arrow]) -> str:
    """The text of the diagram, with the participants in the order in which they appear."""
    names: dict[str, str] = {"client": "C"}
    lines = []
    for arrow in arrows:
        for one in (arrow.sender, arrow.receiver):
            names.setdefault(one, f"S{len(names)}")
        shaft = "-->>" if arrow.reply else "-)" if arrow.notification else "->>"
        lines.append(f"    {names[arrow.sender]}{shaft}{names[arrow.receiver]}: {_escaped(gist(arrow.members))}")
    heads = [f"    participant {short} as {name}" for name, short in names.items()]
    return "\n".join(["sequenceDiagram", *heads, *lines]) + "\n"


def gist(members: dict[str, Any]) -> str:
    """A message in a few words: id, method or kind of result, and what it is about."""
    id = f"{members['id']} " if "id" in members else ""
    if "method" in members:
        return f"{id}{members['method']} {_of_params(members.get('params') or {})}".rstrip()
    if "error" in members:
        return f"{id}error {members['error'].get('code')} {members['error'].get('message', '')}"
    result = members.get("result")
    return f"{id}{_of_result(result)}" if isinstance(result, dict) else f"{id}malformed"


def _of_params(params: dict[str, Any]) -> str:
    answers = params.get("inputResponses") or {}
    told = [str(params[name]) for name in ("name", "uri", "message", "protocolVersion", "requestId") if name in params]
    return ", ".join([*told, *(f"{key} = {_of_result(answer)}" for key, answer in answers.items())])


def _of_result(result: dict[str, Any]) -> str:
    if result.get("resultType") == "input_required":
        asked = result.get("inputRequests") or {}
        questions = [f"{key} {_of_params(question.get('params') or {})}".rstrip() for key, question in asked.items()]
        return "input_required " + ", ".join(questions)
    if "action" in result:
        return " ".join([result["action"], *([json.dumps(result["content"])] if result.get("content") else [])])
    content = result.get("content")
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, dict) and "text" in block:
            return ("isError " if result.get("isError") else "") + str(block["text"])
    return "result"


def _escaped(text: str) -> str:
    """A label on one line, without what mermaid reads as its own."""
    short = " ".join(text.split())
    short = short if len(short) <= _SHORT else short[: _SHORT - 1] + "…"
    return short.replace("#", "#35;").replace(";", "#59;").replace("#35#59;", "#35;")
