"""Server files as child processes: over HTTP for the whole test run, on stdio one for each client."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

SERVERS = Path(__file__).with_name("servers")
STOPPING = 10.0  # seconds that a server gets to end after SIGTERM


@dataclass
class ServerFile:
    """A server file: where it is served over HTTP, and how to launch it for stdio."""

    path: Path
    url: str
    ledger: Path
    errors: TextIO
    """Where the processes on stdio write their stderr to."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(self.path)]

    @property
    def env(self) -> dict[str, str]:
        return {"LEDGER": str(self.ledger)}

    def recorded(self, line: str) -> int:
        """How often the server recorded this line."""
        return self.ledger.read_text(encoding="utf-8").splitlines().count(line)


class HttpProcess:
    """One server file behind HTTP. Connections that come before it is up wait in the socket's backlog."""

    def __init__(self, name: str, folder: Path):
        ledger, self._log = folder / f"{name}.ledger", folder / f"{name}.log"
        ledger.touch()
        output = self._log.open("a", encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            self.file = ServerFile(SERVERS / f"{name}.py", url, ledger, output)
            self._process = subprocess.Popen(
                [*self.file.command, str(listener.fileno())],
                env={**os.environ, **self.file.env},
                stdout=output,
                stderr=output,
                pass_fds=[listener.fileno()],
            )

    def stop(self) -> tuple[int, str]:
        """End it; returns its exit status, and all that its file printed, on stdio as well."""
        self._process.terminate()
        try:
            status = self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self.file.errors.close()
        return status, self._log.read_text(encoding="utf-8")
