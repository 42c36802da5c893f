"""The person at the keyboard: answers a server's questions in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from ..client.page_url import host
from ..errors import RemoteProtocolError
from ..protocol.types.content import TextContent
from ..protocol.types.elicitation import ElicitParams
from ..protocol.types.sampling import CreateMessageParams
from .forms import Blank
from .terminal import Terminal

DECLINE, CANCEL = "!no", "!cancel"
REJECTED = -1
"""The code for a completion that the person refused (client/sampling, Error Handling)."""


class Declined(Exception):
    """`!no` was typed."""


class Cancelled(Exception):
    """`!cancel` was typed, or Ctrl-C, or the input is at its end."""


class Keyboard:
    """Handlers for a Client. Questions that come at once are asked one after the other."""

    def __init__(self, terminal: Terminal):
        self._terminal = terminal
        self._lock = anyio.Lock()

    async def elicit(self, question: ElicitParams) -> dict[str, Any] | str:
        """Fill in a form, field by field."""
        async with self._lock:
            self._announce(question.message)
            try:
                blanks = Blank.all(question.requested_schema)
                if not blanks:
                    return {} if await self._yes("Agree?") else "decline"
                answers = [(blank.name, *await self._fill(blank)) for blank in blanks]
            except Declined:
                return "decline"
            except Cancelled:
                return "cancel"
            return {name: value for name, given, value in answers if given}

    async def elicit_url(self, question: ElicitParams) -> str:
        """Show an address, and ask for consent. Opening it is left to the person."""
        async with self._lock:
            self._announce(question.message)
            self._terminal.say(f"  {question.url}\n  (on the host {host(question.url or '')})")
            try:
                return "accept" if await self._yes("Open this page in a browser, and go on?") else "decline"
            except Declined:
                return "decline"
            except Cancelled:
                return "cancel"

    async def sample(self, question: CreateMessageParams) -> str:
        """Play the model: one line of text.

        Raises: RemoteProtocolError where the person refuses.
        """
        async with self._lock:
            self._terminal.say("\nThe server wants a completion of:")
            for message in question.messages:
                blocks: Sequence[Any] = message.content if isinstance(message.content, list) else [message.content]
                for block in blocks:
                    text = block.text if isinstance(block, TextContent) else f"<{type(block).__name__}>"
                    self._terminal.say(f"  {message.role}: {text}")
            try:
                return await self._ask("assistant: ")
            except (Declined, Cancelled):
                raise RemoteProtocolError(REJECTED, "User rejected sampling request") from None

    def _announce(self, message: str) -> None:
        self._terminal.say(f"\nThe server asks: {message}\n  ({DECLINE} declines, {CANCEL} cancels)")

    async def _fill(self, blank: Blank) -> tuple[bool, Any]:
        if blank.description:
            self._terminal.say(f"  {blank.description}")
        while True:
            text = await self._ask(blank.prompt, list(blank.options.values()))
            try:
                return blank.read(text)
            except ValueError as error:
                self._terminal.say(f"  {blank.label}: {error}")

    async def _yes(self, prompt: str) -> bool:
        value = await self._fill(Blank("value", {"type": "boolean", "title": prompt}, required=True))
        return value == (True, True)

    async def _ask(self, prompt: str, words: Sequence[str] = ()) -> str:
        try:
            text = await self._terminal.ask(f"  {prompt}", words)
        except (EOFError, KeyboardInterrupt):
            raise Cancelled from None
        if text == DECLINE:
            raise Declined
        if text == CANCEL:
            raise Cancelled
        return text
