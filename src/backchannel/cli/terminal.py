"""The terminal: what is said goes to stderr, so that stdout holds results only; what is typed comes line by line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_SHOWN = frozenset("\n\t")
_HIDDEN = frozenset(("Cc", "Cf", "Co", "Cs"))


def printable(text: str) -> str:
    """Text from the other side without what could steer a terminal: control characters show as escapes."""
    for character in {one for one in text if one not in _SHOWN and unicodedata.category(one) in _HIDDEN}:
        text = text.replace(character, ascii(character)[1:-1])
    return text


class Terminal:
    """Asks for lines: with an editor where stdin is a terminal, else from the lines of stdin."""

    def __init__(self) -> None:
        self._editor: PromptSession[str] | None = None
        self._line: asyncio.Future[str | None] | None = None

    def say(self, text: str = "") -> None:
        """Show text, which may come from the other side."""
        print(printable(text), file=sys.stderr, flush=True)

    async def ask(self, prompt: str, words: Sequence[str] = ()) -> str:
        """One line, without white space around it. words: what can be completed with Tab.

        Raises: EOFError at the end of the input, KeyboardInterrupt for Ctrl-C.
        """
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
