"""The composition root of a server."""

from __future__ import annotations

from typing import Any

from .server.server import Server


def run(server: Server, **options: Any) -> None:
    raise NotImplementedError


def http_app(server: Server, **options: Any) -> Any:
    raise NotImplementedError
