"""Showing a page to the person: in the browser, or where there is none, as a line to read."""

from __future__ import annotations

import os
import sys
import webbrowser

import anyio.to_thread


async def show(url: str) -> None:
    """Open the page, or print where it is, to stderr, where no browser can be opened."""
    if not _has_browser() or not await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True):
        tell(url)


def tell(url: str) -> None:
    """Print where the page is, to stderr."""
    print(f"To log in, open this page in a browser:\n  {url}", file=sys.stderr, flush=True)


def _has_browser() -> bool:
    """Whether a browser has somewhere to show itself; one in the terminal would take that from the program."""
    if os.environ.get("BROWSER") or sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
