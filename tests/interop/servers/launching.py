"""Foreign servers behind HTTP, one process each for the whole run."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

STARTING = 20.0  # seconds that a server gets to say that it listens
STOPPING = 5.0  # seconds that it gets to end after SIGTERM
ATTEMPTS = 5  # ports that are tried


class Served:
    """A server that runs until `stop`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int):
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._process = process

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def on_socket(command: list[str], log: Path) -> Served:
    """Start a server that takes the number of a listening socket as its last argument. Connections that come before it
    is up wait in the backlog."""
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as output:
        number = listener.fileno()
        process = subprocess.Popen(
            [*command, str(number)], stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[number]
        )
        return Served(process, listener.getsockname()[1])


def on_port(command: list[str], ready: str, log: Path) -> Served:
    """Start a server that takes its port from the environment, and wait until its stderr has `ready`.

    A port that is free now may be taken a moment later, and ends the server: then there is another attempt.
    """
    for _ in range(ATTEMPTS):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
        with log.open("ab") as output:
            environment = {**os.environ, "PORT": str(port)}
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, env=environment
            )
        served, errors = Served(process, port), Errors(process, ready)
        if errors.up.wait(STARTING) and errors.ready:
            return served
        served.stop()
        errors.thread.join()
    raise AssertionError(f"{command} did not come up: {errors.text}")


class Errors:
    """Reads what a process writes to stderr, to its end, so that the pipe never fills.

    up: set when `ready` was there, or the end.  ready: which of the two.
    """

    def __init__(self, process: subprocess.Popen[bytes], ready: str):
        self.up, self.ready, self.text = threading.Event(), False, ""
        self._process, self._wanted = process, ready
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.text += line.decode(errors="replace")
                if self._wanted in self.text and not self.ready:
                    self.ready = True
                    self.up.set()
        self.up.set()
