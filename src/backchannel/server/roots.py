"""The client's roots as a handler sees them (client/roots)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from ..protocol.types.roots import Root
from .options import listed

PATH_MAX = 4096
"""Bytes of a path. What is longer names nothing on any host, and is slow to resolve."""
MOST = 1000
MOST_BYTES = 64 * 1024
"""How many roots of an answer are looked at, and how much JSON they may be."""
logger = logging.getLogger("backchannel.server")


class RootList(Sequence[Root]):
    """The roots, in the client's order. Empty is an answer: nothing is allowed."""

    def __init__(self, roots: Sequence[Root]):
        self._roots = tuple(roots)
        self._paths = [path for root in self._roots if (path := _path(root.uri)) is not None]

    @classmethod
    def of(cls, places: Sequence[str | os.PathLike[str]]) -> RootList:
        """The roots of paths and `file:` URIs. Raises: ConfigurationError for what is no list of these."""
        texts = [os.fspath(place) for place in listed("roots", places, (str, os.PathLike))]
        return cls([Root(text if text.startswith("file:") else Path(text).absolute().as_uri()) for text in texts])

    @classmethod
    def answered(cls, roots: Sequence[Root]) -> RootList:
        """The roots of a client's answer. Those above the bounds are left out, so what lies in them is not allowed."""
        taken: list[Root] = []
        size = 0
        for root in roots[:MOST]:
            size += len(msgspec.json.encode(root))
            if size > MOST_BYTES:
                break
            taken.append(root)
        if len(taken) < len(roots):
            logger.warning("the client has %d roots; only the first %d are looked at", len(roots), len(taken))
        return cls(taken)

    def __len__(self) -> int:
        return len(self._roots)

    def __getitem__(self, index: int) -> Root:  # type: ignore[override]
        return self._roots[index]

    def __iter__(self) -> Iterator[Root]:
        return iter(self._roots)

    def __repr__(self) -> str:
        return f"RootList({[root.uri for root in self._roots]!r})"

    def within(self, bounds: RootList) -> RootList:
        """These roots, as far as they lie in `bounds`: of one that reaches beyond them, what lies in them."""
        inside = [root for root in self._roots if bounds.contains(root.uri)]
        return RootList([*inside, *(bound for bound in bounds if self.contains(bound.uri) and bound not in inside)])

    def contains(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path or `file:` URI lies in one of the roots, by whole segments, after percent-encoding, `..` and
        symbolic links are resolved."""
        wanted = _path(os.fspath(path))
        return wanted is not None and any(_inside(wanted, root) for root in self._paths)


def _path(place: str) -> str | None:
    """The real path of a path or `file:` URI of this host; None for any other URI."""
    if place.startswith("file:"):
        try:
            parts = urlsplit(place)
        except ValueError:  # such as file://[
            return None
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            return None
        place = unquote(parts.path)
        if os.name == "nt" and place[:1] == "/" and place[2:3] == ":":
            place = place[1:]
    elif "://" in place:
        return None
    if "\0" in place or not place or len(place) > PATH_MAX:
        return None
    try:
        return os.path.normcase(os.path.realpath(place)) if len(os.fsencode(place)) <= PATH_MAX else None
    except UnicodeEncodeError:  # half a surrogate pair
        return None


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)
