"""The examples check themselves."""

import subprocess
import sys

import pytest

from tests.cli.programs import PATIENCE, environment
from tests.gates.source import ROOT

SAYS = {
    "login.py": ["page 200: ", "nothing logins: 1", "page 200: ", "alice wrote it down", "buy beans logins: 2"],
    "program.py": ["nightly", "billing with a bound token", "pod:etl"],
}


@pytest.mark.rule("R168")
@pytest.mark.parametrize("name", SAYS)
def test_authorization(name: str) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "authorization" / name)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(SAYS[name]), lines
    assert all(line.startswith(start) for line, start in zip(lines, SAYS[name], strict=True)), lines
