"""Where the command line keeps what it must remember: the logins."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "BACKCHANNEL_HOME"
_NAME = "backchannel"


def home() -> Path:
    """The folder, which need not exist: $BACKCHANNEL_HOME, or the place for it on this system."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / _NAME
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _NAME
    # "If $XDG_CONFIG_HOME is either not set or empty, a default equal to $HOME/.config should be used" (XDG Base
    # Directory Specification), and what is no absolute path counts for nothing.
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / _NAME
