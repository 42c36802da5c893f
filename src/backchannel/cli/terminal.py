"""The terminal: results go to stdout, and all else that is said to stderr; what is typed comes line by line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..protocol.types.requests import LogParams
from .bar import Bar
from .printable import printable

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


class Terminal:
    """Shows, and asks for lines: with an editor where stdin is a terminal, else from the lines of stdin.

    bar: the progress of the call, which makes way for results and questions.
    """

    def __init__(self) -> None:
        self.bar = Bar()
        self._results = sys.stdout
        self._editor: PromptSession[str] | None = None
        self._line: asyncio.Future[str | None] | None = None

    def show(self, text: str) -> None:
        """Print a result to stdout: as it is for a program, without what could steer a terminal for a person."""
        self.bar.hide()
        print(printable(text) if self._results.isatty() else text, file=self._results, flush=True)

    def write(self, data: bytes, name: str) -> None:
        """Write a result to stdout as it is; a terminal gets its name and size in place of it."""
        if self._results.isatty():
            return self.show(f"[{name}, {len(data)} bytes]")
        self._results.flush()
        self._results.buffer.write(data)
        self._results.flush()

    def say(self, text: str = "") -> None:
        """Show text on stderr, which may come from the other side."""
        print(printable(text), file=sys.stderr, flush=True)

    def log(self, message: LogParams) -> None:
        """Show a log message of the server on stderr."""
        text = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
        self.say(f"[{message.level}{f' {message.logger}' if message.logger else ''}] {text}")

    async def ask(self, prompt: str, words: Sequence[str] = ()) -> str:
        """One line, without white space around it. words: what can be completed with Tab.

        Raises: EOFError at the end of the input, KeyboardInterrupt for Ctrl-C.
        """
        self.bar.hide()
        if sys.stdin is not None and sys.stdin.isatty():
            return (await self._edit(printable(prompt), words)).strip()
        print(printable(prompt), end="", file=sys.stderr, flush=True)
        line = await self._next_line()
        self.say(line)
        return line.strip()

    async def _edit(self, prompt: str, words: Sequence[str]) -> str:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import DummyCompleter, WordCompleter
        from prompt_toolkit.output import create_output

        if self._editor is None:
            self._editor = PromptSession(output=create_output(sys.stderr))
        completer = WordCompleter(list(words), sentence=True) if words else DummyCompleter()
        room = min(len(words), 8)  # lines below the prompt, for the menu
        return await self._editor.prompt_async(prompt, completer=completer, reserve_space_for_menu=room)

    async def _next_line(self) -> str:
        """A line that nobody waited for to the end is kept for the next question."""
        if self._line is None:
            self._line = asyncio.get_running_loop().create_future()
            threading.Thread(target=_read_line, args=(self._line,), daemon=True).start()
        line = await asyncio.shield(self._line)
        self._line = None
        if line is None:
            self.say()
            raise EOFError
        return line


def _read_line(future: asyncio.Future[str | None]) -> None:
    """Read in a thread that the end of the program need not wait for: it holds no lock of `sys.stdin`."""
    line, byte = bytearray(), b""
    with contextlib.suppress(OSError):
        while (byte := os.read(0, 1)) not in (b"", b"\n"):
            line += byte
    text = line.decode("utf-8", "replace") if line or byte else None
    with contextlib.suppress(RuntimeError):  # the event loop has been closed
        future.get_loop().call_soon_threadsafe(future.set_result, text)
