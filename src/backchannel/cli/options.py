"""The options of a command that connects to a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from cyclopts import Parameter

from .. import Client
from ..errors import ConfigurationError
from ..protocol.versions import SUPPORTED
from .keyboard import Keyboard

_Many = Parameter(negative="", consume_multiple=False)
VERSIONS = ("auto", "legacy", "modern", *SUPPORTED)


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """How to connect.

    Parameters
    ----------
    version
        auto, legacy, modern, or a protocol version such as 2025-11-25.
    root
        A directory that the server is told of when it asks for roots (deprecated since protocol version 2026-07-28).
    header
        An HTTP header, "Name: value".
    timeout
        Seconds without a sign of life from the server; the clock stops while you are asked.
    """

    version: str = "auto"
    root: Annotated[list[str], _Many] = field(default_factory=list)
    header: Annotated[list[str], _Many] = field(default_factory=list)
    timeout: float = 60

    def client(self, target: Any, keyboard: Keyboard) -> Client:
        """A client whose questions are asked at the keyboard.

        Raises: ConfigurationError for a version that there is not, or what is no header.
        """
        if self.version not in VERSIONS:
            known = ", ".join(VERSIONS)
            raise ConfigurationError(f"there is no protocol version {self.version!r}; give one of {known}")
        return Client(
            target,
            elicit=keyboard.elicit,
            elicit_url=keyboard.elicit_url,
            sample=keyboard.sample,
            roots=self.root,
            version=self.version,
            headers=dict(map(_header, self.header)),
            timeout=self.timeout,
        )


def _header(given: str) -> tuple[str, str]:
    name, colon, value = given.partition(":")
    if not colon:
        raise ConfigurationError(f"{given!r} is no header: give 'Name: value'")
    return name.strip(), value.strip()
