"""Tokens in a file that only its owner can read."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import anyio.to_thread
import msgspec

from ...errors import ConfigurationError
from .file_lock import locked

_FLOW = 330.0  # seconds that another process may take to log in
_WRITE = 10.0  # seconds that another process may take to write
_MODE = 0o600


class FileStore:
    """Keeps them in one JSON file of mode 0600, which is replaced as a whole, so it is never half written. Processes
    may share it: its locks are files beside it.

    path: of the file; its folder is made, for its owner alone, when there is something to keep.

    Raises, when it is used: ConfigurationError for a file that is none of its own, or that others can read.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = Path(path).expanduser()

    def __repr__(self) -> str:
        return f"FileStore({str(self._path)!r})"

    async def load(self, key: str) -> bytes | None:
        """What is kept under this name."""
        kept = (await anyio.to_thread.run_sync(self._read)).get(key)
        return base64.b64decode(kept) if kept is not None else None

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep this; None: forget it. A cancellation waits until it is written."""
        async with locked(self._beside("lock"), _WRITE):
            await anyio.to_thread.run_sync(self._change, key, value)

    async def keys(self) -> list[str]:
        """The names under which something is kept."""
        return list(await anyio.to_thread.run_sync(self._read))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """One at a time, in all processes."""
        async with locked(self._beside(f"{hashlib.sha256(key.encode()).hexdigest()[:8]}.lock"), _FLOW):
            yield

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{suffix}")

    def _read(self) -> dict[str, str]:
        try:
            with open(self._path, "rb") as file:
                # Files that others could read may have been read, or written, by them.
                if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                    raise ConfigurationError(f"others can read {self._path}: chmod 600 it, and log in again")
                content = file.read()
        except FileNotFoundError:
            return {}
        try:
            return msgspec.json.decode(content, type=dict[str, str])
        except (msgspec.DecodeError, RecursionError):
            raise ConfigurationError(f"{self._path} is no file of tokens; remove it, and log in again") from None

    def _change(self, key: str, value: bytes | None) -> None:
        kept = self._read()
        if value is None:
            if kept.pop(key, None) is None:
                return
        else:
            kept[key] = base64.b64encode(value).decode()
        file, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")  # of mode 0600
        with ExitStack() as undo:
            undo.callback(Path(name).unlink, missing_ok=True)
            with os.fdopen(file, "wb") as new:
                new.write(msgspec.json.format(msgspec.json.encode(kept)))
                new.flush()
                os.fsync(new.fileno())
            os.replace(name, self._path)
