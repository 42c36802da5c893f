"""What a command line names as the server to call: a URL, a Server to import, or a command to launch."""

from __future__ import annotations

import os
import re
import shlex
import shutil

from .. import Server, StdioServer
from ..errors import ConfigurationError
from .load import load, split

_MODULE = re.compile(r"[A-Za-z_][\w.]*")


def target(given: str) -> str | Server | StdioServer:
    """The target for a Client.

    given: "http://…", "module:server", "file.py:server", "file.py", or a command line: anything with a space in it, or
    the name of a program.

    Raises: ConfigurationError that says what is possible.
    """
    if given.startswith(("http://", "https://")):
        return given
    if " " in given:
        try:
            return StdioServer(*shlex.split(given))
        except ValueError as error:
            raise ConfigurationError(f"{given!r} is no command line: {error}") from None
    where, _ = split(given)
    if where.endswith(".py") or (where != given and _MODULE.fullmatch(where)):
        return load(given)
    if shutil.which(given) or os.access(given, os.X_OK):
        return StdioServer(given)
    raise ConfigurationError(
        f"{given!r} is no server: give a URL, MODULE:NAME, FILE.py:NAME, or a command line in quotes"
    )
