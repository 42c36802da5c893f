"""Who is measured: this toolkit, its peers in exact versions, and the hand-written floors.

A peer runs in this environment if that has exactly its version, and else in one of its own under `.envs`.
"""

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
SRC = HERE.parent / "src"
ENVS = HERE / ".envs"
_WITH = ("uvicorn", "uvloop", "httptools")  # the same HTTP server for all


@dataclass(frozen=True)
class Contender:
    """One toolkit. key: names its files.  package, exact: what has to be installed.  asks: its tool that makes a
    reverse call.  client, server: the statements that an application begins with."""

    key: str
    title: str
    client: str
    server: str
    package: str = ""
    exact: str = ""
    asks: str = "order"

    @cached_property
    def python(self) -> str:
        """An interpreter that has it."""
        if not self.package:
            return sys.executable
        try:
            if version(self.package) == self.exact:
                return sys.executable
        except PackageNotFoundError:
            pass
        return self._own_environment()

    def _own_environment(self) -> str:
        folder = ENVS / f"{self.package}-{self.exact}"
        python, ready = folder / "bin" / "python", folder / ".ready"
        if not ready.exists():
            print(f"installing {self.package} {self.exact} into {folder.relative_to(HERE.parent)}", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            subprocess.run([*pip, f"{self.package}=={self.exact}", *_WITH], check=True)
            ready.touch()
        return str(python)

    def command(self, folder: str, *arguments: str) -> list[str]:
        """Its program in a folder: "servers" or "clients"."""
        return [self.python, str(HERE / folder / f"{self.key}.py"), *arguments]


OURS = Contender("ours", "backchannel", "from backchannel import Client", "from backchannel import Server")
SDK = Contender(
    "sdk",
    "mcp 2.3.0",
    "from mcp.client import Client",
    "from mcp.server import MCPServer",
    "mcp",
    "2.3.0",
    "order_legacy",
)
FAST = Contender(
    "fast",
    "FastMCP 4.2.3",
    "from fastmcp import Client",
    "from fastmcp import FastMCP",
    "fastmcp",
    "4.2.3",
    "order_legacy",
)
FLOOR = Contender("floor", "floor", "import anyio, msgspec", "import anyio, msgspec, pydantic")
ALL = (OURS, SDK, FAST, FLOOR)
