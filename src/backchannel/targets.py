"""What a Client can be pointed at, and the transport that goes there."""

from __future__ import annotations

from typing import Any

from .client import client
from .client.client import Client as Client
from .client.transport import Transport
from .errors import ConfigurationError


def resolve(target: Any, headers: dict[str, str] | None = None) -> Transport:
    """The transport for a target: a URL, a StdioServer, a Server, an entry of an mcpServers JSON, or a Transport.

    Raises: ConfigurationError that says what is possible.
    """
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        return _http(target, headers)
    if isinstance(target, dict):
        return _entry(target, headers)
    from .client.stdio import StdioServer, StdioTransport

    if isinstance(target, StdioServer):
        return StdioTransport(target)
    if hasattr(target, "send") and hasattr(target, "open"):
        return target  # type: ignore[no-any-return]
    from .server.server import Server

    if isinstance(target, Server):
        from .memory import MemoryTransport

        return MemoryTransport(target)
    raise ConfigurationError(
        f"a Client cannot connect to {target!r}: give a URL, a StdioServer(command, ...), a Server, an entry of an "
        "mcpServers JSON, or a Transport"
    )


def _http(url: str, headers: dict[str, str] | None) -> Transport:
    from .client.http import HttpTransport

    return HttpTransport(url, headers=headers)


def _entry(entry: dict[str, Any], headers: dict[str, str] | None) -> Transport:
    """One server of an mcpServers JSON: `command`, `args`, `env`, `cwd`; or `url`, `headers`."""
    if "url" in entry:
        return _http(entry["url"], {**entry.get("headers", {}), **(headers or {})})
    if "command" in entry:
        from .client.stdio import StdioServer, StdioTransport

        server = StdioServer(entry["command"], *entry.get("args", ()), env=entry.get("env"), cwd=entry.get("cwd"))
        return StdioTransport(server)
    raise ConfigurationError("an entry of mcpServers has either url or command")


client.resolve = resolve
