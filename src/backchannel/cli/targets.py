"""What a command line names as the server to call: a URL, a Server to import, an entry of a configuration, or a
command to launch."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from typing import Any

from .. import StdioServer
from ..errors import ConfigurationError
from .config import entry
from .load import load, split

_CONFIG = re.compile(r"(?P<path>.+?\.json)(:(?P<name>.+))?")
_MODULE = re.compile(r"[A-Za-z_][\w.]*")


def target(given: str, env: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Any:
    """The target for a Client.

    given: "http://…", "module:server", "file.py:server", "file.py", "mcp.json:entry", "mcp.json", or a command line:
    anything else with a space in it, or the name of a program.  env: variables for what is launched.  headers: those
    that the Client is given, which only a URL takes.

    Raises: ConfigurationError that says what is possible.
    """
    found = _named(given)
    launched = isinstance(found, StdioServer) or (isinstance(found, dict) and "command" in found)
    if env and not launched:
        raise ConfigurationError(f"--env is for a command that is launched, which {given!r} is not")
    if headers and (launched or not isinstance(found, str | dict)):
        raise ConfigurationError(f"--header is for a server at a URL, which {given!r} is not")
    if isinstance(found, StdioServer):
        found.env.update(env or {})
    elif isinstance(found, dict) and env and isinstance(own := found.get("env") or {}, dict):
        found["env"] = {**own, **env}
    return found


def url_in(found: Any) -> str | None:
    """The URL of a target, if it has one."""
    url = found.get("url") if isinstance(found, dict) else found
    return url if isinstance(url, str) else None


def url_of(given: str) -> str:
    """The URL that a command line names. Raises: ConfigurationError for a server without one: nobody logs in there."""
    url = url_in(_named(given))
    if url is None:
        raise ConfigurationError(f"logins are for servers at a URL, which {given!r} is not")
    return url


def _named(given: str) -> Any:
    """What a Client can be pointed at."""
    if given.lower().startswith(("http://", "https://")):
        return given
    config = _CONFIG.fullmatch(given)
    if config is not None and (" " not in given or os.path.exists(config["path"])):
        return entry(config["path"], config["name"])
    if " " in given:
        return _command(given)
    where, _ = split(given)
    if where.endswith(".py") or (where != given and _MODULE.fullmatch(where)):
        return load(given)
    if shutil.which(given) or os.access(given, os.X_OK):
        return StdioServer(given)
    raise ConfigurationError(
        f"{given!r} is no server: give a URL, MODULE:NAME, FILE.py:NAME, CONFIG.json:ENTRY, or a command line in quotes"
    )


def _command(given: str) -> StdioServer:
    try:
        return StdioServer(*shlex.split(given))
    except ValueError as error:
        raise ConfigurationError(f"{given!r} is no command line: {error}") from None
