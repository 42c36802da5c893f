"""A child process in a process group of its own, and how it is brought to an end with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import anyio
import anyio.abc

BROKEN = (OSError, RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""What a pipe raises whose other end is gone; RuntimeError is uvloop's."""


class Child:
    """A running process. `exited` is set by `watch` when it has ended."""

    def __init__(self, process: anyio.abc.Process):
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.pid = process.pid
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.exited = anyio.Event()
        self._process = process

    @classmethod
    async def launch(cls, command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> Child:
        """Start a process. Raises: OSError, ValueError."""
        return cls(await anyio.open_process(command, env=env, cwd=cwd, start_new_session=True))

    async def watch(self) -> None:
        """Wait until it has ended."""
        await self._process.wait()
        self.exited.set()

    def how_it_ended(self) -> str:
        """Such as "exited with code 3"."""
        code = self._process.returncode
        if code is None:
            return "closed its standard output"
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            return f"was ended by signal {name}"
        return f"exited with code {code}"

    async def end(self, grace: float) -> bool:
        """End it and its group: "closing the input stream to the child process", then "waiting for the server to
        exit", then "from SIGTERM to SIGKILL" (basic/transports/stdio, Shutdown). `watch` has to run.

        grace: seconds for each of the two waits.  Returns whether it has ended.
        """
        with contextlib.suppress(*BROKEN):
            await self.stdin.aclose()
        for step in (0, signal.SIGTERM):
            if step:
                self._signal(step)
            with anyio.move_on_after(grace):
                await self.exited.wait()
                while self._signal(0):  # noqa: ASYNC110  # nothing tells when the rest of the group has ended
                    await anyio.sleep(0.02)
                return True
        self.kill()
        with anyio.move_on_after(1):
            await self.exited.wait()
        return self.exited.is_set()

    def kill(self) -> None:
        """Kill the group at once."""
        self._signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)

    async def free(self) -> None:
        """Close what is left of the pipes of a process that has ended."""
        await self._process.aclose()

    def _signal(self, number: int) -> bool:
        """Signal the group; 0 only asks. Returns whether there is such a group. Windows has none: there the process
        alone is ended."""
        try:
            if sys.platform != "win32":
                os.killpg(self.pid, number)
                return True
            if number:
                self._process.kill()
        except (ProcessLookupError, PermissionError):
            pass
        return False
