"""The pytest plugin, in a pytest of its own, as a user has it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gates.source import ROOT, SRC
from tests.gates.test_docs import blocks

TEST = """
import pytest
from backchannel.testing import accept
from tests.testing.shop import server

@pytest.mark.anyio
async def test_order(connected):
    async with connected(server, people=[accept({"size": "M"}), True]) as client:
        assert (await client.call_tool("order", {"name": "Ada"})).text == "Ada: M"
"""
CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


def run(folder: Path, test: str, conftest: str = "", *options: str) -> str:
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {SRC} {ROOT}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "backchannel.testing.plugin", "-p", "no:cacheprovider", *options]
    done = subprocess.run([*command, str(folder)], cwd=folder, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_the_first_sample_of_the_documentation(tmp_path: Path) -> None:
    shop, test = (next(code for _, code in blocks(ROOT / page, "python")) for page in ("README.md", "docs/testing.md"))
    (tmp_path / "shop.py").write_text(shop, encoding="utf-8")
    said = run(tmp_path, test, CONFTEST)
    assert "6 passed" in said, said


def test_a_test_runs_on_every_wire_in_both_eras(tmp_path: Path) -> None:
    said = run(tmp_path, TEST, CONFTEST, "-v")
    assert "6 passed" in said, said
    for era in ("legacy", "modern"):
        for wire in ("memory", "stdio", "http"):
            assert f"test_order[{era}-{wire}] PASSED" in said


def test_on_trio_there_is_no_http(tmp_path: Path) -> None:
    said = run(tmp_path, TEST, CONFTEST.replace("asyncio", "trio"))
    assert "4 passed, 2 skipped" in said, said


def test_fewer_cells_and_a_fake_clock(tmp_path: Path) -> None:
    mark = '@pytest.mark.parametrize("connected", ["modern-http", "legacy-stdio"], indirect=True)\n'
    test = TEST.replace("@pytest", mark + "@pytest", 1).replace("(connected)", "(connected, fake_clock)")
    test = test.replace('"M"}), True]', '"M"}, after=90), True]') + "        assert fake_clock.passed >= 90\n"
    conftest = CONFTEST.replace("def anyio_backend()", "def anyio_backend(fake_clock)").replace(
        'return "asyncio"', "return fake_clock.backend()"
    )
    said = run(tmp_path, test, conftest)
    assert "2 passed" in said, said


def test_an_answer_too_many_is_a_failure_that_says_so(tmp_path: Path) -> None:
    said = run(tmp_path, TEST.replace("True]", "True, False]"), CONFTEST)
    assert "6 failed" in said, said
    assert "ScriptError: the script has answers that nobody asked for: decline()" in said


@pytest.mark.parametrize("module", ["backchannel.testing", "backchannel.testing.plugin"])
def test_it_loads_nothing_before_it_is_used(module: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"pydantic", "anyio", "msgspec", "backchannel.server", "backchannel.client"}
    assert ("pytest" in loaded) is module.endswith("plugin")
