"""A kit for testing servers and clients: connect in one line on any wire, scripted people, a fake clock, transcripts,
and a check that a handler is deterministic. docs/testing.md shows it at work."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answer import Answer as Answer
    from .answer import accept as accept
    from .answer import cancel as cancel
    from .answer import decline as decline
    from .answer import error as error
    from .answer import garbage as garbage
    from .answer import never as never
    from .answer import say as say
    from .auth.misbehaviour import Misbehaviour as Misbehaviour
    from .auth.server import AuthServer as AuthServer
    from .clock import FakeClock as FakeClock
    from .connection import connect as connect
    from .determinism import Report as Report
    from .determinism import check as check
    from .people import People as People
    from .people import ScriptError as ScriptError
    from .replicas import replaying as replaying
    from .transcript import Transcript as Transcript

_HOMES = {
    "answer": ("Answer", "accept", "cancel", "decline", "error", "garbage", "never", "say"),
    "auth": ("AuthServer", "Misbehaviour"),
    "clock": ("FakeClock",),
    "connection": ("connect",),
    "determinism": ("Report", "check"),
    "people": ("People", "ScriptError"),
    "replicas": ("replaying",),
    "transcript": ("Transcript",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: pytest loads the plugin in this package wherever it is installed."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
