"""The options of a command that connects to a server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from cyclopts import Parameter

from .. import Client
from ..errors import ConfigurationError
from ..protocol.types.requests import LEVELS
from ..protocol.versions import SUPPORTED
from .keyboard import Keyboard
from .redirects import redirect_for
from .targets import target, url_in
from .terminal import Terminal

if TYPE_CHECKING:
    from ..client.auth.oauth import OAuth

_Many = Parameter(negative="", consume_multiple=False)
VERSIONS = ("auto", "legacy", "modern", *SUPPORTED)
SILENT = "none"
USUAL = "info"
"""The level of log messages that is wanted where none was given, of servers that can do it."""

Target = Annotated[
    str,
    Parameter(
        help="A URL; MODULE:NAME or FILE.py:NAME, which runs in this process; CONFIG.json:ENTRY, an entry of a file "
        "with mcpServers; or a command line in quotes, which may come last instead, after `--`."
    ),
]
AsJson = Annotated[bool, Parameter(negative="", help="Print everything there is, as JSON.")]


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
        An HTTP header for a server at a URL: "Name: value".
    env
        A variable for a server that is launched: NAME=VALUE, or NAME to hand on the one that is set here. It inherits
        PATH, HOME and the like, and nothing that may be a secret.
    log_level
        Show the server's log messages from this level on: debug, info (the default), notice, warning, error, critical,
        alert, emergency; or none (deprecated since protocol version 2026-07-28).
    timeout
        Seconds without a sign of life from the server; the clock stops while you are asked.
    browser
        Open the browser when the server wants a login; else the address of the login is printed.
    trust_network
        Log in also where the login is nearer than the server, say in your own network.
    """

    version: str = "auto"
    root: Annotated[list[str], _Many] = field(default_factory=list)
    header: Annotated[list[str], _Many] = field(default_factory=list)
    env: Annotated[list[str], _Many] = field(default_factory=list)
    log_level: str | None = None
    timeout: float = 60
    browser: bool = True
    trust_network: Annotated[bool, Parameter(negative="")] = False

    def client(self, server: str, terminal: Terminal, auth: OAuth | None = None) -> Client:
        """A client of the server that a command line names. Its questions are asked in the terminal.

        auth: default the login there that is known, or a new one where the server wants it.

        Raises: ConfigurationError for a version or level that there is not, what is no header or variable, or no
        server.
        """
        _one_of("protocol version", self.version, VERSIONS)
        _one_of("log level", self.log_level or USUAL, (*LEVELS, SILENT))
        keyboard, headers = Keyboard(terminal), dict(map(_header, self.header))
        found = target(server, dict(map(_variable, self.env)), headers)
        return Client(
            found,
            headers=headers,
            auth=auth or self._auth(found, headers, terminal),
            elicit=keyboard.elicit,
            elicit_url=keyboard.elicit_url,
            sample=keyboard.sample,
            roots=self.root,
            version=self.version,
            timeout=self.timeout,
            log_level=self.log_level if self.log_level != SILENT else None,
            log=terminal.log,
        )

    def _auth(self, found: Any, headers: dict[str, str], terminal: Terminal) -> OAuth | None:
        """The way to a token for a server at a URL, unless what shows one is given."""
        url, own = url_in(found), found.get("headers") if isinstance(found, dict) else None
        given = [*headers, *(own if isinstance(own, dict) else ())]
        if url is None or "authorization" in map(str.lower, given):
            return None
        from .logins import Logins

        logins = Logins()
        redirect = redirect_for(url, terminal, self.browser)
        return logins.oauth(anyio.run(logins.known, url), redirect, self.trust_network)


DEFAULTS = Options()


def _one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ConfigurationError(f"there is no {what} {given!r}; give one of {', '.join(known)}")


def _header(given: str) -> tuple[str, str]:
    name, colon, value = given.partition(":")
    if not colon or not name.strip():
        raise ConfigurationError(f"{given!r} is no header: give 'Name: value'")
    return name.strip(), value.strip()


def _variable(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not name or (not equals and name not in os.environ):
        raise ConfigurationError(f"{given!r} is no variable: give NAME=VALUE, or the NAME of one that is set")
    return name, value if equals else os.environ[name]
