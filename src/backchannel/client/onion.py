"""Middleware: functions around a core, each with the next one inside. The server's are made in the same way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

Inner = Callable[[Any], Awaitable[Any]]
Layer = Callable[[Any, Inner], Awaitable[Any]]
"""`async def (value, call_next) -> result`: `await call_next(value)` goes on inwards, with this value or another."""


def onion(layers: Sequence[Layer], core: Inner) -> Inner:
    """The core with all layers around it; the first one is outermost."""
    call = core
    for layer in reversed(layers):
        call = _around(call, layer)
    return call


def _around(inner: Inner, layer: Layer) -> Inner:
    async def call(value: Any) -> Any:
        return await layer(value, inner)

    return call
