"""The cells of the MCP Inspector's command line, which connects anew for each call: see telling.py.

One more option: `inspector` is the command that starts it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from telling import LIMIT, OPTIONS, ROOT, tell


def server() -> dict[str, Any]:
    """The entry of the server in the configuration file: the one place where roots can be given."""
    if OPTIONS["transport"] == "http":
        return {"type": "streamable-http", "url": OPTIONS["url"], "roots": [{"uri": ROOT}]}
    command, *arguments = OPTIONS["command"]
    return {"command": command, "args": arguments, "roots": [{"uri": ROOT}]}


class Inspector:
    """Starts it with one method and waits for its end. folder: for its configuration."""

    def __init__(self, folder: Path):
        configuration = folder / "mcp.json"
        configuration.write_text(json.dumps({"mcpServers": {"kitchen": server()}}), encoding="utf-8")
        self.command = [*OPTIONS["inspector"], "--config", str(configuration), "--server", "kitchen"]
        self.command += ["--protocol-era", OPTIONS["era"], "--format", "json", "--quiet", "--method"]

    def run(self, method: str, *arguments: str) -> Any:
        """The result of a method. Raises: RuntimeError with the message where there is none."""
        command = [*self.command, method, *arguments]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        if not ended.stdout:
            raise RuntimeError(ended.stderr.decode())
        return json.loads(ended.stdout)["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.run("tools/call", *self._call(tool, **arguments))

    def text(self, tool: str, **arguments: Any) -> Any:
        return self.call(tool, **arguments)["content"][0]["text"]

    def tools(self) -> Any:
        return {tool["name"]: tool["inputSchema"]["properties"] for tool in self.run("tools/list")["tools"]}

    def error(self) -> Any:
        result = self.call("fail")
        return {"error": result["isError"], "text": result["content"][0]["text"]}

    def interrupt(self) -> Any:
        """Interrupt it in the middle of a call, as Ctrl-C does."""
        command = [*self.command, "tools/call", *self._call("hang", id=OPTIONS["name"])]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as hanging:
            try:
                self.text("begun", id=OPTIONS["name"])
                hanging.send_signal(signal.SIGINT)
                hanging.wait(LIMIT)
            finally:
                hanging.kill()
        return self.text("outcome", id=OPTIONS["name"])

    def cells(self) -> dict[str, Callable[[], Any]]:
        cells: dict[str, Callable[[], Any]] = {
            "list": self.tools,
            "call": lambda: self.text("add", a=2, b=3),
            "structured output": lambda: self.call("weather", city="Oslo")["structuredContent"],
            "error": self.error,
            "roots": lambda: self.text("where"),
        }
        if OPTIONS["transport"] == "http" and OPTIONS["era"] != "auto":
            # That these fail is a test too.
            cells["elicit (form)"] = lambda: self.text("order", item="coffee")
            cells["sample"] = lambda: self.text("haiku", topic="coffee")
        if OPTIONS["transport"] == "http" and OPTIONS["era"] != "legacy":
            cells["cancel"] = self.interrupt
        return cells

    @staticmethod
    def _call(tool: str, **arguments: Any) -> list[str]:
        return ["--tool-name", tool, "--tool-args-json", json.dumps(arguments)]


with tempfile.TemporaryDirectory() as folder:
    for cell, run in Inspector(Path(folder)).cells().items():
        try:
            tell(cell, run())
        except Exception as error:
            tell(cell, f"{type(error).__name__}: {error}")
