"""Tokens in the keyring of the system, by the package `keyring`, which is imported when it is first used."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import anyio.to_thread

from ...errors import ConfigurationError
from .stores import MemoryStore

T = TypeVar("T")
_PIECE = 1000  # characters; the keyring of Windows takes 1280 in one secret, and tokens may be longer


class KeyringStore:
    """Keeps them in the system's keyring, a long one in several pieces.

    service: the name under which they show there.  backend: a keyring of your own; default the system's.

    Between processes nothing is locked: where several use it at once, one of them may have to log in again.

    Raises, when it is used: ConfigurationError without the package, or without a keyring.
    """

    def __init__(self, service: str = "backchannel", backend: Any = None):
        self._service = service
        self._backend = backend
        self._locks = MemoryStore()

    def __repr__(self) -> str:
        return f"KeyringStore({self._service!r})"

    async def load(self, key: str) -> bytes | None:
        """What is kept under this name."""
        return await self._in_thread(lambda keyring: self._load(keyring, key))

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep this; None: forget it."""
        await self._in_thread(lambda keyring: self._save(keyring, key, value))

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """One at a time, in this process."""
        return self._locks.lock(key)

    def _load(self, keyring: Any, key: str) -> bytes | None:
        pieces = [keyring.get_password(self._service, name) for name in self._names(keyring, key)]
        if not pieces or None in pieces:
            return None
        return base64.b64decode("".join(pieces).partition(":")[2])

    def _save(self, keyring: Any, key: str, value: bytes | None) -> None:
        before = self._names(keyring, key)
        text = base64.b64encode(value).decode() if value is not None else ""
        pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)] or [""]
        names = _named(key, len(pieces)) if value is not None else []
        # The first, which says how many there are, comes last: half of a new one is none.
        for number, name in reversed(list(enumerate(names))):
            piece = pieces[number] if number else f"{len(pieces)}:{pieces[0]}"
            keyring.set_password(self._service, name, piece)
        for name in before[len(names) :]:
            if keyring.get_password(self._service, name) is not None:
                keyring.delete_password(self._service, name)

    def _names(self, keyring: Any, key: str) -> list[str]:
        """Under which names the pieces are."""
        first = keyring.get_password(self._service, key)
        count = first.partition(":")[0] if first is not None else "0"
        return _named(key, int(count)) if count.isdecimal() and len(count) < 4 else []

    async def _in_thread(self, act: Callable[[Any], T]) -> T:
        """A keyring may ask the person for its password."""

        def run() -> T:
            try:
                keyring = importlib.import_module("keyring")
                errors = importlib.import_module("keyring.errors")
            except ImportError:
                text = "this store needs the package keyring: pip install 'backchannel[keyring]'"
                raise ConfigurationError(text) from None
            try:
                return act(self._backend or keyring)
            except errors.KeyringError as error:
                raise ConfigurationError(f"the system's keyring cannot be used: {type(error).__name__}") from error

        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)


def _named(key: str, count: int) -> list[str]:
    return [key if number == 0 else f"{key} #{number}" for number in range(count)]
