"""Reading transcripts: which there are, and what belongs together in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backchannel.protocol.versions import LEGACY, MODERN, Version

from .checks import Sent, sent
from .scenario import pairs, record
from .transcript import Frame, Transcript

Json = dict[str, Any]


def transcripts(*features: str, versions: tuple[Version, ...] = (*LEGACY, *MODERN)) -> Iterator[Transcript]:
    """The recordings of all features, or of these."""
    for feature, version in pairs():
        if version in versions and (not features or feature in features):
            yield record(feature, version)


def connections(transcript: Transcript) -> list[list[Sent]]:
    """The messages of each connection."""
    found: dict[int, list[Sent]] = {}
    for one in sent(transcript):
        found.setdefault(one.frame.connection, []).append(one)
    return list(found.values())


def kind(one: Sent, sender: str, method: str) -> bool:
    return one.frame.sender == sender and one.message.get("method") == method


def typed(value: Any) -> tuple[type, Any]:
    """A value that differs from one of another JSON type."""
    return type(value), value


def posts(transcript: Transcript) -> Iterator[tuple[Frame, list[Frame]]]:
    """Each POST, with the frames of its response."""
    for frame in transcript.frames:
        if frame.head[:1] == ("POST /mcp",):
            of_it = [one for one in transcript.frames if one.exchange == frame.exchange and one.sender == "server"]
            yield frame, of_it


def events(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame.prefix == "data: " and frame.data is not None]
