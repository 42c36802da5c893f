"""A lock between processes: who has a file locked. It goes with its process, so none is ever left behind."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

logger = logging.getLogger("backchannel.client")
_PAUSE = 0.05  # seconds between two tries

if sys.platform == "win32":
    import msvcrt

    def _try(file: int) -> bool:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


@asynccontextmanager
async def locked(path: Path, limit: float) -> AsyncIterator[None]:
    """Hold the lock of this file, which is made if it is missing.

    limit: seconds to wait for it. After them, and where it cannot be made, the block runs all the same: two logins do
    less harm than none.
    """
    file = _opened(path)
    try:
        if file is not None:
            with anyio.move_on_after(limit) as waiting:
                while not _try(file):  # noqa: ASYNC110 - nobody says when another process lets go
                    await anyio.sleep(_PAUSE)
            if waiting.cancelled_caught:
                logger.warning("another process has held %s for %g s; going on without it", path.name, limit)
        yield
    finally:
        if file is not None:
            os.close(file)


def _opened(path: Path) -> int | None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        logger.warning("nothing can be locked with %s: %s", path.name, type(error).__name__)
        return None
