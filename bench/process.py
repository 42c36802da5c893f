"""Servers as child processes on a core of their own."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial

from .contenders import SRC, Contender
from .machine import SERVER, cpu_seconds, memory_kib

_STARTING, _STOPPING = 30.0, 5.0  # seconds


def environment(tools: int = 0) -> dict[str, str]:
    """What the children get: the sources of this tree, and how many tools the server has besides."""
    return {**os.environ, "PYTHONPATH": str(SRC), "BENCH_TOOLS": str(tools), "FASTMCP_CHECK_FOR_UPDATES": "off"}


class Process:
    """A child, with its figures."""

    def __init__(self, command: list[str], tools: int = 0, pipes: bool = False, core: int = SERVER):
        pipe = subprocess.PIPE if pipes else subprocess.DEVNULL
        self._errors = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=self._errors,
            env=environment(tools),
            preexec_fn=partial(os.sched_setaffinity, 0, {core}),
            bufsize=0,
        )

    @property
    def cpu(self) -> float:
        """Processor time so far, in seconds."""
        return cpu_seconds(self.child.pid)

    @property
    def kib(self) -> int:
        """Resident memory now."""
        return memory_kib(self.child.pid)

    @property
    def peak_kib(self) -> int:
        """Resident memory at its peak."""
        return memory_kib(self.child.pid, peak=True)

    def stop(self) -> None:
        """End it: first with SIGTERM."""
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.child.terminate()
        try:
            self.child.wait(_STOPPING)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self._errors.close()


class HttpServer(Process):
    """A server at a free port of loopback, from when it accepts connections."""

    def __init__(self, contender: Contender, tools: int = 0, core: int = SERVER):
        self.contender = contender
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        super().__init__(contender.command("servers", "http", str(self.port)), tools, core=core)
        deadline = time.monotonic() + _STARTING
        while time.monotonic() < deadline and self.child.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        self._errors.seek(0)
        said = self._errors.read()[-2000:].decode(errors="replace")
        self.stop()
        raise RuntimeError(f"the server of {contender.title} does not start: {said}")


class Fleet:
    """The HTTP servers that run: each is started when it is first asked for, and used by all paths."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, int], HttpServer] = {}

    def server(self, contender: Contender, tools: int = 0) -> HttpServer:
        """The running server of a contender, with so many tools besides."""
        key = contender.key, tools
        if key not in self._servers:
            self._servers[key] = HttpServer(contender, tools)
        return self._servers[key]

    def stop(self) -> None:
        """End them all."""
        while self._servers:
            self._servers.popitem()[1].stop()


@contextlib.contextmanager
def fresh(contender: Contender, tools: int = 0) -> Iterator[HttpServer]:
    """A server for one measurement, such as of memory."""
    server = HttpServer(contender, tools)
    try:
        yield server
    finally:
        server.stop()
