"""What a Client can be pointed at, and the transport that goes there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .client import client
from .client.client import Client as Client
from .client.transport import Transport
from .errors import ConfigurationError

if TYPE_CHECKING:
    from .client.auth.auth import Auth


def resolve(target: Any, headers: dict[str, str] | None = None) -> Transport:
    """The transport for a target, as in `maker`."""
    return maker(target, headers)()


def maker(target: Any, headers: dict[str, str] | None = None, auth: Auth | None = None) -> Callable[[], Transport]:
    """What makes the transport for a target: a URL, a StdioServer, a Server, an entry of an mcpServers JSON, or a
    Transport.

    headers: sent with every HTTP request.  auth: obtains tokens for them.

    Raises: ConfigurationError that says what is possible.
    """
    if isinstance(target, str) and target.lower().startswith(("http://", "https://")):
        return partial(_http, target, headers, auth)
    if isinstance(target, Mapping) and (auth is None or "url" in target):
        return _entry(target, headers, auth)
    if auth is not None:
        raise ConfigurationError("auth= is for servers that are reached by a URL; give others what they need in env")
    from .client.stdio import StdioServer, StdioTransport

    if isinstance(target, StdioServer):
        return partial(StdioTransport, target)
    if not isinstance(target, type) and all(hasattr(target, name) for name in _TRANSPORT):
        return lambda: target
    from .server.server import Server

    if isinstance(target, Server):
        from .memory import MemoryTransport

        return partial(MemoryTransport, target)
    raise ConfigurationError(
        f"a Client cannot connect to {_shown(target)}: give a URL that begins http:// or https://, a "
        "StdioServer(command, ...), a Server, an entry of an mcpServers JSON, or a Transport"
    )


_TRANSPORT = ("request_streams", "open", "send", "negotiated", "listen", "close")


def _shown(target: Any) -> str:
    """A target as a message names it: a URL may hold secrets."""
    return f"the text {target[:20]!r}" if isinstance(target, str) else f"an object of the type {type(target).__name__}"


def _http(url: str, headers: Mapping[str, str] | None, auth: Auth | None) -> Transport:
    from .client.http import HttpTransport
    from .client.sse import Fallback, SseTransport

    return Fallback(
        HttpTransport(url, headers=headers, auth=auth), lambda: SseTransport(url, headers=headers, auth=auth)
    )


def _entry(entry: Mapping[str, Any], headers: Mapping[str, str] | None, auth: Auth | None) -> Callable[[], Transport]:
    """One server of an mcpServers JSON: `command`, `args`, `env`, `cwd`; or `url`, `headers`, and `type`, which is
    "sse" for the deprecated transport of 2024-11-05."""
    url, command, kind = entry.get("url"), entry.get("command"), entry.get("type")
    if isinstance(url, str) and command is None:
        both = {**_texts(entry, "headers"), **(headers or {})}
        if kind != "sse":
            return partial(_http, url, both, auth)
        from .client.sse import SseTransport

        return partial(SseTransport, url, headers=both, auth=auth)
    if isinstance(command, str) and url is None:
        from .client.stdio import StdioServer, StdioTransport

        args = entry.get("args") or ()
        if not isinstance(args, Sequence) or isinstance(args, str) or not all(isinstance(arg, str) for arg in args):
            raise ConfigurationError('"args" of an mcpServers entry is a list of texts')
        server = StdioServer(command, *args, env=_texts(entry, "env"), cwd=entry.get("cwd"))
        return partial(StdioTransport, server)
    if "mcpServers" in entry:
        raise ConfigurationError('give one entry of the mcpServers, such as config["mcpServers"]["name"]')
    raise ConfigurationError('an entry of mcpServers has either "url" or "command", which are texts')


def _texts(entry: Mapping[str, Any], name: str) -> dict[str, str]:
    """A member that maps names to texts."""
    given = entry.get(name) or {}
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise ConfigurationError(f'"{name}" of an mcpServers entry is an object whose values are texts')
    return dict(given)


client.maker = maker
