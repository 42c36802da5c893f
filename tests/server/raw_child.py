"""A stdio server as a child process, driven by raw bytes: no client of ours has a part in it."""

import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

BOUND = 30.0
"""Seconds that nothing here should ever take."""
HEAD = """
import asyncio, os, subprocess, sys, time
import anyio
from backchannel import Context, Server, ToolError
from backchannel.server.limits import Limits
from backchannel.server.stdio import run_stdio, serve_stdio
"""
TOOLS = """
server = Server("raw")

@server.tool
async def echo(text: str) -> str:
    return text

@server.tool
async def ask(ctx: Context, what: str = "Go on?") -> str:
    answer = await ctx.elicit(what, bool)
    return type(answer).__name__

@server.tool
def ask_in_thread(ctx: Context, what: str = "Go on?") -> str:
    return type(ctx.elicit(what, bool).wait()).__name__

@server.tool
async def sleep(ctx: Context, seconds: float = 60) -> str:
    await ctx.progress(1)
    try:
        await anyio.sleep(seconds)
    finally:
        print("a finally block ran", file=sys.stderr, flush=True)
    return "slept"

@server.tool
def sleep_in_thread(ctx: Context, seconds: float = 60) -> str:
    ctx.progress(1)
    time.sleep(seconds)
    return "slept"
"""
RUN = "\nrun_stdio(server)\n"
CLIENT = {"name": "raw", "version": "1"}
META_VERSION, META_CAPABILITIES = (
    f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientCapabilities")
)


def write_server(folder: Path, body: str = "", *, head: str = HEAD, tools: str = TOOLS, run: str = RUN) -> Path:
    """A server script: the tools above, and `body`."""
    path = folder / "server.py"
    path.write_text(head + tools + textwrap.dedent(body) + run, encoding="utf-8")
    return path


def line(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    """A request, or with `id=None` a notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0"} | ({"id": id} if id is not None else {}) | {"method": method}
    return message if params is None else message | {"params": params}


def initialize(id: Any = "init", version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
    return line(id, "initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": CLIENT})


INITIALIZED = line(None, "notifications/initialized")


def call(id: Any, name: str, *, modern: bool = False, token: Any = None, more: Any = None, **arguments: Any) -> Any:
    """A `tools/call`. more: further params."""
    meta: dict[str, Any] = {} if token is None else {"progressToken": token}
    if modern:
        meta |= {META_VERSION: "2026-07-28", META_CAPABILITIES: {"elicitation": {"form": {}}}}
    params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta else {}) | (more or {})
    return line(id, "tools/call", params)


def text(response: dict[str, Any]) -> str:
    """The text of a tool's result."""
    [block] = response["result"]["content"]
    found: str = block["text"]
    return found


def encode(*messages: Any) -> bytes:
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in messages)


class Child:
    """The process. Its stdout is read all the time and must have nothing but JSON objects on lines."""

    def __init__(self, path: Path, *args: str, env: dict[str, str] | None = None, **options: Any):
        self.process = subprocess.Popen(
            [sys.executable, path, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "", **(env or {})},
            **options,
        )
        self.heard: list[dict[str, Any]] = []
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._errors = b""
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.end()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            for received in stdout:
                self._lines.put(received)
        self._lines.put(b"")

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            self._errors = stderr.read()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages: Any) -> None:
        """All in one write."""
        self.write(encode(*messages))

    def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        received = self._lines.get(timeout=BOUND)
        if not received:
            self._lines.put(b"")  # the end stays the end
            return None
        assert received.endswith(b"\n") and b"\r" not in received
        message: dict[str, Any] = json.loads(received.decode("utf-8"))
        assert message["jsonrpc"] == "2.0"
        self.heard.append(message)
        return message

    def until(self, method: str) -> dict[str, Any]:
        """The next message of this method; others are in `heard`."""
        while (message := self.receive()) is not None:
            if message.get("method") == method:
                return message
        raise AssertionError(f"no {method} came: {self.end()}")

    def response(self, id: Any) -> dict[str, Any]:
        """The response to this request, which has not come yet."""
        while (message := self.receive()) is not None:
            if "method" not in message and message.get("id") == id and type(message["id"]) is type(id):
                return message
        raise AssertionError(f"no response to {id!r} came: {self.end()}")

    def ready(self, version: str = "2025-11-25", **capabilities: Any) -> "Child":
        """Initialize a session."""
        self.send(initialize(version=version, **capabilities), INITIALIZED)
        assert self.response("init")["result"]["protocolVersion"] == version
        return self

    def end(self) -> str:
        """Close stdin, wait for the end, read what is left. Returns stderr."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(BOUND)
        for thread in self._threads:
            thread.join(BOUND)
        if self.process.returncode == 0:
            while self.receive() is not None:
                pass
        return self._errors.decode("utf-8")
