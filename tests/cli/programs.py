"""The command line as child processes, and a person at a pseudo-terminal."""

import contextlib
import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from tests.gates.source import SRC

COMMAND = (sys.executable, "-m", "backchannel")
PATIENCE = 120.0
"""Seconds after which a program that does not do what it should is given up."""
_ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])")


def environment() -> dict[str, str]:
    """What a child process needs to find this package, and to leave the terminal's abilities alone."""
    return {**os.environ, "PYTHONPATH": str(SRC), "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", "COLUMNS": "100"}


def backchannel(
    *arguments: str, cwd: Path | None = None, typed: str = "", command: Sequence[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        env=environment(),
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@contextlib.contextmanager
def served(*arguments: str, cwd: Path | None = None, quiet: bool = True) -> Iterator[str]:
    """A server over HTTP, on a free port, which says nothing on stderr if `quiet`. Gives its URL."""
    command = [*COMMAND, "run", *arguments, "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=cwd, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert " is served at http://127.0.0.1:" in line, line
        yield line.split()[-1]
    finally:
        process.terminate()
        complaints = process.communicate(timeout=PATIENCE)[1]
    assert not quiet or complaints == ""


def _take_terminal() -> None:
    """Make stdin the terminal from which a new session gets its Ctrl-C."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Typist:
    """A program at a pseudo-terminal, and who types there. stdout is the terminal too."""

    def __init__(self, *arguments: str, cwd: Path | None = None):
        self._terminal, far = pty.openpty()
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            env=environment(),
            stdin=far,
            stdout=far,
            stderr=far,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(far)
        self._read_so_far = b""
        self._found = 0

    def __enter__(self) -> "Typist":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def sees(self, text: str) -> None:
        """Wait until the terminal shows a text, after what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while (place := self.shown.find(text, self._found)) < 0:
            assert self._read(deadline), f"{text!r} did not come; there was:\n{self.shown[self._found :]}"
        self._found = place + len(text)

    def types(self, text: str) -> None:
        """Type a line, or with a control character at its end just that."""
        os.write(self._terminal, text.encode() + (b"" if text[-1:] < " " and text else b"\r"))

    def ends(self) -> int:
        """Wait for the end of the program. Returns the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self._process.wait(PATIENCE)

    @property
    def shown(self) -> str:
        """All that the terminal has shown so far, without escape sequences."""
        return _ESCAPES.sub(b"", self._read_so_far).replace(b"\r\n", b"\n").decode("utf-8", "replace")

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self._terminal, 65536) if ready else b""
        except OSError:  # nobody is at the other end any more
            data = b""
        self._read_so_far += data
        return data != b""
