"""Runs a program in which every handler is replayed after each question, and every client has a session:
`python -m tests.testing.replayed program.py`."""

import functools
import runpy
import sys
from typing import Any

from backchannel import Client, Server


def replay_everything() -> None:
    """From now on."""
    make_server, make_client = Server.__init__, Client.__init__

    @functools.wraps(make_server)
    def always(self: Server, *args: Any, **options: Any) -> None:
        make_server(self, *args, **options)
        self.always_replay = True

    @functools.wraps(make_client)
    def legacy(self: Client, *args: Any, **options: Any) -> None:
        make_client(self, *args, **{"version": "legacy", **options})

    Server.__init__ = always  # type: ignore[method-assign]
    Client.__init__ = legacy  # type: ignore[method-assign]


if __name__ == "__main__":
    replay_everything()
    sys.argv[:] = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
