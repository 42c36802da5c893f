"""Finding a Server, or an app of one, by name: `module:name`, `file.py:name`, or `file.py` with a variable `server`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import Server
from ..errors import ConfigurationError
from ..running import is_app

if TYPE_CHECKING:
    from ..server.http.app import HttpApp

DEFAULT = "server"
"""The variable that is looked for where none is named."""
_NOT_THEIRS = (
    "<",
    os.path.dirname(os.path.dirname(__file__)),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib")),
)
"""Where the code is that is not the author's."""


class NotThere(Exception):
    """There is no such module."""


def load(place: str) -> Server:
    """Import a Server, with the working directory on `sys.path`.

    place: "module:server", "package.module:server", "file.py:server", "file.py".

    Raises: ConfigurationError that says what is missing, what is there in place of a Server, or where it fails.
    """
    found = served(place)
    if is_app(found):
        raise ConfigurationError(
            f"{place} is an app for HTTP: serve it, backchannel run {place} --http HOST:PORT, or name its Server"
        )
    return found


def served(place: str) -> Server | HttpApp:
    """As `load`, but an app that `http_app` has made will do too."""
    where, name = split(place)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        value: Any = _from_file(where) if where.endswith(".py") else _from_module(where)
    except NotThere as error:
        raise ConfigurationError(str(error)) from None
    except Exception as error:
        raise _failure(where, error) from error
    for part in name.split("."):
        if not hasattr(value, part):
            raise ConfigurationError(f"{where} has no {name!r}: name the variable, as in {where}:my_server")
        value = getattr(value, part)
    if not isinstance(value, Server) and not is_app(value):
        what = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise ConfigurationError(
            f"{where}:{name} is not a backchannel.Server or an app of http_app(), but of type {what}"
        )
    found: Server | HttpApp = value
    return found


def split(place: str) -> tuple[str, str]:
    """Module or file, and the name in it."""
    where, colon, name = place.rpartition(":")
    if not colon or "/" in name or "\\" in name or name.endswith(".py"):
        return place, DEFAULT
    return where, name or DEFAULT


def _from_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise NotThere(f"{name!r} is no name of a module: give module:server or file.py:server")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise NotThere(f"there is no module {error.name!r} on sys.path or in {os.getcwd()}") from None


def _from_file(path: str) -> ModuleType:
    """Run a file as a module, with its folder on `sys.path` as if it had been started by itself."""
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise NotThere(f"there is no file {path!r} in {os.getcwd()}")
    if os.path.dirname(full) not in sys.path:
        sys.path.insert(0, os.path.dirname(full))
    stem = os.path.basename(full).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(stem if stem not in sys.modules else f"_{stem}", full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _failure(name: str, error: Exception) -> ConfigurationError:
    """What has happened while a module was imported, with the author's line that did it."""
    if isinstance(error, SyntaxError):
        place, line, what = error.filename or name, error.lineno, error.msg
    else:
        steps = traceback.extract_tb(error.__traceback__)
        theirs = [step for step in steps if not step.filename.startswith(_NOT_THEIRS)] or steps
        place, line, what = theirs[-1].filename, theirs[-1].lineno, str(error)
    place = os.path.relpath(place) if place.startswith(os.getcwd() + os.sep) else place
    return ConfigurationError(f"cannot import {name}: {place}:{line}: {type(error).__name__}: {what}")
