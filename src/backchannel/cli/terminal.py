"""The terminal: what is said goes to stderr, so that stdout holds results only; what is typed comes line by line."""

from __future__ import annotations

import os
import sys
import threading
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import anyio.lowlevel

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_SHOWN = frozenset("\n\t")


def printable(text: str) -> str:
    """Text from the other side without what could steer a terminal: control characters show as escapes."""
    hidden = {c for c in text if c not in _SHOWN and unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs")}
    for character in hidden:
        text = text.replace(character, character.encode("unicode_escape").decode())
    return text


class Terminal:
    """Asks for lines: with an editor where stdin is a terminal, else from the lines of stdin."""

    def __init__(self) -> None:
        self._editor: PromptSession[str] | None = None
        self._lines: _Lines | None = None

    def say(self, text: str = "") -> None:
        """Show text, which may come from the other side."""
        print(printable(text), file=sys.stderr, flush=True)

    async def ask(self, prompt: str, words: Sequence[str] = ()) -> str:
        """One line. words: what can be completed with Tab.

        Raises: EOFError at the end of the input, KeyboardInterrupt for Ctrl-C.
        """
        if sys.stdin.isatty():
            return await self._edit(printable(prompt), words)
        print(printable(prompt), end="", file=sys.stderr, flush=True)
        if self._lines is None:
            self._lines = _Lines()
        line = await self._lines.next()
        self.say(line)
        return line

    async def _edit(self, prompt: str, words: Sequence[str]) -> str:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.output import create_output

        if self._editor is None:
            self._editor = PromptSession(output=create_output(sys.stderr))
        return await self._editor.prompt_async(prompt, completer=WordCompleter(list(words), sentence=True))


class _Lines:
    """The lines of stdin, read by a thread that the end of the program need not wait for: it holds no lock of
    `sys.stdin` while it blocks."""

    def __init__(self) -> None:
        self._wanted = threading.Semaphore(0)
        self._send, self._receive = anyio.create_memory_object_stream[str](1)
        self._token = anyio.lowlevel.current_token()
        threading.Thread(target=self._read, daemon=True).start()

    async def next(self) -> str:
        self._wanted.release()
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            raise EOFError from None

    def _read(self) -> None:
        kept = b""
        ...
