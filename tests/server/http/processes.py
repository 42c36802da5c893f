"""Processes of child.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from tests.gates.source import ROOT, SRC
from tests.server.http.wire import Wire

CHILD = Path(__file__).with_name("child.py")
PATIENCE = 60.0


class Child:
    """One process. `said` is what it has written so far."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process
        self.said: list[str] = []
        self.wire = Wire(0)
        self._errors = ""

    async def hear(self, *words: str) -> str:
        """Wait for a line that begins with one of the words; gives the rest of it."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            self.said.append(line.rstrip("\n"))
            word, _, rest = self.said[-1].partition(" ")
            if word in words:
                return rest
        raise AssertionError(f"it said {self.said}, and {await self.errors()}")

    async def errors(self) -> str:
        assert self.process.stderr is not None
        self._errors += (await self.process.stderr.read()).decode()
        return self._errors

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    async def end(self) -> int:
        """Wait for the end; gives the exit code."""
        with contextlib.suppress(AssertionError):
            await self.hear("never")
        return await self.process.wait()


@contextlib.asynccontextmanager
async def child(**options: Any) -> AsyncIterator[Child]:
    """Run child.py; what it leaves running is killed."""
    environment = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}"}
    environment.pop("BACKCHANNEL_STATE_KEY", None)
    with anyio.fail_after(PATIENCE):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(CHILD), json.dumps(options)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        one = Child(process)
        try:
            if "address" not in options:
                one.wire.port = int(await one.hear("port"))
            yield one
        finally:
            await one.wire.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await one.end()
            process._transport.close()  # type: ignore[attr-defined]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
