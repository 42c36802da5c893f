"""The documentation: every Python sample compiles, those that begin with `# runs` run, every command has a test."""

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.source import ROOT, SRC

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Every command in the README -> what runs it: a file, or a test in a file.
COMMANDS = {
    "make demo": "tests/cli/test_demo.py::test_make_demo_runs_the_demo",
    "make test": ".ci/run",
    "backchannel run shop.py": "tests/cli/test_readme.py::test_run",
    "backchannel run shop.py --http 127.0.0.1:8000": "tests/cli/test_readme.py::test_run_http_and_call",
    "backchannel call http://127.0.0.1:8000/mcp coffee name=Ada": "tests/cli/test_readme.py::test_run_http_and_call",
    "backchannel call shop.py coffee name=Ada --version legacy": "tests/cli/test_readme.py::test_call",
    'backchannel call "python shop.py" coffee name=Ada --json': "tests/cli/test_readme.py::test_call",
    "backchannel call mcp.json:shop coffee name=Ada": "tests/cli/test_readme.py::test_call_from_a_configuration",
    "backchannel list shop.py": "tests/cli/test_readme.py::test_list",
    "backchannel demo --interactive --wire modern-http": "tests/cli/test_demo.py::test_a_person_at_the_keyboard",
}


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """The fenced blocks of a language, with the line each begins at."""
    text = page.read_text(encoding="utf-8")
    for fence in re.finditer(rf"^([ ]*)```{language}\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, fence.start()) + 2, textwrap.dedent(fence[2])


SAMPLES = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}:{line}")
    for page in PAGES
    if page.exists()
    for line, code in blocks(page, "python")
]


@pytest.mark.parametrize("code", SAMPLES)
def test_samples_compile(code: str) -> None:
    compile(code, "<sample>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("code", [sample for sample in SAMPLES if str(sample.values[0]).startswith("# runs")])
def test_samples_run(code: str, tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(sample)]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def readme_commands() -> list[str]:
    lines = [line.strip() for _, code in blocks(ROOT / "README.md", "sh") for line in code.splitlines()]
    return [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in lines if line and not line.startswith("#")]


def test_every_command_in_the_readme_is_run_by_a_test() -> None:
    assert set(readme_commands()) == COMMANDS.keys()
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    for runner in COMMANDS.values():
        path, _, test = runner.partition("::")
        assert (ROOT / path).exists(), f"{path} is not there"
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{runner} is not there"
