"""The cells of a client that is written in Python: what it saw in each is printed as a line of JSON.

Argument: a JSON object with the `transport` and the `era`, the `command` and `url` of the server, and a `name` for this
run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

LIMIT = 15  # seconds for one cell
OPTIONS = json.loads(sys.argv[1])
MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}
ROOT = "file:///home/me/kitchen"
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Steam, then silence."}, "model": "poet-1"}


@dataclass
class Called:
    text: str
    is_error: bool
    structured: Any


class Adapter(Protocol):
    """A client, as the cells use it."""

    asked: list[Any]
    """What the person and the model were asked."""

    def connection(self) -> AbstractAsyncContextManager[Any]: ...

    async def tools(self) -> list[Any]: ...

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: Callable[..., Awaitable[None]] | None = None
    ) -> Called: ...


def answer(message: str) -> tuple[str, dict[str, Any] | None]:
    """The action and the content with which the person answers a form: nobody wants tea."""
    return ("decline", None) if "tea" in message else ("accept", {"size": "large", "cups": 2})


def tell(cell: str, saw: Any) -> None:
    print(json.dumps({"cell": cell, "saw": saw}), flush=True)


async def tell_all(client: Adapter) -> None:
    """Run every cell on one connection; one that fails tells its error."""

    async def tools() -> Any:
        return {tool.name: tool.input_schema["properties"] for tool in await client.tools()}

    async def text(tool: str, **arguments: Any) -> str:
        return (await client.call(tool, arguments)).text

    async def asking(tool: str, **arguments: Any) -> Any:
        client.asked.clear()
        return {"text": await text(tool, **arguments), "asked": client.asked}

    async def structured() -> Any:
        return (await client.call("weather", {"city": "Oslo"})).structured

    async def error() -> Any:
        called = await client.call("fail", {})
        return {"error": called.is_error, "text": called.text}

    async def progress() -> Any:
        seen: list[Any] = []
        async with anyio.create_task_group() as sips:

            async def progressed(*report: Any) -> None:
                seen.append(report)
                sips.start_soon(lambda: text("sip", id=OPTIONS["name"]))

            called = await client.call("brew", {"id": OPTIONS["name"]}, progressed)
        return {"reports": seen, "text": called.text}

    async def cancel() -> Any:
        with anyio.CancelScope() as scope:

            async def begun(*_: Any) -> None:
                scope.cancel()

            await client.call("hang", {"id": OPTIONS["name"]}, begun)
        return await text("outcome", id=OPTIONS["name"])

    cells: dict[str, Callable[[], Awaitable[Any]]] = {
        "list": tools,
        "call": lambda: text("add", a=2, b=3),
        "structured output": structured,
        "error": error,
        "progress": progress,
        "cancel": cancel,
        "elicit (form)": lambda: asking("order", item="coffee"),
        "elicit (decline)": lambda: asking("order", item="tea"),
        "sample": lambda: asking("haiku", topic="coffee"),
        "roots": lambda: text("where"),
    }
    async with client.connection():
        for cell, run in cells.items():
            try:
                with anyio.fail_after(LIMIT):
                    tell(cell, await run())
            except Exception as failure:
                tell(cell, f"{type(failure).__name__}: {failure}")
