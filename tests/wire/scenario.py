"""Scenarios: one function is a server and what a client does with it, run on every version that has the feature."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio

from backchannel.protocol.versions import FEATURES, LEGACY, MODERN, SUPPORTED, Features, Version

from . import scenarios
from .recorder import Recorder
from .transcript import Transcript

FOLDER = Path(__file__).parent
PATIENCE = 30.0
"""Seconds after which a scenario has failed. Nothing is measured with it."""
Script = Callable[[Recorder], Awaitable[None]]

SCENARIOS: dict[str, Scenario] = {}


@dataclass(frozen=True)
class Scenario:
    """A feature, the versions that have it, one sentence about it, and the script that shows it."""

    feature: str
    versions: tuple[Version, ...]
    summary: str
    script: Script

    def path(self, version: Version) -> Path:
        """Where its transcript at a version is kept."""
        return FOLDER / self.feature / f"{version}.txt"


def scenario(feature: str, summary: str, versions: Iterable[Version] = SUPPORTED) -> Callable[[Script], Script]:
    """Register a script. versions: those that have the feature."""

    def register(script: Script) -> Script:
        assert feature not in SCENARIOS, feature
        SCENARIOS[feature] = Scenario(feature, tuple(versions), " ".join(summary.split()), script)
        return script

    return register


def having(condition: Callable[[Features], object]) -> tuple[Version, ...]:
    """The versions whose row of FEATURES is so."""
    return tuple(version for version in SUPPORTED if condition(FEATURES[version]))


STREAMABLE = tuple(version for version in LEGACY if version is not LEGACY[-1])
"""The legacy versions that have streamable HTTP: all but the first, whose HTTP transport was another."""


def load() -> dict[str, Scenario]:
    """All scenarios."""
    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    return SCENARIOS


@functools.cache
def record(feature: str, version: Version) -> Transcript:
    """Run a scenario at a version, once, and give what went over the wire."""
    return run(load()[feature], version)


def run(scenario: Scenario, version: Version) -> Transcript:
    """Run a scenario at a version."""
    transcript = Transcript(scenario.feature, str(version), scenario.summary)

    async def play() -> None:
        with anyio.fail_after(PATIENCE):
            await scenario.script(Recorder(transcript, version))

    anyio.run(play)
    return transcript


def pairs() -> list[tuple[str, Version]]:
    """Every feature with every version that has it."""
    return [(found.feature, version) for found in load().values() for version in reversed(found.versions)]


__all__ = ["LEGACY", "MODERN", "STREAMABLE", "SUPPORTED", "having", "load", "pairs", "record", "run", "scenario"]
