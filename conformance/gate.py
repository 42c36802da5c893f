"""Judges what the conformance suite found, and writes docs/conformance.md. `conformance/run` calls it.

    python conformance/gate.py            judge the last run again
    python conformance/gate.py --learn    print its counts, in the form that expected.toml has

The suite's own summary passes over warnings, skipped checks, clients that crash, and scenarios that checked nothing. So
this reads every `checks.json`, and everything counts that is not expected: `expected.toml` says how many checks succeed
in each scenario, which may be skipped, and which scenarios are left to later work.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT, EXPECTED, PAGE = HERE / ".out", HERE / "expected.toml", HERE.parent / "docs" / "conformance.md"
FINISHED = (0, 1)
"""Exit statuses of a run over many scenarios; 1 says that some failed, and the checks say which."""
SHOWN = 3  # bad checks of one scenario that are written out
_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


class Unreadable(Exception):
    """A file that should be there and sound is not."""


@dataclass(frozen=True)
class Expected:
    """What a right run has.

    suite: the npm package, with its version.  runs: run -> scenario -> how many checks succeed, at least.
    skipped: "scenario:check" -> how many may be skipped.
    later: pattern of scenarios -> what they wait for; they run and do not count.
    """

    suite: str
    runs: Mapping[str, Mapping[str, int]]
    skipped: Mapping[str, int] = field(default_factory=dict)
    later: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Expected:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(table["suite"], table["runs"], table.get("skipped", {}), table.get("later", {}))

    def only(self, runs: Collection[str]) -> Expected:
        """What some of the runs have."""
        return replace(self, runs={run: table for run, table in self.runs.items() if run in runs})

    def waits_for(self, scenario: str) -> str | None:
        """What a scenario that does not count yet waits for."""
        return next((reason for pattern, reason in self.later.items() if fnmatchcase(scenario, pattern)), None)

    def client_scenarios(self) -> Iterator[tuple[str, str]]:
        """The runs of one scenario each, for the client's exit status: the run they belong to, and the scenario."""
        for run, scenarios in self.runs.items():
            if run.startswith("client-2"):
                yield from ((run, scenario) for scenario in scenarios if self.waits_for(scenario) is None)


@dataclass(frozen=True)
class Found:
    """What a run gave. checks: run -> scenario -> its checks.  exits: run, or "run:scenario" of a single client, ->
    exit status, None if it did not end in time."""

    checks: Mapping[str, Mapping[str, list[dict[str, Any]]]]
    exits: Mapping[str, int | None]

    @classmethod
    def load(cls, out: Path) -> Found:
        """Raises: Unreadable."""
        exits = _json(out / "exits.json")
        return cls({run: _scenarios(out / run, run) for run in exits if ":" not in run}, exits)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path.name} of {path.parent.name}: {error}") from error


def _scenarios(folder: Path, run: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.rglob("checks.json")):
        scenario = _STAMP.sub("", path.parent.relative_to(folder).as_posix())
        if run.startswith("server-"):
            scenario = scenario.removeprefix("server-")
        checks = _json(path)
        if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
            raise Unreadable(f"{run}: {scenario}: checks.json is no list of checks")
        if scenario in found:
            raise Unreadable(f"{run}: {scenario} ran twice")
        found[scenario] = checks
    return found


def judge(expected: Expected, found: Found) -> list[str]:
    """What is wrong, one line each; empty if all is right."""
    problems = [f"{run} was not run" for run in expected.runs if run not in found.checks]
    problems += [f"{run} is not in expected.toml" for run in found.checks if run not in expected.runs]
    for run, scenarios in found.checks.items():
        wanted = expected.runs.get(run, {})
        problems += [
            f"{run}: {name}: did not run" for name in wanted if name not in scenarios and not expected.waits_for(name)
        ]
        for name, checks in scenarios.items():
            if expected.waits_for(name) is None:
                problems += [f"{run}: {name}: {text}" for text in _wrong(name, checks, wanted.get(name), expected)]
    return problems + list(_ends(expected, found))


def _wrong(scenario: str, checks: list[dict[str, Any]], wanted: int | None, expected: Expected) -> Iterator[str]:
    if not checks:
        yield "checked nothing"
        return
    bad = [check for check in checks if check.get("status") not in ("SUCCESS", "INFO", "SKIPPED")]
    for check in bad[:SHOWN]:
        yield f"{check.get('status')} {check.get('id')}: {_reason(check)}"
    if len(bad) > SHOWN:
        yield f"and {len(bad) - SHOWN} more like these"
    skipped = Counter(str(check.get("id")) for check in checks if check.get("status") == "SKIPPED")
    for id, count in skipped.items():
        allowed = expected.skipped.get(f"{scenario}:{id}", 0)
        if count > allowed:
            yield f"SKIPPED {id}, {count} times where {allowed} are allowed"
    succeeded = _succeeded(checks)
    if wanted is None:
        yield f"is not in expected.toml; {succeeded} checks succeeded"
    elif succeeded < wanted:
        yield f"{succeeded} checks succeeded, {wanted} are expected"


def _reason(check: dict[str, Any]) -> str:
    return " ".join(str(check.get("errorMessage") or check.get("description") or "no reason given").split())[:300]


def _succeeded(checks: list[dict[str, Any]]) -> int:
    return sum(check.get("status") == "SUCCESS" for check in checks)


def _ends(expected: Expected, found: Found) -> Iterator[str]:
    for run, scenario in expected.client_scenarios():
        if f"{run}:{scenario}" not in found.exits:
            yield f"{run}: {scenario}: was not run by itself"
    for name, status in found.exits.items():
        if status is None:
            yield f"{name}: did not end in time"
        elif ":" in name and status != 0:
            yield f"{name}: the client failed, or the scenario by itself (exit status {status})"
        elif status not in FINISHED:
            yield f"{name}: the suite ended with exit status {status}"


# The page.

_HEAD = """\
# Conformance

What the official conformance suite finds: `{suite}`. `conformance/run` runs it and
writes this page; `make test` includes it. The fixtures are `conformance/server.py` and `conformance/client.py`, which
use nothing but the public API.

A number is how many checks succeeded. A scenario passes with no failure, no warning, no skipped check but those named
below, and at least as many successful checks as `conformance/expected.toml` says; a client must also exit with 0.
"""


def page(expected: Expected, found: Found) -> str:
    """The table as Markdown: the same for the same findings."""
    parts = [_HEAD.format(suite=expected.suite)]
    for role in ("server", "client"):
        runs = sorted(run for run in found.checks if run.startswith(role))
        every = {name for run in runs for name in found.checks[run]}
        names = sorted(name for name in every if expected.waits_for(name) is None)
        head = [f"| {role} scenario |" + "".join(f" {run.removeprefix(role + '-')} |" for run in runs)]
        head.append("| --- |" + " ---: |" * len(runs))
        rows = [f"| {name} |" + "".join(f" {_cell(expected, found, run, name)} |" for run in runs) for name in names]
        totals = [sum(_succeeded(found.checks[run].get(name, [])) for name in names) for run in runs]
        rows.append("| **all** |" + "".join(f" **{total}** |" for total in totals))
        parts.append("\n".join([*head, *rows]) + "\n")
    if expected.skipped:
        parts.append("Skipped by the suite itself:\n\n" + "".join(f"- `{id}`\n" for id in sorted(expected.skipped)))
    if expected.later:
        later = "".join(f"- `{pattern}`: {reason}\n" for pattern, reason in sorted(expected.later.items()))
        parts.append("Run, and not counted yet:\n\n" + later)
    return "\n".join(parts)


def _cell(expected: Expected, found: Found, run: str, name: str) -> str:
    checks = found.checks[run].get(name)
    if checks is None:
        return ""
    wanted = expected.runs.get(run, {}).get(name)
    if any(True for _ in _wrong(name, checks, wanted, expected)) or found.exits.get(f"{run}:{name}", 0) != 0:
        return f"**fails** ({_succeeded(checks)} of {wanted or '?'})"
    return str(_succeeded(checks))


def learned(found: Found) -> str:
    """The counts of a run, as expected.toml has them."""
    lines = []
    for run, scenarios in found.checks.items():
        lines.append(f"\n[runs.{run}]")
        lines += [f'"{name}" = {_succeeded(checks)}' for name, checks in sorted(scenarios.items())]
    return "\n".join(lines)


def main(runs: Collection[str] = ()) -> int:
    """Judge the last run, and write the page if it was a whole one. runs: the ones that there were, if not all.

    Returns the exit status.
    """
    expected = Expected.load(EXPECTED)
    try:
        found = Found.load(OUT)
    except Unreadable as error:
        print(f"conformance: {error}")
        return 1
    if runs:
        expected = expected.only(runs)
    else:
        PAGE.write_text(page(expected, found), encoding="utf-8")
    problems = judge(expected, found)
    for problem in problems:
        print(problem)
    total = sum(_succeeded(checks) for scenarios in found.checks.values() for checks in scenarios.values())
    print(f"conformance: {len(problems)} problems; {total} checks succeeded in {len(found.checks)} runs")
    return 1 if problems else 0


if __name__ == "__main__":
    if "--learn" in sys.argv:
        print(learned(Found.load(OUT)))
        sys.exit(0)
    sys.exit(main())
