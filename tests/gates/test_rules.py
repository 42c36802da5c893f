"""scripts/rules.py: what is due, what counts as shown, and that a gap fails."""

from pathlib import Path

import pytest

from scripts.rules import due, main

TESTS = """
import pytest
pytestmark = [pytest.mark.anyio, pytest.mark.rule("R1")]

@pytest.mark.rule("R2", "P3")
async def test_two(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.case("A03"))])
def test_parameter(x): ...

@pytest.mark.case("A04")
class TestClass:
    pytestmark = pytest.mark.rule("R5")
    def test_inside(self): ...

@pytest.mark.skip
@pytest.mark.rule("R6")
def test_skipped(): ...

@pytest.mark.rule("R7")
def helper(): ...
"""


def write(root: Path, tests: str, due: str) -> Path:
    (root / "tests").mkdir()
    (root / "tests" / "test_it.py").write_text(tests, encoding="utf-8")
    (root / "tests" / "due.txt").write_text(due, encoding="utf-8")
    return root


def test_ranges() -> None:
    assert due("# none\nR1-R3, P12\nA09-A11 # yes\n\n") == ["R1", "R2", "R3", "P12", "A09", "A10", "A11"]


@pytest.mark.parametrize("text", ["R1-P3", "R", "41", "R1 - R3"])
def test_a_due_list_with_a_mistake_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        due(text)


def test_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path, TESTS, "R1 R2 P3 A03-A04 R5")) == 0
    printed = capsys.readouterr().out
    assert "R1  tests/test_it.py\n" in printed
    assert "P3  tests/test_it.py::test_two\n" in printed
    assert "R5  tests/test_it.py::TestClass\n" in printed


def test_a_gap_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path, TESTS, "R1-R2 R6-R7")) == 1
    assert capsys.readouterr().err == "no test shows: R6 R7\n"


@pytest.mark.parametrize("marker", ['rule("A03")', 'case("A3")', "rule(R41)"])
def test_a_marker_with_a_mistake_is_an_error(marker: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tests/test_it.py"):
        main(write(tmp_path, f"@pytest.mark.{marker}\ndef test_it(): ...", ""))
