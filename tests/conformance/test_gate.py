"""The gate over the conformance suite: every way to fail is seen to fail."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance import gate

EXPECTED = gate.Expected(
    "suite@1",
    {"server-2025-11-25": {"ping": 2}, "client-2026-07-28": {"initialize": 1, "http-headers": 2}},
    {"http-headers:name": 1},
    {"auth/*": "OAuth"},
)
STAMP = "2026-07-28T10-11-12-131Z"


def check(status: str, id: str = "some-check", **members: Any) -> dict[str, Any]:
    return {"id": id, "status": status, **members}


RIGHT: dict[str, Any] = {
    f"server-2025-11-25/server-ping-{STAMP}": [check("SUCCESS"), check("SUCCESS", "wire"), check("INFO")],
    f"client-2026-07-28/initialize-{STAMP}": [check("SUCCESS")],
    f"client-2026-07-28/http-headers-{STAMP}": [check("SUCCESS"), check("SUCCESS"), check("SKIPPED", "name")],
    f"client-2026-07-28/auth/basic-{STAMP}": [check("FAILURE")],
}
EXITS: dict[str, int | None] = {
    "server-2025-11-25": 0,
    "client-2026-07-28": 1,
    "client-2026-07-28:initialize": 0,
    "client-2026-07-28:http-headers": 0,
}
PING, INITIALIZE, HEADERS, _ = RIGHT


def write(out: Path, tree: Mapping[str, Any], exits: Any = EXITS) -> Path:
    for folder, checks in tree.items():
        (out / folder).mkdir(parents=True, exist_ok=True)
        text = checks if isinstance(checks, str) else json.dumps(checks)
        (out / folder / "checks.json").write_text(text, encoding="utf-8")
    (out / "exits.json").write_text(exits if isinstance(exits, str) else json.dumps(exits), encoding="utf-8")
    return out


def judged(out: Path, tree: Mapping[str, Any] = RIGHT, exits: Any = EXITS) -> list[str]:
    return gate.judge(EXPECTED, gate.Found.load(write(out, tree, exits)))


def without(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def test_what_is_right_passes(tmp_path: Path) -> None:
    assert judged(tmp_path) == []


@pytest.mark.parametrize(
    ("folder", "checks", "problem"),
    [
        (
            PING,
            [*RIGHT[PING], check("FAILURE", "x", errorMessage="no\npong")],
            "server-2025-11-25: ping: FAILURE x: no pong",
        ),
        (
            PING,
            [*RIGHT[PING], check("WARNING", "x", description="slow")],
            "server-2025-11-25: ping: WARNING x: slow",
        ),
        (PING, [*RIGHT[PING], check("NEW", "x")], "server-2025-11-25: ping: NEW x: no reason given"),
        (PING, [*RIGHT[PING], {"id": "x"}], "server-2025-11-25: ping: None x: no reason given"),
        (
            PING,
            [*RIGHT[PING], check("SKIPPED", "name")],
            "server-2025-11-25: ping: SKIPPED name, 1 times where 0 are allowed",
        ),
        (
            HEADERS,
            [*RIGHT[HEADERS], check("SKIPPED", "name")],
            "client-2026-07-28: http-headers: SKIPPED name, 2 times where 1 are allowed",
        ),
        (PING, [check("SUCCESS")], "server-2025-11-25: ping: 1 checks succeeded, 2 are expected"),
        (PING, [check("INFO")] * 9, "server-2025-11-25: ping: 0 checks succeeded, 2 are expected"),
        (INITIALIZE, [], "client-2026-07-28: initialize: checked nothing"),
        (
            f"server-2025-11-25/server-new-one-{STAMP}",
            [check("SUCCESS")],
            "server-2025-11-25: new-one: is not in expected.toml; 1 checks succeeded",
        ),
        (
            f"server-2025-11-25/server-new-one-{STAMP}",
            [],
            "server-2025-11-25: new-one: checked nothing",
        ),
    ],
)
def test_bad_checks(tmp_path: Path, folder: str, checks: list[Any], problem: str) -> None:
    assert judged(tmp_path, {**RIGHT, folder: checks}) == [problem]


def test_many_bad_checks_are_cut_short(tmp_path: Path) -> None:
    bad = [check("FAILURE", f"f{number}") for number in range(5)]
    problems = judged(tmp_path, {**RIGHT, PING: [*RIGHT[PING], *bad]})
    assert len(problems) == 4
    assert problems[-1] == "server-2025-11-25: ping: and 2 more like these"


def test_a_scenario_that_did_not_run(tmp_path: Path) -> None:
    assert judged(tmp_path, without(RIGHT, PING)) == ["server-2025-11-25: ping: did not run"]


def test_a_run_that_is_missing(tmp_path: Path) -> None:
    assert judged(tmp_path, RIGHT, without(EXITS, "server-2025-11-25")) == ["server-2025-11-25 was not run"]


def test_a_run_that_nothing_is_expected_of(tmp_path: Path) -> None:
    assert judged(tmp_path, RIGHT, {**EXITS, "client-all": 0}) == ["client-all is not in expected.toml"]


@pytest.mark.parametrize(
    ("name", "status", "problem"),
    [
        ("server-2025-11-25", None, "server-2025-11-25: did not end in time"),
        ("server-2025-11-25", -9, "server-2025-11-25: the suite ended with exit status -9"),
        ("client-2026-07-28", 2, "client-2026-07-28: the suite ended with exit status 2"),
        ("client-2026-07-28:initialize", None, "client-2026-07-28:initialize: did not end in time"),
        (
            "client-2026-07-28:initialize",
            1,
            "client-2026-07-28:initialize: the client failed, or the scenario by itself (exit status 1)",
        ),
    ],
)
def test_bad_ends(tmp_path: Path, name: str, status: int | None, problem: str) -> None:
    assert judged(tmp_path, RIGHT, {**EXITS, name: status}) == [problem]


def test_a_client_whose_exit_status_nobody_saw(tmp_path: Path) -> None:
    exits = without(EXITS, "client-2026-07-28:initialize")
    assert judged(tmp_path, RIGHT, exits) == ["client-2026-07-28: initialize: was not run by itself"]


@pytest.mark.parametrize(
    "tree",
    [
        {**RIGHT, PING: "[{"},
        {**RIGHT, PING: {"status": "SUCCESS"}},
        {**RIGHT, PING: ["SUCCESS"]},
        {**RIGHT, PING.replace("10-11", "10-12"): RIGHT[PING]},
    ],
    ids=["cut off", "an object", "strings", "twice"],
)
def test_unreadable_checks(tmp_path: Path, tree: dict[str, Any]) -> None:
    with pytest.raises(gate.Unreadable):
        judged(tmp_path, tree)


def test_no_run_at_all(tmp_path: Path) -> None:
    with pytest.raises(gate.Unreadable, match=r"exits\.json"):
        gate.Found.load(tmp_path)


def test_later_work_does_not_count_until_it_is_due(tmp_path: Path) -> None:
    found = gate.Found.load(write(tmp_path, RIGHT))
    due = gate.Expected(EXPECTED.suite, EXPECTED.runs, EXPECTED.skipped)
    assert gate.judge(due, found)[0] == "client-2026-07-28: auth/basic: FAILURE some-check: no reason given"


def test_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status, the page, and a run of a part."""
    table = tmp_path / "expected.toml"
    table.write_text('suite = "suite@1"\n[runs.server-2025-11-25]\nping = 2\n[runs.server-all]\nping = 2\n')
    page = tmp_path / "conformance.md"
    for name, value in (("OUT", tmp_path), ("EXPECTED", table), ("PAGE", page)):
        monkeypatch.setattr(gate, name, value)
    assert gate.main() == 1  # nothing was run
    write(tmp_path, {PING: RIGHT[PING]}, {"server-2025-11-25": 0})
    assert gate.main(["server-2025-11-25"]) == 0
    assert not page.exists()
    assert gate.main() == 1
    assert page.exists()
    assert "server-all was not run" in capsys.readouterr().out


def test_the_page_is_the_same_for_the_same_findings(tmp_path: Path) -> None:
    found = gate.Found.load(write(tmp_path / "a", RIGHT))
    later = {folder.replace("T10", "T23"): checks for folder, checks in reversed(RIGHT.items())}
    again = gate.Found.load(write(tmp_path / "b", later))
    page = gate.page(EXPECTED, found)
    assert page == gate.page(EXPECTED, again)
    assert "| ping | 2 |\n" in page
    assert "- `auth/*`: OAuth\n" in page
    assert "auth/basic" not in page
    assert "2026-07-28T" not in page and str(tmp_path) not in page


def test_the_page_shows_what_fails(tmp_path: Path) -> None:
    exits = {**EXITS, "client-2026-07-28:initialize": 1}
    page = gate.page(EXPECTED, gate.Found.load(write(tmp_path, {**RIGHT, PING: [check("FAILURE")]}, exits)))
    assert "| ping | **fails** (0 of 2) |\n" in page
    assert "| initialize | **fails** (1 of 1) |\n" in page


def test_what_is_learned_is_what_is_expected(tmp_path: Path) -> None:
    found = gate.Found.load(write(tmp_path / "out", {PING: RIGHT[PING]}, {"server-2025-11-25": 0}))
    table = tmp_path / "expected.toml"
    table.write_text('suite = "suite@1"\n' + gate.learned(found), encoding="utf-8")
    expected = gate.Expected.load(table)
    assert expected.runs == {"server-2025-11-25": {"ping": 2}}
    assert gate.judge(expected, found) == []


def test_the_table_itself() -> None:
    """No count of nought, nothing that is counted and left to later, no pattern without a reason."""
    expected = gate.Expected.load(gate.EXPECTED)
    counts = [(run, name, count) for run, table in expected.runs.items() for name, count in table.items()]
    assert [row for row in counts if row[2] < 1] == []
    assert [row for row in counts if expected.waits_for(row[1])] == []
    assert all(expected.later.values())
    assert {run for run in expected.runs if run.startswith("client-2")} == {"client-2025-11-25", "client-2026-07-28"}
