"""A progress bar below what the terminal shows; where stderr is no terminal there is none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..protocol.types.requests import ProgressParams
from .printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """Shows the last progress of a call. While it is there, what is printed appears above it; nothing can be typed."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID

    def update(self, progress: ProgressParams) -> None:
        """Show progress. Without a total the bar has no length."""
        if sys.stderr is None or not sys.stderr.isatty():
            return
        starts = self._progress is None
        if self._progress is None:
            self._progress = _columns()
            self._task = self._progress.add_task("", total=None, amount="")
        total = progress.total
        self._progress.update(
            self._task,
            completed=progress.progress,
            total=total,
            amount=f"{progress.progress:g}" + (f"/{total:g}" if total is not None else ""),
            description=printable((progress.message or "").replace("\n", " ")),
        )
        if starts:
            self._progress.start()

    def hide(self) -> None:
        """Take it away until there is progress again."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _columns() -> Progress:
    """Amount, bar and message. `transient`: nothing of it stays. Text from the other side is no markup."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.fields[amount]}", markup=False),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
