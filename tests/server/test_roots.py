"""RootList: what lies in the client's roots, and how much of an answer is looked at."""

import json
import logging
from pathlib import Path

import pytest

from backchannel.server.asks import Roots
from backchannel.server.roots import MOST, MOST_BYTES, PATH_MAX, RootList


def answer(*uris: str) -> bytes:
    return json.dumps({"roots": [{"uri": uri} for uri in uris]}).encode()


@pytest.mark.parametrize("place", ["a/" * PATH_MAX, "é/" * (PATH_MAX // 2), "%61/" * PATH_MAX, "\ud800"])
def test_what_no_host_can_name_is_in_no_root_and_is_none(tmp_path: Path, place: str) -> None:
    roots = RootList.of([tmp_path])
    assert not roots.contains(f"{tmp_path}/{place}") and not roots.contains(f"file://{tmp_path}/{place}")
    if place.isascii():
        assert not Roots().read(answer(f"file:///{place}")).contains(f"/{place}")


@pytest.mark.parametrize(
    ("count", "name"), [(MOST + 500, "{}"), (20, "{}" + "x" * (MOST_BYTES // 10)), (2, "{}" + "x/" * MOST_BYTES)]
)
def test_an_answer_is_looked_at_up_to_a_bound(count: int, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "backchannel.server"):
        roots = Roots().read(answer(*(f"file:///{name.format(number)}" for number in range(count))))
    assert len(roots) < count and len(roots) <= MOST
    [record] = caplog.records
    assert f"the client has {count} roots; only the first {len(roots)}" in record.getMessage()


def test_what_lies_in_a_root_that_was_left_out_is_not_allowed() -> None:
    roots = Roots().read(answer(*(f"file:///r{number}" for number in range(MOST + 1))))
    assert roots.contains(f"/r{MOST - 1}/a") and not roots.contains(f"/r{MOST}/a")
