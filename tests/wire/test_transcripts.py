"""The transcripts: each is what goes over the wire now, there is one for each feature and version, and every message in
them is one that its version has."""

import difflib

import pytest

from backchannel.protocol.methods import METHODS, Direction
from backchannel.protocol.versions import SUPPORTED, Version

from .checks import faults, sent
from .scenario import FOLDER, load, pairs, record, run
from .transcript import Transcript

PAIRS = pytest.mark.parametrize(
    ("feature", "version"), [pytest.param(*pair, id=f"{pair[0]}-{pair[1]}") for pair in pairs()]
)
UNSENT = {"notifications/elicitation/complete"}
"""Methods that no side of ours sends."""


@PAIRS
def test_the_transcript_is_what_goes_over_the_wire(feature: str, version: Version) -> None:
    path, now = load()[feature].path(version), record(feature, version).text()
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    if kept == now:
        return
    name = str(path.relative_to(FOLDER.parents[1]))
    lines = difflib.unified_diff(kept.splitlines(), now.splitlines(), name, "what goes over the wire", lineterm="")
    pytest.fail("\n".join([*lines, "", f"If it should: python -m tests.wire.record {feature}"]), pytrace=False)


@PAIRS
def test_every_message_is_one_that_the_version_has(feature: str, version: Version) -> None:
    assert faults(record(feature, version), version) == []


def test_no_file_is_without_a_scenario() -> None:
    wanted = {load()[feature].path(version) for feature, version in pairs()}
    assert set(FOLDER.glob("*/*.txt")) - wanted == set()


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_method_of_a_version_is_in_a_transcript_of_it(version: Version) -> None:
    seen: set[str] = set()
    for feature, other in pairs():
        if other is version:
            seen |= methods(record(feature, version))
    has = {name for name, method in METHODS.items() if method.senders.get(version, Direction(0))}
    assert has - seen - UNSENT == set()


def methods(transcript: Transcript) -> set[str]:
    """The methods of all messages, and of the questions inside results."""
    found = set()
    for one in sent(transcript):
        found.add(one.message.get("method"))
        result = one.message.get("result")
        if isinstance(result, dict):
            found |= {question["method"] for question in result.get("inputRequests", {}).values()}
    return {name for name in found if name is not None}


@pytest.mark.parametrize("feature", ["two-rounds", "gather", "elicit-url", "http-session", "http-call", "http-listen"])
def test_a_recording_is_the_same_each_time(feature: str) -> None:
    scenario = load()[feature]
    version = scenario.versions[0]
    assert run(scenario, version).text() == record(feature, version).text()
