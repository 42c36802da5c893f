"""Roots: the client's directories (client/roots). Deprecated since 2026-07-28: pass paths as arguments."""

from __future__ import annotations

from .base import Meta, Wire, meta


class Root(Wire):
    """One root: a `file://` URI, and a name for display."""

    uri: str
    name: str | None = None
    meta: Meta | None = meta()


class ListRootsResult(Wire):
    """The answer to `roots/list`."""

    roots: list[Root]
    meta: Meta | None = meta()
