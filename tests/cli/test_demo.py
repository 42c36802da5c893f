"""`backchannel demo`: the same handler over every wire."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backchannel.cli.demo import Played, _differences
from backchannel.cli.wires import WIRES
from tests.cli.programs import COMMAND, PATIENCE, Typist, backchannel, environment
from tests.gates.source import ROOT

NAMES = ["legacy-stdio", "modern-stdio", "legacy-http", "modern-http", "in-process"]


def test_the_demo_from_end_to_end(tmp_path: Path) -> None:
    done = backchannel("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert re.findall(r"^([a-z-]+): ", done.stdout, re.MULTILINE) == NAMES
    assert done.stdout.count("  charged  1 time(s)") == len(NAMES)
    results = set(re.findall(r"^  result   (.*)$", done.stdout, re.MULTILINE))
    assert len(results) == 1 and '"booked":true' in results.pop()
    assert done.stdout.endswith("5 wires: the same result, and the step 'charge' ran once on each.\n")
    assert list(tmp_path.iterdir()) == []


def test_the_modern_http_wire_goes_through_both_instances(tmp_path: Path) -> None:
    done = backchannel("demo", "--wire", "modern-http", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = re.findall(r"tools/call book .* \(round (\d)\) .*([AB])$", done.stdout, re.MULTILINE)
    assert calls == [("1", "B"), ("2", "A"), ("3", "B"), ("4", "A")]
    assert "version  2026-07-28" in done.stdout


def test_the_legacy_wire_shows_reverse_calls(tmp_path: Path) -> None:
    done = backchannel("demo", "--wire", "legacy-stdio", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (r"#\d elicitation/create", r"#\d sampling/createMessage", r"answer to #\d: accept", r"#\d roots/list"):
        assert re.search(text, done.stdout)
    assert "round" not in done.stdout


def test_a_person_at_the_keyboard(tmp_path: Path) -> None:
    with Typist("demo", "--interactive", "--wire", "modern-http", "--wire", "in-process", cwd=tmp_path) as typist:
        typist.sees("First day (YYYY-MM-DD):")
        typist.types("soon")
        typist.sees('First day: expected a date (YYYY-MM-DD), got "soon"')
        typist.sees("First day (YYYY-MM-DD):")
        typist.types("2026-12-24")
        typist.sees("Nights (integer, 1 to 14) [1]:")
        typist.types("")
        typist.sees("Room (single, double) [double]:")
        typist.types("single")
        typist.sees("assistant:")
        typist.types("Go")
        typist.sees("Book 1 night(s) in Oslo from 2026-12-24 for 80 EUR?")
        typist.sees("Answer (y/n):")
        typist.types("y")
        typist.sees("charged  1 time(s)")
        typist.sees("First day (YYYY-MM-DD):")
        typist.types("!no")
        typist.sees("assistant:")
        typist.types("Stay")
        typist.sees("charged  0 time(s)")
        assert typist.ends() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_its_servers_end_with_it(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--interactive", "--wire", "modern-http"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdin is not None and demo.stderr is not None
        while "The server asks" not in demo.stderr.readline():
            assert demo.poll() is None
        children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text(encoding="ascii").split()
        assert len(children) == 2
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(PATIENCE) == 130
    assert [child for child in children if Path(f"/proc/{child}").exists()] == []


def test_an_unknown_wire_is_a_usage_error() -> None:
    done = backchannel("demo", "--wire", "carrier-pigeon")
    assert done.returncode == 2
    assert "there are legacy-stdio, modern-stdio" in done.stderr


@pytest.mark.parametrize(
    ("other", "strict", "difference"),
    [
        (Played(WIRES[1], result=1, charges=1), True, None),
        (Played(WIRES[1], result=2, charges=1), True, "modern-stdio gave another result than legacy-stdio"),
        (Played(WIRES[1], result=1, charges=2), True, "modern-stdio ran the step 2 times"),
        (Played(WIRES[1], failure="lost", charges=1), True, "modern-stdio failed"),
        (Played(WIRES[1], result=2, charges=0), False, None),
        (Played(WIRES[1], result=2, charges=2), False, "modern-stdio ran the step 2 times"),
    ],
)
def test_differences_are_found(other: Played, strict: bool, difference: str | None) -> None:
    first = Played(WIRES[0], result=1, charges=1)
    assert list(_differences([first, other], strict)) == ([difference] if difference else [])


def test_make_demo_runs_the_demo() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1].endswith("bin/backchannel demo")
