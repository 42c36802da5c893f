"""Configuration files of other hosts: `mcpServers` in JSON, from which one entry is taken."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ..errors import ConfigurationError

SECTIONS = ("mcpServers", "servers")
"""Under which names hosts keep their servers."""
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")


def entry(path: str, name: str | None) -> dict[str, Any]:
    """One entry of the file, with `${NAME}`, `${env:NAME}` and `${NAME:-default}` replaced from the environment.

    name: of the entry; None where the file has only one.

    Raises: ConfigurationError for what is no such file, or has no such entry; it names those that there are.
    """
    entries = _entries(path)
    known = ", ".join(f"{path}:{one}" for one in entries) or "it has none"
    if name is None and len(entries) != 1:
        raise ConfigurationError(f"which server of {path}? {known}")
    name = next(iter(entries)) if name is None else name
    if name not in entries:
        raise ConfigurationError(f"{path} has no server {name!r}: {known}")
    found: Any = _filled(entries[name])
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: the server {name!r} is no object with a command or url")
    return found


def _entries(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path!r}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path} is no JSON: {error}") from None
    for section in SECTIONS:
        if isinstance(content, dict) and isinstance(content.get(section), dict):
            found: dict[str, Any] = content[section]
            return found
    raise ConfigurationError(f"{path} has no {' or '.join(SECTIONS)}")


def _filled(value: Any) -> Any:
    """The value with the variables in its texts replaced. Raises: ConfigurationError for one that is not set."""
    if isinstance(value, dict):
        return {key: _filled(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one) for one in value]
    return _VARIABLE.sub(_variable, value) if isinstance(value, str) else value


def _variable(found: re.Match[str]) -> str:
    value = os.environ.get(found[1], found[2])
    if value is None:
        raise ConfigurationError(f"the environment variable {found[1]} is not set")
    return value
